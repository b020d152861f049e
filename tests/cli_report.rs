//! `oomscope report`, through the binary.

mod common;

use std::fs;
use std::path::Path;

use common::{json_of, oomscope, run_in, testdata};

const OOM: &str = "testdata/rig/2.6.0/decode_atoom.pickle";

#[test]
fn a_file_alone_is_reported_at_its_oom() {
    let run = oomscope([OOM]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    assert_eq!(run.stderr, "");
    for figure in
        ["3.48 GiB", "616.4 MiB", "2.88 GiB", "76.1 MiB", "78.1 MiB", "70.0 MiB", "event 1 803", "workloads.py:128"]
    {
        assert!(run.stdout.contains(figure), "no {figure} in\n{}", run.stdout);
    }
    assert!(run.stdout.lines().count() <= 40, "{}", run.stdout);
    assert_eq!(run.stdout, oomscope(["report", OOM]).stdout);
}

#[test]
fn golden_report() {
    let golden = testdata().join("golden/report_oom_train.txt");
    let run = oomscope(["report", "testdata/rig/2.6.0/oom_train.pickle"]);
    if std::env::var_os("OOMSCOPE_BLESS").is_some() {
        fs::write(&golden, &run.stdout).unwrap();
    }
    assert_eq!(run.stdout, fs::read_to_string(golden).unwrap(), "OOMSCOPE_BLESS=1 accepts the new text");
}

#[test]
fn json_has_the_shapes_of_the_other_commands() {
    let report = json_of(&["report", OOM, "--json"]);
    assert_eq!(report["oomscope"], env!("CARGO_PKG_VERSION"));
    assert_eq!((report["command"].as_str(), report["file"].as_str()), (Some("report"), Some(OOM)));
    assert!(report["warnings"].as_array().unwrap().is_empty());
    let strip = |mut value: serde_json::Value| {
        for key in ["oomscope", "command", "file", "warnings"] {
            value.as_object_mut().unwrap().remove(key);
        }
        value
    };
    for command in ["info", "segments", "top"] {
        assert_eq!(report[command], strip(json_of(&[command, OOM, "--json"])), "{command}");
    }
}

#[test]
fn output_directory_gets_json_and_a_picture() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("new/out");
    let run = oomscope(["report".as_ref(), OOM.as_ref(), "-o".as_ref(), out.as_os_str()]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let json = fs::read_to_string(out.join("report.json")).unwrap();
    assert_eq!(json, oomscope(["report", OOM, "--json"]).stdout);
    let svg = fs::read_to_string(out.join("timeline.svg")).unwrap();
    roxmltree::Document::parse(&svg).unwrap();
    let mut names: Vec<_> = fs::read_dir(&out).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["report.html", "report.json", "timeline.svg"], "no half-written file stays");
}

#[test]
fn an_unwritable_directory_is_an_error() {
    let run = oomscope(["report", OOM, "-o", "/proc/nowhere"]);
    assert_eq!(run.status, 2);
    assert!(run.stderr.contains("/proc/nowhere"), "{}", run.stderr);
}

#[test]
fn a_chosen_oom_and_a_chosen_moment() {
    assert_eq!(json_of(&["report", OOM, "--oom", "1", "--json"])["top"]["at"]["event"], 1803);
    let run = oomscope(["report", OOM, "--oom", "2"]);
    assert_eq!(run.status, 2);
    assert!(run.stderr.contains("1 recorded OOM:"), "{}", run.stderr);
    assert_eq!(json_of(&["report", OOM, "--at", "1000", "--json"])["top"]["at"]["event"], 1000);
    let run = oomscope(["report", OOM, "--at", "sometime"]);
    assert_eq!(run.status, 2);
    assert!(run.stderr.contains("peak:requested"), "{}", run.stderr);
}

#[test]
fn devices_are_told_apart_and_the_one_with_the_oom_comes_first() {
    let report = json_of(&["report", "testdata/rig/2.6.0/multigpu.pickle", "--json"]);
    let devices = report["segments"]["devices"].as_array().unwrap();
    assert_eq!(devices.iter().map(|device| device["device"].as_i64().unwrap()).collect::<Vec<_>>(), [0, 1]);
    let one = json_of(&["report", "testdata/rig/2.6.0/multigpu.pickle", "--device", "1", "--json"]);
    assert_eq!(one["segments"]["devices"].as_array().unwrap().len(), 1);
    assert_eq!(one["segments"]["devices"][0], devices[1]);
    let run = oomscope(["report", "testdata/rig/2.6.0/multigpu.pickle", "--device", "7"]);
    assert_eq!(run.status, 2);
    assert!(run.stderr.contains("there is device 0, 1"), "{}", run.stderr);
}

#[test]
fn unreadable_files_name_the_file_and_end_in_2() {
    for (file, words) in [
        ("testdata/cases/12_truncated.pickle", "cut off at byte 3942"),
        ("testdata/cases/12_empty.pickle", "is empty"),
        ("testdata/cases/12_code.pickle", "STACK_GLOBAL"),
        ("testdata/no_such_file.pickle", "No such file"),
        ("README.md", "plain text"),
    ] {
        let run = oomscope([file]);
        assert_eq!((run.status, run.stdout.as_str()), (2, ""), "{file}");
        assert!(run.stderr.contains(file) && run.stderr.contains(words), "{}", run.stderr);
    }
}

#[test]
fn salvage_says_so_everywhere_and_ends_in_2() {
    let run = oomscope(["report", "testdata/cases/12_truncated.pickle", "--salvage"]);
    assert_eq!(run.status, 2);
    assert!(run.stderr.contains("salvaged: the file breaks off at byte 3942"), "{}", run.stderr);
    assert!(run.stdout.contains("reserved") && run.stdout.contains("salvaged"), "{}", run.stdout);
    // The recording may have been complete, and the failure in the part that is lost.
    assert!(run.stdout.contains("no OOM in what is left of the trace"), "{}", run.stdout);
    assert!(run.stdout.contains("copy the file again") && !run.stdout.contains("howto"), "{}", run.stdout);
    let run = oomscope(["report", "testdata/cases/12_truncated.pickle", "--salvage", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&run.stdout).unwrap();
    assert!(json["warnings"][0].as_str().unwrap().contains("salvaged"));
    // Where the failure is in what could be read, nothing has to be looked for.
    let directory = tempfile::tempdir().unwrap();
    let cut = directory.path().join("cut.pickle");
    let bytes = fs::read(testdata().join("rig/2.6.0/oom_train.pickle")).unwrap();
    fs::write(&cut, &bytes[..bytes.len() * 95 / 100]).unwrap();
    for more in [&[][..], &["--at", "end"]] {
        let run = oomscope([&["report", cut.to_str().unwrap(), "--salvage"], more].concat());
        assert!(run.stdout.contains("OOM") && !run.stdout.contains("no OOM"), "{}", run.stdout);
        assert!(!run.stdout.contains("copy the file again"), "{}", run.stdout);
    }
}

#[test]
fn a_directory_gives_a_line_a_file() {
    let run = oomscope(["testdata/cases"]);
    // Three of the files cannot be read: the others are listed all the same.
    assert_eq!(run.status, 2);
    for name in ["12_code", "12_empty", "12_truncated"] {
        assert!(run.stderr.contains(name), "{}", run.stderr);
    }
    assert!(
        run.stdout.contains("08_cycle_50185.pickle") && run.stdout.contains("oom.py:13 (10.16 GiB)"),
        "{}",
        run.stdout
    );
    assert_eq!(oomscope(["testdata/rig/2.6.0"]).status, 0);
}

/// Figures, moment and words of a line are those of the file's report; ranks come in their order, and it is said which
/// failed, and what compares them.
#[test]
fn a_directory_says_who_failed() {
    let run = oomscope(["testdata/ranks16"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let ranks: Vec<&str> = run.stdout.lines().filter_map(|line| line.strip_prefix("snapshot_rank")).collect();
    let numbers: Vec<usize> = ranks.iter().map(|line| line.split('.').next().unwrap().parse().unwrap()).collect();
    assert_eq!(numbers, (0..16).collect::<Vec<_>>());
    let report = oomscope(["testdata/ranks16/snapshot_rank11.pickle.gz"]).stdout;
    for figure in ["OOM", "523.0 MiB", "590.0 MiB", "599.2 MiB"] {
        assert!(ranks[11].contains(figure) && report.contains(figure), "{figure}: {}\n{report}", ranks[11]);
    }
    assert!(
        run.stdout.contains("One ran out of memory: snapshot_rank11.pickle.gz (device 3, event 2 120)."),
        "{}",
        run.stdout
    );
    assert!(run.stdout.contains("oomscope fleet testdata/ranks16"), "{}", run.stdout);
    // A narrow terminal leaves the names of the files whole.
    let narrow = run_in(Path::new(env!("CARGO_MANIFEST_DIR")), ["testdata/ranks16"], &[("COLUMNS", "80")]).stdout;
    assert!((0..16).all(|rank| narrow.contains(&format!("\nsnapshot_rank{rank}.pickle.gz "))), "{narrow}");
    assert!(narrow.lines().all(|line| line.chars().count() <= 80), "{narrow}");
    // A peak that may have been higher is marked as such, as in a report.
    let late = tempfile::tempdir().unwrap();
    fs::copy(testdata().join("rig/2.6.0/train_ring500.pickle"), late.path().join("ring.pickle")).unwrap();
    let line = oomscope([late.path()]).stdout;
    let report = oomscope([late.path().join("ring.pickle")]).stdout;
    let peak = report.split("peak ").find(|text| text.starts_with("at least ")).unwrap();
    let peak = peak.split(" ·").next().unwrap();
    assert!(line.contains(peak), "{peak}: {line}");
    // What is of one file is refused, with the command that does it for all.
    for (flags, words) in
        [(["-o", "out"], "oomscope fleet testdata/ranks16 -o DIR"), (["--at", "end"], "describe one file")]
    {
        let run = oomscope(["testdata/ranks16", flags[0], flags[1]]);
        assert_eq!((run.status, run.stdout.as_str()), (2, ""), "{flags:?}");
        assert!(run.stderr.contains(words), "{flags:?}: {}", run.stderr);
    }
}

/// A report is as wide as the terminal.
#[test]
fn reports_fit_the_terminal() {
    let files = [
        "testdata/rig/2.6.0/decode_atoom.pickle",
        "testdata/rig/2.6.0/oom_train.pickle",
        "testdata/cases/07_wrapped_ring.pickle",
    ];
    for (file, columns) in files.into_iter().flat_map(|file| [(file, 80), (file, 100)]) {
        let run = run_in(Path::new(env!("CARGO_MANIFEST_DIR")), [file], &[("COLUMNS", &columns.to_string())]);
        assert_eq!(run.status, 0);
        assert!(run.stdout.lines().all(|line| line.chars().count() <= columns), "{columns}: {}", run.stdout);
    }
}

/// On a terminal, which shows both streams, it is said once that a file was salvaged.
#[cfg(target_os = "linux")]
#[test]
fn a_terminal_says_once_what_was_salvaged() {
    let call = format!("{} testdata/cases/12_truncated.pickle --salvage", env!("CARGO_BIN_EXE_oomscope"));
    let script = std::process::Command::new("script")
        .args(["-q", "-c", &call, "/dev/null"])
        .stdin(std::process::Stdio::null())
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output();
    let Ok(output) = script else {
        println!("skipped: no `script`");
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.contains("MEMORY"), "{text}");
    assert_eq!(text.matches("salvaged: the file breaks off").count(), 1, "{text}");
}

#[test]
fn standard_input_is_a_file_too() {
    use std::io::Write;
    use std::process::{Command, Stdio};
    let mut child = Command::new(env!("CARGO_BIN_EXE_oomscope"))
        .args(["info", "-", "--json"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(&fs::read(testdata().join("rig/2.6.0/decode_atoom.pickle")).unwrap())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    let ours: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(ours["file"], "standard input");
    assert_eq!(ours["devices"], json_of(&["info", OOM, "--json"])["devices"]);
}

/// Same input, same output, whatever the number of threads.
#[test]
fn threads_do_not_change_a_byte() {
    let directory = testdata();
    for command in ["report", "info", "top", "segments", "timeline"] {
        for file in ["rig/2.6.0/multigpu.pickle", "rig/2.6.0/train_ring500.pickle", "rig/2.6.0/decode.pickle"] {
            let of = |threads| run_in(&directory, [command, file, "--json"], &[("RAYON_NUM_THREADS", threads)]).stdout;
            let first = of("1");
            assert!(!first.is_empty());
            assert_eq!(first, of("8"), "{command} {file}");
            assert_eq!(first, of("8"), "{command} {file} once more");
        }
    }
}

/// What is advised of an allocator setting was replayed, and what would have failed as well is not advised.
#[test]
fn advice_about_settings_is_replayed() {
    let remedy = |report: &serde_json::Value, id: &str| {
        let remedies = report["remedies"].as_array().unwrap();
        remedies.iter().find(|remedy| remedy["id"] == id).cloned().unwrap_or_default()
    };
    let report = json_of(&["report", OOM, "--json"]);
    assert_eq!(report["verdict"], "fragmentation");
    let expandable = remedy(&report, "expandable_segments");
    assert_eq!(expandable["class"], "free");
    assert_eq!(expandable["replayed"], "passes this request: 982.0 MiB of 3.55 GiB then reserved");
    let end = |settings: &str| {
        let scenarios = report["whatif"]["scenarios"].as_array().unwrap();
        let found = scenarios.iter().find(|scenario| scenario["settings"] == settings).unwrap();
        found["end"]["reserved"].as_u64().unwrap()
    };
    let won = report["whatif"]["baseline"]["end"]["reserved"].as_u64().unwrap() - end("expandable_segments:True");
    assert_eq!(expandable["expected_bytes"], won);

    let report = json_of(&["report", "testdata/rig/2.1.2/frag_maxsplit_atoom.pickle.gz", "--json"]);
    let roundup = remedy(&report, "roundup");
    assert_eq!((roundup["class"].as_str(), roundup["expected_bytes"].as_u64()), (Some("no"), None));
    assert!(roundup["replayed"].as_str().unwrap().contains("does not pass this request"), "{roundup}");

    // A setting that passes contradicts the remedy that says that none can.
    let report = json_of(&["report", "testdata/rig/2.6.0/oom_train.pickle", "--json"]);
    let advised = |scenario: &serde_json::Value| scenario["advised"] == true;
    assert!(report["whatif"]["scenarios"].as_array().unwrap().iter().any(advised));
    assert_eq!(remedy(&report, "no_allocator_option"), serde_json::Value::Null);
}

/// The card's size does not replace what the process could have had, which the failure shows: others held the rest.
#[test]
fn what_the_failure_shows_beats_the_cards_size() {
    let file = "testdata/rig/2.15.0/oom_bigone_atoom.pickle";
    let alone = json_of(&["report", file, "--json"]);
    let with_card = json_of(&["report", file, "--capacity", "4GiB", "--json"]);
    assert!(alone["whatif"]["capacity"].is_u64());
    assert_eq!(alone["whatif"], with_card["whatif"]);
}

/// The lines of a report as Markdown.
fn markdown(file: &std::path::Path) -> String {
    let run = oomscope(["report".as_ref(), file.as_os_str(), "--format".as_ref(), "md".as_ref()]);
    assert_eq!(run.status, 0, "{}: {}", file.display(), run.stderr);
    run.stdout
}

#[test]
fn markdown_tells_the_same_and_is_short() {
    let text = markdown(std::path::Path::new(OOM));
    for figure in ["**Fragmentation.**", "3.48 GiB", "616.4 MiB", "2.88 GiB", "76.1 MiB", "`workloads.py:128` `decode`"]
    {
        assert!(text.contains(figure), "no {figure} in\n{text}");
    }
    let mut seen = 0;
    for file in common::files(&testdata(), common::is_pickle) {
        if oomscope(["info".as_ref(), file.as_os_str()]).status != 0 {
            continue;
        }
        let text = markdown(&file);
        assert!((3..=60).contains(&text.lines().count()), "{}\n{text}", file.display());
        assert!(text.starts_with("### `"), "{}", file.display());
        // A table has as many cells in each row as in its head.
        let cells = |line: &str| line.replace("\\|", "").matches('|').count();
        for pair in text.lines().collect::<Vec<_>>().windows(2) {
            if pair[0].starts_with('|') && pair[1].starts_with('|') {
                assert_eq!(cells(pair[0]), cells(pair[1]), "{}\n{text}", file.display());
            }
        }
        seen += 1;
    }
    assert!(seen > 30, "{seen}");
}

#[test]
fn a_format_is_of_one_file() {
    let run = oomscope(["report", "testdata/rig/2.6.0", "--format", "md"]);
    assert_eq!(run.status, 2);
    assert!(run.stderr.contains("--format describes one file"), "{}", run.stderr);
    assert_eq!(oomscope(["report", OOM, "--format", "json"]).stdout, oomscope(["report", OOM, "--json"]).stdout);
}
