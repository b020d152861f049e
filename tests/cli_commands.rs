//! `info`, `top`, `segments` and `timeline`, through the binary.

mod common;

use std::fs;

use common::{json_of, oomscope, testdata};

const OOM: &str = "testdata/rig/2.6.0/decode_atoom.pickle";
const TRAIN: &str = "testdata/rig/2.6.0/oom_train.pickle";

#[test]
fn info_tells_releases_settings_and_trace_health() {
    let info = json_of(&["info", OOM, "--json"]);
    assert_eq!(info["format"]["protocol"], 4);
    assert_eq!(info["format"]["torch_at_least"], "2.5");
    assert_eq!(info["format"]["torch_below"], "2.8");
    let device = &info["devices"][0];
    assert_eq!(device["events"], 1804);
    assert_eq!(device["actions"]["alloc"], 551);
    assert_eq!(device["trace"]["complete"], true);
    assert_eq!(device["ooms"][0]["device_free"], 70 << 20);
    assert_eq!(device["ooms"][0]["segment_size"], 80 << 20);
    assert_eq!(device["peak"]["allocated"]["exact"], true);

    let text = oomscope(["info", "testdata/rig/2.6.0/train_enabled_state.pickle"]).stdout;
    assert!(text.contains("enabled=\"state\""), "{text}");
    let text = oomscope(["info", "testdata/rig/2.1.2/frag_maxsplit_atoom.pickle.gz"]).stdout;
    assert!(text.contains("max_split_size_mb"), "{text}");
    let text = oomscope(["info", "testdata/cases/03_soft_free_segments.pickle"]).stdout;
    assert!(text.contains("no history was recorded"), "{text}");
}

/// A program that catches its failures has thousands of them.
#[test]
fn info_shows_the_last_failures_and_counts_the_others() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("caught.json");
    let oom =
        |number: u64| serde_json::json!({"action": "oom", "size": number << 21, "device_free": 1 << 20, "stream": 0});
    let trace: Vec<serde_json::Value> = (1..=300).map(oom).collect();
    fs::write(&path, serde_json::json!({"segments": [], "device_traces": [trace]}).to_string()).unwrap();
    let file = path.to_str().unwrap();
    let run = oomscope(["info", file]);
    assert!(run.stdout.contains("292 earlier ones"), "{}", run.stdout);
    assert!(run.stdout.contains("event 299: 600.0 MiB asked for"), "{}", run.stdout);
    assert!(!run.stdout.contains("event 291:"), "{}", run.stdout);
    assert_eq!(json_of(&["info", file, "--json"])["devices"][0]["ooms"].as_array().unwrap().len(), 300);
}

#[test]
fn top_ranks_by_line_function_file_and_stack() {
    let by_line = json_of(&["top", TRAIN, "--json"]);
    assert_eq!((by_line["by"].as_str(), by_line["attribution"].as_str()), (Some("line"), Some("self")));
    let total = by_line["total"].as_u64().unwrap();
    assert_eq!(total, 1496059904);
    for by in ["line", "function", "file", "stack"] {
        let ranking = json_of(&["top", TRAIN, "--by", by, "--json"]);
        let sum: u64 = ranking["rows"].as_array().unwrap().iter().map(|row| row["bytes"].as_u64().unwrap()).sum();
        assert_eq!(sum, total, "{by}");
        let shares: f64 = ranking["rows"].as_array().unwrap().iter().map(|row| row["share"].as_f64().unwrap()).sum();
        assert!((shares - 1.0).abs() < 1e-9, "{by}");
    }
    let stacks = json_of(&["top", TRAIN, "--by", "stack", "--json"]);
    let frames = stacks["rows"][0]["stack"].as_array().unwrap();
    assert!(frames[0].as_str().unwrap().contains("functional.py"), "innermost first: {frames:?}");
}

/// Inclusive: what is called counts for the caller as well, once even when a frame stands twice on the stack.
#[test]
fn inclusive_counts_callers() {
    let inclusive = json_of(&["top", TRAIN, "--inclusive", "--json"]);
    let rows = inclusive["rows"].as_array().unwrap();
    let bytes = |site: &str| {
        let row = rows.iter().find(|row| row["site"].as_str().unwrap().ends_with(site));
        row.unwrap_or_else(|| panic!("no {site}"))["bytes"].as_u64().unwrap()
    };
    let total = inclusive["total"].as_u64().unwrap();
    assert_eq!(bytes("workloads.py:254"), total, "the line that calls everything holds everything");
    assert!(rows.iter().all(|row| row["bytes"].as_u64().unwrap() <= total));
    let own = json_of(&["top", TRAIN, "--json"]);
    for row in own["rows"].as_array().unwrap() {
        let site = row["site"].as_str().unwrap();
        assert!(bytes(site) >= row["bytes"].as_u64().unwrap(), "{site}");
    }
    let run = oomscope(["top", TRAIN, "--inclusive", "--by", "stack"]);
    assert_eq!(run.status, 2);
}

#[test]
fn moments() {
    let at = |moment: &str| json_of(&["top", TRAIN, "--at", moment, "--json"]);
    let peak = at("peak");
    assert_eq!((peak["at"]["what"].as_str(), peak["total"].as_u64()), (Some("peak"), Some(1496059904)));
    assert_eq!(at("oom")["at"], at("oom:1")["at"]);
    let event = at("100");
    assert_eq!((event["at"]["what"].as_str(), event["at"]["event"].as_u64()), (Some("event"), Some(100)));
    let time = event["at"]["time_us"].as_u64().unwrap();
    assert!(at(&format!("@{time}"))["at"]["event"].as_u64().unwrap() >= 100);
    assert_eq!(at("@0")["at"]["event"], serde_json::Value::Null);
    assert_eq!(at("end")["total"], 135561216);
    for (moment, words) in
        [("oom:9", "there is no OOM 9"), ("999999", "there is no event"), ("step:1", "ProfilerStep#1")]
    {
        let run = oomscope(["top", TRAIN, "--at", moment]);
        assert_eq!(run.status, 2, "{moment}");
        assert!(run.stderr.contains(words), "{}", run.stderr);
    }
}

#[test]
fn segments_follow_the_rules_of_the_caller() {
    let result = json_of(&["segments", OOM, "--json"]);
    assert_eq!(result["rules"]["large_segment"], 20 << 20);
    assert_eq!(result["at"]["what"], "oom");
    let device = &result["devices"][0];
    let rows = device["segments"].as_array().unwrap();
    let sum = |key: &str| rows.iter().map(|row| row[key].as_u64().unwrap()).sum::<u64>();
    assert_eq!(sum("total"), device["totals"]["reserved"]);
    assert_eq!(sum("stranded"), device["totals"]["stranded"]);
    assert_eq!(sum("free"), device["totals"]["free"]);
    assert_eq!(sum("rounding"), device["totals"]["rounding"]);
    assert!(rows.iter().all(|row| row["conforms_to_rules"] == true));
    assert!(rows.iter().all(|row| row["address"].as_str().unwrap().starts_with("0x")));

    let other = json_of(&["segments", OOM, "--round-large", "7MiB", "--json"]);
    assert_eq!(other["rules"]["round_large"], 7 << 20);
    let rows = other["devices"][0]["segments"].as_array().unwrap();
    assert!(rows.iter().any(|row| row["conforms_to_rules"] == false), "a segment of 78 MiB follows no rule of 7 MiB");
    let run = oomscope(["segments", OOM, "--min-block", "0"]);
    assert_eq!(run.status, 2);
}

/// The first block of a segment and the segment tell its slack; a segment that was always full has nothing unused.
#[test]
fn birth_slack_and_unused_memory() {
    let result = json_of(&["segments", "testdata/cases/04_expandable_pages.pickle", "--json"]);
    assert_eq!(result["devices"][0]["segments"][0]["birth_slack"], serde_json::Value::Null, "expandable");
    let result = json_of(&["segments", "testdata/rig/2.6.0/oom_fraction.pickle", "--json"]);
    for row in result["devices"][0]["segments"].as_array().unwrap() {
        assert_eq!((row["birth_slack"].as_u64(), row["never_used"].as_u64()), (Some(0), Some(0)));
    }
}

#[test]
fn timeline_is_bounded_well_formed_xml() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("memory.svg");
    let run = oomscope(["timeline".as_ref(), TRAIN.as_ref(), "-o".as_ref(), file.as_os_str()]);
    assert_eq!((run.status, run.stdout.as_str()), (0, ""), "{}", run.stderr);
    let svg = fs::read_to_string(&file).unwrap();
    roxmltree::Document::parse(&svg).unwrap();
    assert!(!svg.contains("<script") && svg.len() < 1 << 20);
    assert_eq!(svg, oomscope(["timeline", TRAIN]).stdout);

    let json = json_of(&["timeline", TRAIN, "--json"]);
    let series = &json["series"][0];
    let columns = series["x"].as_array().unwrap().len();
    assert!(columns <= 1200);
    let highest = (0..columns).map(|at| {
        let bands = series["bands"].as_array().unwrap().iter();
        bands.map(|band| band["values"][at].as_u64().unwrap()).sum::<u64>()
    });
    assert_eq!(highest.max(), Some(1496059904), "the peak is in the picture");
    assert_eq!(series["marks"][0]["kind"], "oom");

    let run = oomscope(["timeline", "testdata/cases/03_soft_free_segments.pickle"]);
    assert_eq!(run.status, 2);
    assert!(run.stderr.contains("_record_memory_history"), "{}", run.stderr);
}

#[test]
fn help_has_examples() {
    for command in ["report", "info", "top", "segments", "timeline"] {
        let run = oomscope([command, "--help"]);
        assert_eq!(run.status, 0);
        assert!(run.stdout.contains("Example"), "{command}");
    }
    assert!(oomscope(["--help"]).stdout.contains("oomscope oom.pickle"));
    assert!(oomscope(["--version"]).stdout.contains(env!("CARGO_PKG_VERSION")));
    assert!(testdata().join("README.md").is_file());
}

/// Whoever reads the output may stop reading.
#[test]
fn a_broken_pipe_is_no_error() {
    use std::process::{Command, Stdio};
    let mut child = Command::new(env!("CARGO_BIN_EXE_oomscope"))
        .args(["timeline", TRAIN])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
}
