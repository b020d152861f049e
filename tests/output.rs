//! Output appears whole or not at all, and a place that cannot be written to is named.
#![cfg(unix)]

mod common;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{oomscope, testdata};

fn snapshot() -> String {
    testdata().join("rig/2.6.0/decode_atoom.pickle").to_str().unwrap().to_owned()
}

/// The commands that write to a file or a directory, and what they write.
fn writers(out: &str) -> Vec<Vec<String>> {
    let file = snapshot();
    [
        vec!["report", &file, "-o", out],
        vec!["map", &file, "-o", out],
        vec!["timeline", &file, "-o", out],
        vec!["export", &file, "--format", "requests", "-o", out],
        vec!["flame", &file, "-o", out],
    ]
    .iter()
    .map(|words| words.iter().map(|&word| word.to_owned()).collect())
    .collect()
}

/// Those that write several files or binary ones, and the smallest number of files that each leaves.
fn writers_of_many(out: &str) -> Vec<(Vec<String>, usize)> {
    let (file, directory) = (snapshot(), testdata().join("ranks16").to_str().unwrap().to_owned());
    [
        (vec!["report", &file, "-o", out], 3),
        (vec!["fleet", &directory, "-o", out], 3),
        (vec!["export", &directory, "--format", "parquet", "--tables", out, "--job", "j"], 0),
        (vec!["export", &file, "--format", "parquet", "-o", out], 9),
        (vec!["export", &file, "--format", "csv", "-o", out], 9),
        (vec!["export", &file, "--format", "pickle", "-o", out], 1),
        (vec!["export", &file, "--format", "json", "-o", out], 1),
        (vec!["export", &file, "--format", "pprof", "-o", out], 1),
        (vec!["export", &file, "--format", "perfetto", "-o", out], 1),
        (vec!["export", &file, "--format", "folded", "-o", out], 1),
    ]
    .iter()
    .map(|(words, files)| (words.iter().map(|&word| word.to_owned()).collect(), *files))
    .collect()
}

/// The files in `directory` and below it.
fn all_names(directory: &Path) -> Vec<String> {
    common::files(directory, |_| true).iter().map(|path| path.to_str().unwrap().to_owned()).collect()
}

fn names(directory: &Path) -> Vec<String> {
    let entries = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    entries.collect()
}

/// A full disk: what was printed is not complete, and the status says so.
#[test]
fn a_full_disk_is_told() {
    let file = snapshot();
    for command in ["report", "info", "top", "segments", "leaks", "map", "timeline", "flame", "whatif", "fleet"] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_oomscope"))
            .args([command, &file])
            .stdout(full)
            .stderr(Stdio::piped())
            .output()
            .unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(2), "{command}: {stderr}");
        assert!(stderr.contains("No space left on device"), "{command}: {stderr}");
    }
    // What is written to a device of one file each.
    let single = writers_of_many("/dev/full").into_iter().filter(|(_, files)| *files == 1);
    for arguments in writers("/dev/full").into_iter().skip(1).chain(single.map(|(arguments, _)| arguments)) {
        let run = oomscope(&arguments);
        assert_eq!(run.status, 2, "{arguments:?}");
        assert!(run.stderr.contains("No space left"), "{arguments:?}: {}", run.stderr);
    }
}

/// A directory that is not there, or that is a file.
#[test]
fn a_place_that_cannot_be_written_to_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    fs::write(&file, "").unwrap();
    for place in [file.join("out"), Path::new("/proc/nothing/out").to_owned()] {
        let many = writers_of_many(place.to_str().unwrap()).into_iter().map(|(arguments, _)| arguments);
        for arguments in writers(place.to_str().unwrap()).into_iter().chain(many) {
            let run = oomscope(&arguments);
            assert_eq!((run.status, run.stdout.as_str()), (2, ""), "{arguments:?}");
            assert!(run.stderr.contains(place.to_str().unwrap()), "{arguments:?}: {}", run.stderr);
        }
    }
    assert_eq!(names(directory.path()), ["file"]);
}

/// Calls in which an output is one of the inputs: the files that they name, and the call.
const ONTO_ITSELF: [(&[&str], &str); 16] = [
    (&["own"], "map own -o own"),
    (&["own"], "timeline own -o own"),
    (&["own"], "flame own -o own"),
    (&["own", "before"], "flame own --diff before -o before"),
    (&["own"], "check own --junit own"),
    (&["own", "before"], "check before own --junit before"),
    (&["own"], "check own --max-peak-growth 5% --junit own"),
    (&["own"], "export own --format pickle --force -o own"),
    (&["own"], "export own --format pprof -o own"),
    (&["own", "out/sites.csv"], "export out/sites.csv --format csv --force -o out"),
    (&["own"], "report own -o own"),
    (&["out/report.json"], "report out/report.json -o out"),
    (&["own", "b.svg"], "diff own b.svg -o b.svg"),
    (&["own", "out/diff.json"], "diff own out/diff.json -o out"),
    (&["out/fleet.json"], "fleet out/fleet.json -o out"),
    (&["list"], "whatif --requests list --state list"),
];

/// What is read is never written over, by whatever name it goes; and the message says so.
#[test]
fn inputs_are_not_written_over() {
    for (files, call) in ONTO_ITSELF {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        fs::create_dir(at("out")).unwrap();
        let content = |name: &str| match name {
            "list" => testdata().join("requests/example.json"),
            _ => testdata().join("rig/2.6.0/decode_atoom.pickle"),
        };
        for file in files {
            fs::copy(content(file), at(file)).unwrap();
        }
        let run = common::run_in(directory.path(), call.split(' '), &[]);
        assert_eq!(run.status, 2, "{call}: {}", run.stderr);
        assert!(run.stderr.contains("is an input of this command"), "{call}: {}", run.stderr);
        for file in files {
            assert!(fs::read(at(file)).unwrap() == fs::read(content(file)).unwrap(), "{call}: {file}");
        }
    }
}

/// A link leads to the same file, a hard one as well; evidence is an input too. What an earlier run wrote is replaced.
#[test]
fn links_to_inputs_are_not_written_over() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    fs::copy(snapshot(), at("own")).unwrap();
    fs::hard_link(at("own"), at("hard")).unwrap();
    std::os::unix::fs::symlink("own", at("soft")).unwrap();
    fs::create_dir(at("out")).unwrap();
    fs::write(at("out/report.html"), "CUDA out of memory. Tried to allocate 2.00 GiB.").unwrap();
    for call in [
        "map own -o hard",
        "map own -o soft",
        "map soft -o own",
        "map hard -o ./own",
        "report own --log out/report.html -o out",
    ] {
        let run = common::run_in(directory.path(), call.split(' '), &[]);
        assert_eq!(run.status, 2, "{call}: {}", run.stderr);
        assert!(run.stderr.contains("is an input of this command"), "{call}: {}", run.stderr);
    }
    assert!(fs::read(at("own")).unwrap() == fs::read(snapshot()).unwrap());
    assert!(fs::read_to_string(at("out/report.html")).unwrap().starts_with("CUDA out of memory"));
    for _ in 0..2 {
        assert_eq!(common::run_in(directory.path(), ["map", "own", "-o", "map.svg"], &[]).status, 0);
    }
}

/// An unwritable directory, unless the tests run as somebody who may write anywhere.
#[test]
fn an_unwritable_directory_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let closed = directory.path().join("closed");
    fs::create_dir(&closed).unwrap();
    fs::set_permissions(&closed, fs::Permissions::from_mode(0o555)).unwrap();
    if File::create(closed.join("probe")).is_ok() {
        println!("skipped: this user may write anywhere");
        return;
    }
    for arguments in writers(closed.join("out").to_str().unwrap()) {
        let run = oomscope(&arguments);
        assert_eq!(run.status, 2, "{arguments:?}");
        assert!(run.stderr.contains("Permission denied"), "{arguments:?}: {}", run.stderr);
    }
    assert!(names(&closed).is_empty());
}

/// Every command that writes files leaves just those, whole, and replaces what was there.
#[test]
fn what_is_written_is_whole() {
    for (number, arguments) in (0..).zip(writers("out")) {
        let directory = tempfile::tempdir().unwrap();
        let run = common::run_in(directory.path(), &arguments, &[]);
        assert_eq!(run.status, 0, "{arguments:?}: {}", run.stderr);
        let (place, expected) = match number {
            0 => (directory.path().join("out"), vec!["report.json", "timeline.svg"]),
            _ => (directory.path().to_owned(), vec!["out"]),
        };
        let mut found = names(&place);
        found.sort();
        found.retain(|name| expected.contains(&name.as_str()) || name.contains(".part"));
        assert_eq!(found, expected, "{arguments:?}");
        for name in found {
            let text = fs::read_to_string(place.join(name)).unwrap();
            assert!(text.ends_with("}\n") || text.trim_end().ends_with("</svg>"), "{arguments:?}");
        }
    }
}

/// Several files appear one after the other, each whole, and nothing is left beside them.
#[test]
fn what_is_written_is_complete() {
    for (arguments, files) in writers_of_many("out") {
        let directory = tempfile::tempdir().unwrap();
        let run = common::run_in(directory.path(), &arguments, &[]);
        assert!(run.stderr.is_empty() || run.status == 2, "{arguments:?}: {}", run.stderr);
        let found = all_names(directory.path());
        assert!(found.len() >= files.max(1), "{arguments:?}: {found:?}: {}", run.stderr);
        assert!(!found.iter().any(|name| name.contains(".part") || name.contains(".old")), "{arguments:?}: {found:?}");
    }
}

/// Interrupted at any time: what is there is whole, and no part of anything lies beside it.
#[test]
fn an_interruption_leaves_no_parts() {
    for (arguments, _) in writers_of_many("out") {
        for delay in [0, 4, 12, 30] {
            let directory = tempfile::tempdir().unwrap();
            let mut child = Command::new(env!("CARGO_BIN_EXE_oomscope"))
                .args(&arguments)
                .current_dir(directory.path())
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .spawn()
                .unwrap();
            std::thread::sleep(Duration::from_millis(delay));
            let _ = Command::new("kill").args(["-TERM", &child.id().to_string()]).stderr(Stdio::null()).status();
            child.wait().unwrap();
            let found = all_names(directory.path());
            assert!(!found.iter().any(|name| name.contains(".part")), "{arguments:?} after {delay} ms: {found:?}");
            for name in found.iter().filter(|name| name.ends_with(".parquet")) {
                assert!(fs::read(name).unwrap().ends_with(b"PAR1"), "{name}");
            }
        }
    }
}

/// Ended while it waits for more input, or in the middle of its work: the old output is untouched. SIGINT would do the
/// same, but the background jobs of a shell ignore it.
#[test]
fn an_interruption_leaves_the_old_output() {
    let pickle = fs::read(testdata().join("formats/run_protocol4.pickle")).unwrap();
    for (delay, bytes) in [(100, &pickle[..1000]), (0, &pickle[..]), (5, &pickle[..]), (20, &pickle[..])] {
        let directory = tempfile::tempdir().unwrap();
        let out = directory.path().join("map.svg");
        fs::write(&out, "old").unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_oomscope"))
            .args(["map", "-", "-o", out.to_str().unwrap()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut stdin = child.stdin.take().unwrap();
        stdin.write_all(bytes).unwrap();
        // The part of a pickle keeps it waiting; the whole lets it go on.
        std::thread::sleep(Duration::from_millis(delay));
        let interrupted = Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap();
        assert!(interrupted.success());
        let started = Instant::now();
        let status = child.wait().unwrap();
        assert!(started.elapsed() < Duration::from_secs(5));
        drop(stdin);
        let text = fs::read_to_string(&out).unwrap();
        match status.success() {
            true => assert!(text.trim_end().ends_with("</svg>")),
            false => assert_eq!(text, "old"),
        }
        assert_eq!(names(directory.path()), ["map.svg"]);
        let mut printed = String::new();
        child.stdout.take().unwrap().read_to_string(&mut printed).unwrap();
        assert_eq!(printed, "");
    }
}

/// Whoever reads the output may stop at any time (`| head`).
#[test]
fn a_dash_is_standard_output() {
    for words in writers("-").into_iter().filter(|words| words[0] != "report") {
        let run = oomscope(words.iter().map(String::as_str));
        assert_eq!((run.status, run.stderr.as_str()), (0, ""), "{words:?}");
        assert!(run.stdout.len() > 1000, "{words:?}");
    }
    assert!(!Path::new("-").exists());
}

#[test]
fn a_closed_pipe_is_no_error() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_oomscope"))
        .args(["map", &snapshot()])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stderr.as_slice()), (Some(0), &b""[..]));
}
