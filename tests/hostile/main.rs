//! Files that are damaged, or made to hurt. Whatever comes in: no panic, an answer in time, memory in proportion.
//!
//! The promise, which SECURITY.md makes to users: at most 64 MB and 8 × the unpacked input, and 10 seconds for each MB.

mod allocation;
mod bombs;
#[path = "../common/exercise.rs"]
mod exercise;
mod opcodes;
mod random;
#[path = "../common/texts.rs"]
mod texts;

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use exercise::{everything, exercise};
use opcodes::opcodes;
use random::Random;

#[global_allocator]
static ALLOCATOR: allocation::Counting = allocation::Counting;

/// Memory is counted for the whole process: one test at a time.
static ALONE: Mutex<()> = Mutex::new(());

/// How many changed files are tried; `OOMSCOPE_INPUTS` asks for another number.
const INPUTS: u64 = 200_000;

/// One changed file in so many goes through all commands, which takes some twenty times as long as the report.
const COMMANDS: u64 = 20;

/// Bytes that reading `input` bytes, and reporting on them, may take.
fn allowed(input: usize) -> usize {
    (64 << 20) + 8 * input
}

/// Keeps other tests from running: what they allocate, if only for their input, would count.
fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// Runs `work` on an input of `length` bytes, and holds it to the promise.
fn within_limits<T>(name: &str, length: usize, work: impl FnOnce() -> T) -> T {
    allocation::reset();
    let before = allocation::now();
    let (started, used) = (Instant::now(), processor_time());
    let result = work();
    let (took, peak) = (took(started, used), allocation::peak() - before);
    println!("{name}: {length} bytes, {:.3} s, {:.1} MB", took.as_secs_f64(), peak as f64 / 1e6);
    assert!(peak <= allowed(length), "{name}: {peak} bytes of memory for {length} bytes");
    let limit = Duration::from_secs_f64(10.0 * (length as f64 / 1e6).max(1.0));
    assert!(took <= limit, "{name}: {took:?} for {length} bytes");
    result
}

/// Processor time of this process; other programs on the machine do not count.
fn processor_time() -> Option<Duration> {
    let text = fs::read_to_string("/proc/self/stat").ok()?;
    // Behind the name, which is in brackets: user and system time are the 12th and 13th, in hundredths of a second.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let ticks = |at: usize| fields.get(at)?.parse::<u64>().ok();
    Some(Duration::from_millis(10 * (ticks(11)? + ticks(12)?)))
}

/// Time since `started`, or of the processor since the process had `used` as much.
fn took(started: Instant, used: Option<Duration>) -> Duration {
    match (used, processor_time()) {
        (Some(before), Some(now)) => now.saturating_sub(before),
        _ => started.elapsed(),
    }
}

fn testdata(directory: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata").join(directory)
}

/// The files directly in `directory`, smallest first.
fn files(directory: &str) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(testdata(directory)).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries
        .filter(|path| path.is_file())
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), fs::read(&path).unwrap()))
        .collect();
    files.sort_by_key(|(name, bytes)| (bytes.len(), name.clone()));
    files
}

/// Small real snapshots, to be changed.
fn bases() -> Vec<Vec<u8>> {
    let directories = ["cases", "rig/2.1.2", "rig/2.6.0", "rig/2.15.0"];
    let files = directories.into_iter().flat_map(files);
    files.filter(|(name, bytes)| name.ends_with(".pickle") && bytes.len() < 6000).map(|(_, bytes)| bytes).collect()
}

/// Every opcode of a small file is a place where it may break off.
#[test]
fn a_file_may_break_off_anywhere() {
    let _alone = alone();
    for name in ["cases/04_expandable_pages.pickle", "cases/12_two_devices.pickle", "rig/2.15.0/mempool.pickle"] {
        let pickle = fs::read(testdata(name)).unwrap();
        let mut end = 0;
        for opcode in opcodes(&pickle) {
            assert!(exercise(&pickle[..end]).is_err(), "{name} up to {end}");
            end += opcode.len();
        }
        assert_eq!(end, pickle.len(), "{name} is cut into all its opcodes");
        assert!(exercise(&pickle).is_ok(), "{name}");
    }
}

/// Inputs that once were too much, or that are of a kind of their own.
#[test]
fn collected_inputs_answer() {
    let _alone = alone();
    for directory in ["hostile", "cases", "formats"] {
        for (name, bytes) in files(directory) {
            let _ = within_limits(&name, bytes.len().max(100_000), || everything(&bytes));
        }
    }
}

/// Every wrapping, and JSON, with some bytes changed or cut off.
#[test]
fn damaged_wrappings_answer() {
    let _alone = alone();
    let mut random = Random(1);
    let mut wrapped = files("formats");
    wrapped.retain(|(name, _)| !name.ends_with(".pickle") && !name.ends_with(".md"));
    assert!(wrapped.len() > 5);
    let (name, packed) = wrapped.iter().find(|(name, _)| name.ends_with(".json.gz")).unwrap();
    let mut json = Vec::new();
    flate2::read::GzDecoder::new(&packed[..]).take(50_000).read_to_end(&mut json).unwrap();
    wrapped.push((name.replace(".gz", ""), json));
    for (name, whole) in wrapped {
        for _ in 0..60 {
            let mut bytes = whole.clone();
            for _ in 0..=random.below(3) {
                let at = random.below(bytes.len());
                bytes[at] ^= 1 << random.below(8);
            }
            if random.below(3) == 0 {
                bytes.truncate(random.below(bytes.len()));
            }
            // Unpacked they are up to 400 KB.
            within_limits(&name, 1_000_000, || exercise(&bytes).is_ok());
        }
    }
}

/// The texts that are read beside snapshots, the collected ones and damaged ones.
#[test]
fn collected_texts_answer() {
    let _alone = alone();
    let exercises: [fn(&[u8]); 4] = [texts::log, texts::nvidia_smi, texts::beside, conf];
    for directory in ["hostile", "oom", "requests", "rules"] {
        for (name, bytes) in files(directory) {
            if name.ends_with(".pickle") {
                continue;
            }
            // A line is a file of its own as well: a message, a configuration string, an operation.
            let lines = bytes.split(|&byte| byte == b'\n').take(100);
            for text in std::iter::once(&bytes[..]).chain(lines) {
                within_limits(&name, text.len().max(100_000), || exercises.iter().for_each(|exercise| exercise(text)));
            }
        }
    }
}

/// Texts of 1 MB in which the same is found again and again.
#[test]
fn texts_cost_in_proportion() {
    let _alone = alone();
    let mega = 1 << 20;
    let row = |pid: usize| format!("|    0   N/A  N/A   {pid}      C   python       5MiB |\n");
    let rows = |pids: std::ops::Range<usize>| format!("| NVIDIA-SMI |\n{}", pids.map(row).collect::<String>());
    let requests = |n: usize| format!("CUDA out of memory. Tried to allocate {n}.00 MiB. GPU 0 has\n");
    let texts = [
        ("words on one line", "out of memory ".repeat(mega / 14)),
        ("messages on one line", "CUDA out of memory. ".repeat(mega / 20)),
        ("ends of messages", "already allocated ".repeat(mega / 18)),
        ("phases on one line", "Capturing CUDA graphs 7 Loading checkpoint shards ".repeat(mega / 51)),
        ("distinct messages", (0..mega / 59).map(requests).collect()),
        ("empty lines", "\n".repeat(mega)),
        ("headings", "pid, used_memory\n".repeat(mega / 17)),
        ("cards", format!("<nvidia_smi_log>{}", "<gpu></gpu>".repeat(mega / 11))),
        ("ends of processes", format!("<nvidia_smi_log><gpu>{}<process_info>", "</process_info>".repeat(mega / 15))),
        ("processes at two moments", rows(0..10_000) + &rows(10_000..20_000)),
    ];
    for (name, text) in texts {
        within_limits(name, text.len(), || {
            texts::log(text.as_bytes());
            texts::nvidia_smi(text.as_bytes());
        });
    }
}

fn conf(bytes: &[u8]) {
    texts::settings(&String::from_utf8_lossy(bytes));
}

/// Changed files, the same ones in every run.
#[test]
fn changed_files_answer() {
    let _alone = alone();
    let inputs = std::env::var("OOMSCOPE_INPUTS").ok().and_then(|text| text.parse().ok()).unwrap_or(INPUTS);
    let only: Option<u64> = std::env::var("OOMSCOPE_INPUT").ok().and_then(|text| text.parse().ok());
    let bases: Vec<Vec<Vec<u8>>> = bases().iter().map(|pickle| opcodes(pickle)).collect();
    assert!(bases.len() > 10);
    let longest = 1 << 20;
    let (next, read) = (AtomicU64::new(0), AtomicUsize::new(0));
    let faults: Mutex<BTreeMap<String, Vec<u64>>> = Mutex::default();
    let workers = std::thread::available_parallelism().map_or(1, |count| count.get());
    allocation::reset();
    let before = allocation::now();
    {
        std::thread::scope(|scope| {
            for _ in 0..workers {
                scope.spawn(|| {
                    loop {
                        let number = only.unwrap_or_else(|| next.fetch_add(1, Relaxed));
                        if number >= inputs && only.is_none() {
                            return;
                        }
                        let mut bytes = changed(&bases, number);
                        bytes.truncate(longest);
                        let started = Instant::now();
                        let answer = std::panic::catch_unwind(|| match number % COMMANDS {
                            0 => everything(&bytes),
                            _ => exercise(&bytes),
                        });
                        let fault = match answer {
                            Err(panic) => Some(text(&*panic)),
                            Ok(_) if started.elapsed() > Duration::from_secs(100) => Some("takes too long".to_owned()),
                            Ok(answer) => {
                                read.fetch_add(usize::from(answer.is_ok()), Relaxed);
                                None
                            }
                        };
                        if let Some(fault) = fault {
                            faults.lock().unwrap().entry(fault).or_default().push(number);
                        }
                        if only.is_some() {
                            return;
                        }
                    }
                });
            }
        });
    }
    let peak = allocation::peak() - before;
    println!("{} of {inputs} could be read whole, with {:.1} MB", read.load(Relaxed), peak as f64 / 1e6);
    assert!(peak <= workers * allowed(0), "{peak} bytes of memory");
    let faults = faults.into_inner().unwrap();
    assert!(faults.is_empty(), "OOMSCOPE_INPUT=N tries one of these alone: {faults:?}");
    // Otherwise the changes are so rough that nothing behind the decoder is tried.
    assert!(only.is_some() || read.load(Relaxed) as u64 > inputs / 10);
}

fn text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())).unwrap_or_default()
}

/// Input number `number`.
fn changed(bases: &[Vec<Vec<u8>>], number: u64) -> Vec<u8> {
    let mut random = Random(number);
    let mut opcodes = bases[random.below(bases.len())].clone();
    let others = &bases[random.below(bases.len())];
    for _ in 0..=random.below(4) {
        opcodes::change(&mut opcodes, others, &mut random);
    }
    let mut bytes = opcodes.concat();
    for _ in 0..random.below(3) / 2 * 2 {
        if !bytes.is_empty() {
            let at = random.below(bytes.len());
            bytes[at] ^= 1 << random.below(8);
        }
    }
    bytes
}
