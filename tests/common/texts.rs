//! Everything that is done with the texts which are no snapshots: shared by the tests on hostile input and by the fuzz
//! targets.
#![allow(dead_code)]

use std::io;
use std::sync::LazyLock;

use oomscope::allocator::{AllocatorSettings, RunOptions, TorchVersion, Workload, WorkloadRun};
use oomscope::analysis::categories::Rules;
use oomscope::analysis::check::{Growth, baseline, is_baseline, parse_share};
use oomscope::analysis::window::WindowSpec;
use oomscope::history::At;
use oomscope::oom::estimate::{Dtype, ModelConfig, Plan, Shard, Training, estimate};
use oomscope::oom::reconcile::{Sources, reconcile};
use oomscope::oom::smi::{self, Smi};
use oomscope::oom::{Inputs, Log, Marks, Message, diagnose, read};
use oomscope::render::terminal;
use oomscope::units::parse_size;
use serde::Serialize;

/// Messages of one log that are diagnosed: each costs the same.
const MESSAGES: usize = 16;

/// Operations of a list that are carried out.
const OPERATIONS: usize = 2_000;

static MARKS: LazyLock<Marks> = LazyLock::new(Marks::built_in);

/// Errors of one device that is shared, and of one about which nothing is said.
static ERRORS: LazyLock<Log> = LazyLock::new(|| {
    let text = b"CUDA out of memory. Tried to allocate 20.00 MiB. GPU 1 has a total capacity of 31.36 GiB of which \
        18.62 MiB is free. Process 73820 has 30.58 GiB memory in use. Including non-PyTorch memory, this process has \
        764.00 MiB memory in use. Of the allocated memory 165.30 MiB is allocated by PyTorch, and 4.70 MiB is reserved \
        by PyTorch but unallocated.\nHIP out of memory. Tried to allocate 3.00 GiB";
    read(text, &MARKS)
});

/// What `oom` says of a log.
pub fn log(bytes: &[u8]) {
    let log = read(bytes, &MARKS);
    for message in &log.messages {
        assert!(message.offset <= message.end && message.end <= decoded_length(bytes));
    }
    told(&log, &[]);
}

/// What `oom --nvidia-smi` says of an error together with this output.
pub fn nvidia_smi(bytes: &[u8]) {
    let moments = smi::parse(&String::from_utf8_lossy(bytes));
    as_json(&moments);
    told(&ERRORS, &moments);
    for visible in [None, Some(""), Some("1,0"), Some("GPU-aa,MIG-"), Some("7")] {
        let last = Sources { smi: moments.last(), device: 1, visible, ..Sources::default() };
        for sources in [last, Sources { before: moments.first(), reserved: Some(3 << 30), ..last }] {
            account(reconcile(&sources));
        }
    }
}

fn told(log: &Log, moments: &[Smi]) {
    as_json(&(&log.chronology, &log.budget));
    terminal::chronology(&log.chronology, usize::MAX, Some(100));
    let of = |message: &Message| {
        let sources = Sources {
            message: Some(message),
            device: message.device.unwrap_or(0),
            smi: moments.last(),
            before: moments.first(),
            ..Sources::default()
        };
        diagnose(Inputs {
            facts: log.facts(message),
            log: Some(log),
            message: Some(message),
            account: reconcile(&sources),
            ..Inputs::default()
        })
    };
    let diagnoses: Vec<_> = log.messages.iter().take(MESSAGES).map(of).collect();
    for diagnosis in &diagnoses {
        as_json(diagnosis);
        terminal::verdict(diagnosis, Some(100));
        terminal::remedies(diagnosis, 6, true, Some(100));
        diagnosis.message.as_ref().map(terminal::message);
        account(diagnosis.account.clone());
    }
    terminal::others(&(1..).zip(&diagnoses).collect::<Vec<_>>(), Some(100));
}

fn account(account: Option<oomscope::oom::reconcile::Reconciliation>) {
    if let Some(account) = account {
        as_json(&account);
        terminal::account(&account, Some(100));
    }
}

/// A log in UTF-16 is longer as UTF-8.
fn decoded_length(bytes: &[u8]) -> usize {
    let is_utf16 = bytes.starts_with(&[0xff, 0xfe]) || bytes.starts_with(&[0xfe, 0xff]);
    if is_utf16 { bytes.len() * 3 / 2 } else { bytes.len() }
}

/// A configuration string, as every release reads it; what was accepted is accepted again after itself.
pub fn settings(conf: &str) {
    for minor in [0, 2, 6, 10, 15] {
        let version = TorchVersion::new(2, minor);
        let once = AllocatorSettings::parse(conf, Some(version));
        as_json(&once);
        assert!(once.problems.iter().all(|problem| !problem.to_string().is_empty()));
        let again = AllocatorSettings::parse_after(&once.rules, conf, Some(version));
        assert_eq!(once.rules, again.rules, "`{conf}` under {version}");
    }
}

/// The small files and flags beside a snapshot: lists of requests, figures to compare with, rules, marks, the shapes of
/// a model, sizes and moments.
pub fn beside(bytes: &[u8]) {
    requests(bytes);
    if is_baseline(bytes) {
        let _ = baseline(bytes).map_err(|error| assert!(!error.to_string().is_empty()));
    }
    let text = &String::from_utf8_lossy(bytes);
    let _ = Rules::parse(text).map_err(|error| assert!(!error.to_string().contains('\n')));
    if let Ok(marks) = Marks::with(text) {
        // Its own text is a log with its marks.
        told(&read(bytes, &marks), &[]);
    }
    if let Ok(config) = ModelConfig::parse(text) {
        plans(&config);
    }
    flags(text);
}

fn requests(json: &[u8]) {
    let Ok(mut workload) = Workload::from_json(json) else { return };
    workload.operations.truncate(OPERATIONS);
    let options = RunOptions { every: 100, ..RunOptions::default() };
    let mut run = WorkloadRun::new(&workload, &options);
    run.run(&mut io::sink()).unwrap();
    run.simulator().check_invariants().unwrap();
    terminal::requests(&run, workload.operations.len() as u64);
}

fn plans(config: &ModelConfig) {
    for (training, shard) in [(None, Shard::None), (Some(Training::MixedAdamW), Shard::All)] {
        let plan = Plan {
            params: config.params,
            dtype: Dtype::Bf16,
            training,
            lora_params: Some(config.lora_per_rank.saturating_mul(16)),
            batch: u64::MAX,
            length: 1 << 20,
            vocabulary: config.vocabulary,
            kv_per_token: config.kv_per_token,
            kv_dtype: Dtype::Fp8,
            ranks: 3,
            shard,
        };
        as_json(&estimate(&plan, Some(24 << 30)));
    }
}

/// Whatever stands behind a flag.
fn flags(text: &str) {
    let flag = text.lines().next().unwrap_or_default();
    let _ = parse_size(flag);
    let _ = parse_share(flag);
    let _ = flag.parse::<At>();
    let _ = flag.parse::<WindowSpec>();
    let _ = flag.parse::<TorchVersion>();
    if let Ok(growth) = flag.parse::<Growth>() {
        growth.most(u64::MAX);
        assert!(!growth.to_string().is_empty());
    }
}

fn as_json(result: &impl Serialize) {
    serde_json::to_writer(io::sink(), result).expect("every result can be written as JSON");
}
