//! `oomscope whatif`, through the binary.

mod common;

use std::fs;
use std::path::Path;

use common::{json_of, oomscope, run_in, testdata};
use serde_json::Value;

const OOM: &str = "testdata/rig/2.6.0/decode_atoom.pickle";

#[test]
fn json_has_the_promised_keys() {
    let result = json_of(&["whatif", OOM, "--json"]);
    assert_eq!((result["command"].as_str(), result["file"].as_str()), (Some("whatif"), Some(OOM)));
    assert_eq!(result["capacity"], 3632u64 << 20);
    let scenarios = result["scenarios"].as_array().unwrap();
    assert!(scenarios.len() > 5);
    let keys = [
        "settings",
        "faithful",
        "first_divergence",
        "peak_allocated",
        "peak_reserved",
        "end",
        "segment_allocs",
        "segment_frees",
        "segment_maps",
        "segment_unmaps",
        "retries",
        "ooms",
        "avoids_recorded_oom",
    ];
    for scenario in scenarios.iter().chain([&result["baseline"]]) {
        for key in keys {
            assert!(scenario.get(key).is_some(), "no {key} in {scenario}");
        }
        assert!(scenario["end"]["stranded"].is_u64());
    }
    let baseline = &result["baseline"];
    assert_eq!((&baseline["faithful"], &baseline["first_divergence"]), (&Value::Bool(true), &Value::Null));
    assert_eq!(baseline["ooms"][0]["event"], 1803);
    assert_eq!(baseline["ooms"][0]["device_free"], 70 << 20);
    let report = json_of(&["report", OOM, "--json"]);
    // A report tries fewer settings, with the same results.
    let (few, all) = (report["whatif"]["scenarios"].as_array().unwrap(), result["scenarios"].as_array().unwrap());
    assert!(!few.is_empty() && few.len() < all.len());
    assert!(few.iter().all(|scenario| all.contains(scenario)));
}

/// A setting may be given as reports print it, or as a line of a shell script.
#[test]
fn settings_are_taken_as_they_are_printed() {
    let asked = |set: &str| {
        let result = json_of(&["whatif", OOM, "--set", set, "--json"]);
        result["scenarios"][0].clone()
    };
    let plain = asked("expandable_segments:True");
    assert_eq!(plain["settings"], "expandable_segments:True");
    for set in [
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
        "PYTORCH_ALLOC_CONF='expandable_segments:True'",
        "export PYTORCH_CUDA_ALLOC_CONF=\"expandable_segments:True\"",
        "'PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True'",
    ] {
        assert_eq!(asked(set), plain, "{set}");
    }
    let run = oomscope(["whatif", OOM, "--set", "CUDA_VISIBLE_DEVICES=0"]);
    assert_eq!(run.status, 2);
    assert!(run.stderr.contains("CUDA_VISIBLE_DEVICES is not where PyTorch reads its settings"), "{}", run.stderr);
}

#[test]
fn nothing_promises_that_there_is_no_oom() {
    let text = oomscope(["whatif", OOM]).stdout;
    let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("passes this request: 982.0 MiB of 3.55 GiB then reserved"), "{text}");
    assert!(text.contains("what would have followed the failed request is not in the file"), "{text}");
    assert!(!text.contains("no OOM"), "{text}");
}

#[test]
fn settings_that_nobody_should_use_are_marked() {
    let both = "expandable_segments:True,max_split_size_mb:64";
    let result = json_of(&["whatif", OOM, "--set", both, "--set", "garbage_collection_threshold:0.6", "--json"]);
    let scenarios = result["scenarios"].as_array().unwrap();
    assert_eq!(scenarios[0]["refusal"]["kind"], "forbidden");
    assert_eq!(scenarios[1]["refusal"]["kind"], "useless");
    assert!(scenarios.iter().all(|scenario| scenario["advised"] == false));
}

#[test]
fn what_pytorch_would_refuse_is_refused() {
    for (conf, reason) in [
        ("expandable_segment:True", "not an allocator setting"),
        ("max_split_size_mb:4", "21 or more"),
        ("large_segment_size_mb:64", "needs PyTorch 2.11"),
        ("backend:cudaMallocAsync", "cannot be simulated"),
    ] {
        let run = oomscope(["whatif", OOM, "--set", conf]);
        assert_eq!(run.status, 2, "{conf}");
        assert!(run.stderr.contains(reason), "{conf}: {}", run.stderr);
        assert_eq!(run.stdout, "");
    }
    let allowed = oomscope(["whatif", OOM, "--set", "large_segment_size_mb:64", "--torch", "2.15"]);
    assert_eq!(allowed.status, 0, "{}", allowed.stderr);
    let no_history = oomscope(["whatif", "testdata/cases/03_soft_free_segments.pickle"]);
    assert_eq!(no_history.status, 2);
    assert!(no_history.stderr.contains("no history to replay"), "{}", no_history.stderr);
    assert_eq!(oomscope(["whatif"]).status, 2);
    assert_eq!(oomscope(["whatif", OOM, "--oom", "2"]).status, 2);
}

#[test]
fn the_smallest_capacity_runs_the_trace() {
    let arguments = ["whatif", OOM, "--set", "expandable_segments:True", "--min-capacity", "--json"];
    let result = json_of(&arguments);
    let least = result["scenarios"][0]["min_capacity"].as_u64().unwrap();
    assert!(least < 982 << 20 && least >= result["scenarios"][0]["peak_allocated"].as_u64().unwrap());
    let exactly = least.to_string();
    let again = json_of(&["whatif", OOM, "--set", "expandable_segments:True", "--capacity", &exactly, "--json"]);
    assert_eq!(again["scenarios"][0]["avoids_recorded_oom"], true);
    assert!(again["scenarios"][0]["peak_reserved"].as_u64().unwrap() <= least);
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let project = Path::new(env!("CARGO_MANIFEST_DIR"));
    for arguments in [["whatif", OOM, "--json"], ["report", OOM, "--json"]] {
        let one = run_in(project, arguments, &[("RAYON_NUM_THREADS", "1")]);
        let eight = run_in(project, arguments, &[("RAYON_NUM_THREADS", "8")]);
        assert!(one.status == 0 && one.stdout == eight.stdout);
    }
}

/// The lines written for a list of requests are those that PyTorch itself gave for it.
#[test]
fn requests_give_the_lines_of_the_oracle() {
    let directory = tempfile::tempdir().unwrap();
    let unpack =
        |name: &str| zstd::decode_all(fs::read(testdata().join("oracle").join(name)).unwrap().as_slice()).unwrap();
    let list = directory.path().join("mixed.ops.json");
    fs::write(&list, unpack("mixed.ops.json.zst")).unwrap();
    let recordings = unpack("mixed.jsonl.zst");
    let recordings = recordings.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let all: Vec<Value> = recordings.map(|line| serde_json::from_slice(line).unwrap()).collect();
    let wanted = |recording: &&Value| {
        recording["version"] == "2.6.0" && ["default", "exp"].iter().any(|setting| recording["setting"] == *setting)
    };
    let mut visited = 0;
    for recording in all.iter().filter(wanted) {
        let reports = recording["reports"].as_array().unwrap();
        let conf = reports.last().unwrap()["settings"].as_str().unwrap();
        let state = directory.path().join("state.jsonl");
        let (list, out) = (list.to_str().unwrap(), state.to_str().unwrap());
        let mut arguments = vec!["whatif", "--requests", list, "--torch", "2.6", "--every", "500", "--state", out];
        if !conf.is_empty() {
            arguments.extend(["--set", conf]);
        }
        let run = oomscope(arguments);
        assert_eq!(run.status, 0, "{}", run.stderr);
        let lines = fs::read_to_string(&state).unwrap();
        let lines: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.len(), reports.len());
        for (ours, theirs) in lines.iter().zip(reports) {
            for key in ["op", "stats", "addr", "ooms"] {
                assert_eq!(ours.get(key), theirs.get(key), "{conf} {key}");
            }
        }
        visited += 1;
    }
    assert!(visited >= 1, "{visited}");
    let bad = oomscope(["whatif", "--requests", list.to_str().unwrap(), "--set", "nonsense:1"]);
    assert_eq!(bad.status, 2);
}
