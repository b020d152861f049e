//! `oomscope leaks`, through the binary: planted leaks are found where they were planted, and nothing else is.

mod common;

use std::path::{Path, PathBuf};

use common::{files, is_pickle, json_of, oomscope, shared_data, testdata};
use serde_json::{Value, json};

fn leaks_of(path: &Path) -> Value {
    json_of(&["leaks", "--json", path.to_str().unwrap()])
}

fn sites(result: &Value, list: &str, key: &str) -> Vec<String> {
    let rows = result[list].as_array().unwrap_or_else(|| panic!("no {list}")).iter();
    rows.map(|row| row[key].as_str().unwrap_or_default().to_owned()).collect()
}

/// Within one in a hundred.
fn is_close(found: &Value, expected: f64) -> bool {
    (found.as_f64().unwrap() - expected).abs() <= expected / 100.0
}

#[test]
fn json_has_the_promised_keys() {
    let result = leaks_of(&testdata().join("cases/09_linear_leak.pickle"));
    assert_eq!((result["command"].as_str(), &result["steps"]["count"]), (Some("leaks"), &20.into()));
    assert_eq!(result["steps"]["source"], "profiler_step");
    let leak = &result["leaks"][0];
    for key in [
        "site",
        "bytes_per_step",
        "blocks_per_step",
        "live_bytes",
        "since_step",
        "p_value",
        "full_in_steps",
        "kind",
        "stack",
        "freed",
        "called_from",
    ] {
        assert!(leak.get(key).is_some(), "no {key} in {leak}");
    }
    for key in ["site", "bytes", "why"] {
        assert!(result["not_leaks"][0].get(key).is_some(), "no {key}");
    }
    let report = json_of(&["report", "--json", "testdata/cases/09_linear_leak.pickle"]);
    for key in ["leaks", "not_leaks", "steps", "causes", "bytes_per_step"] {
        assert_eq!(report["leaks"][key], result[key], "{key}");
    }
}

/// The known answers of the rebuilt public reports.
#[test]
fn the_linear_leak_and_the_cycle_are_named() {
    let linear = leaks_of(&testdata().join("cases/09_linear_leak.pickle"));
    assert_eq!(sites(&linear, "leaks", "site"), ["/app/metrics.py:12"]);
    let leak = &linear["leaks"][0];
    assert_eq!((&leak["bytes_per_step"], &leak["live_bytes"]), (&3_145_728.into(), &62_914_560.into()));
    assert_eq!((&leak["blocks_per_step"], &leak["since_step"]), (&1.0.into(), &0.into()));
    assert_eq!(sites(&linear, "not_leaks", "site"), ["/app/model.py:20"]);
    assert_eq!(linear["not_leaks"][0]["bytes"], 8_519_680);
    let cycle = leaks_of(&testdata().join("cases/08_cycle_50185.pickle"));
    assert_eq!(sites(&cycle, "leaks", "site"), ["/app/oom.py:13"]);
    assert_eq!(cycle["leaks"][0]["full_in_steps"], 0, "it failed at the end");
}

/// A step's peak is what must fit: 1 GiB less the last step's peak, in steps of 3 MiB.
#[test]
fn the_capacity_tells_when_the_device_is_full() {
    let path = testdata().join("cases/09_linear_leak.pickle");
    let result = json_of(&["leaks", "--json", "--capacity", "1GiB", path.to_str().unwrap()]);
    let peak = json_of(&["info", "--json", path.to_str().unwrap()])["devices"][0]["peak"]["allocated"]["bytes"].clone();
    let steps = ((1 << 30) - peak.as_u64().unwrap()) / 3_145_728;
    assert_eq!(result["full_in_steps"], steps);
    assert_eq!(leaks_of(&path)["full_in_steps"], Value::Null, "unknown without it");
}

/// Every program with a planted leak, its twin without, and clean programs that look suspicious.
fn check_truth(directory: &Path) -> usize {
    let truth = common::json(directory.join("truth.json"));
    let mut visited = 0;
    for (name, expected) in truth.as_object().unwrap() {
        let named = |path: &PathBuf| common::stem(path).ends_with(&format!("/{name}"));
        let Some(path) = files(directory, is_pickle).into_iter().find(named) else { continue };
        let found = leaks_of(&path);
        visited += 1;
        let workspaces = sites(&found, "not_leaks", "why").iter().filter(|why| why.contains("workspace")).count();
        assert!(workspaces > 0, "{name}: the workspace of 8519680 B is no leak");
        assert!(found["not_leaks"].as_array().unwrap().iter().any(|row| row["bytes"] == 8_519_680), "{name}");
        let lines = sites(&found, "leaks", "site");
        if expected["leak"] == false {
            assert!(lines.is_empty(), "{name}: {lines:?}");
            assert_eq!(found["bytes_per_step"], 0, "{name}");
            continue;
        }
        let bytes = expected["bytes_per_step"].as_f64().unwrap();
        assert!(is_close(&found["bytes_per_step"], bytes), "{name}: {} of {bytes}", found["bytes_per_step"]);
        let Some(planted) = expected["leak_site"][0].as_str() else {
            assert_eq!(lines, ["(autograd backward, no Python stack)"], "{name}");
            assert_eq!(found["leaks"][0]["kind"], "no_stack");
            continue;
        };
        assert_eq!(found["causes"][0]["line"], planted, "{name}");
        for innocent in expected["same_innermost_frame_not_kept"].as_array().into_iter().flatten() {
            assert!(!lines.iter().any(|line| line == innocent), "{name}: {innocent}");
        }
    }
    visited
}

#[test]
fn planted_leaks_are_found_and_clean_programs_are_clean() {
    assert_eq!(check_truth(&testdata().join("leaks")), 8);
    if let Some(data) = shared_data() {
        assert_eq!(check_truth(&data.join("leaks")), 16);
    }
}

/// A graph that is kept belongs to the call of the program, not to each line of the model.
#[test]
fn lines_of_a_kept_graph_are_one_cause() {
    let found = leaks_of(&testdata().join("leaks/loss_accum_val.pickle.gz"));
    let causes = found["causes"].as_array().unwrap();
    assert_eq!(causes.len(), 2);
    assert_eq!(
        (causes[0]["line"].as_str(), &causes[0]["kind"]),
        (Some("/home/user/job/leakcases.py:52"), &"autograd_graph".into())
    );
    assert_eq!(causes[0]["sites"].as_array().unwrap().len(), 2);
    assert_eq!(causes[0]["bytes_per_step"], 2_097_152 + 262_144);
    assert_eq!(
        (causes[1]["line"].as_str(), &causes[1]["bytes_per_step"]),
        (Some("/home/user/job/leakcases.py:51"), &1_048_576.into())
    );
}

/// What the workloads of the rig keep in a step follows from their code.
#[test]
fn the_rigs_leaks_have_the_lines_and_bytes_of_the_workload() {
    const MIB: f64 = 1_048_576.0;
    let check = |path: &Path, line: &str, bytes: f64, kind: &str| {
        let found = leaks_of(path);
        let first = &found["causes"][0];
        assert!(first["line"].as_str().unwrap().ends_with(line), "{}: {first}", path.display());
        assert!(is_close(&first["bytes_per_step"], bytes), "{}: {first}", path.display());
        assert_eq!(first["kind"], kind, "{}", path.display());
        found
    };
    // 4 × 256 × 4096 logits of 4 bytes.
    let logits = 16.0 * MIB;
    let here = testdata().join("rig/2.6.0");
    check(&here.join("leak_cache_atoom.pickle.gz"), "workloads.py:103", logits, "model_output");
    let steps = check(&here.join("steps_leak.pickle.gz"), "workloads.py:231", 3.0 * MIB, "tensor_list");
    assert_eq!(steps["leaks"][0]["since_step"], 3);
    let Some(data) = shared_data() else { return };
    for version in ["2.1.2", "2.6.0", "2.15.0"] {
        let rig = data.join("rig").join(version);
        for name in ["leak_cache.pickle.gz", "leak_cache_atoom.pickle.gz"] {
            check(&rig.join(name), "workloads.py:103", logits, "model_output");
        }
        for name in ["leak_eval.pickle", "leak_eval_atoom.pickle"] {
            check(&rig.join(name), "workloads.py:94", evaluation(), "autograd_graph");
        }
        check(&rig.join("steps_leak.pickle.gz"), "workloads.py:231", 3.0 * MIB, "tensor_list");
        for name in ["decode.pickle", "decode_atoom.pickle"] {
            let found = sites(&leaks_of(&rig.join(name)), "leaks", "site");
            let named = |line: &str| found.iter().any(|site| site.ends_with(line));
            assert!(found.len() == 2 && named("workloads.py:127") && named("workloads.py:128"), "{found:?}");
        }
        let clean = |name: &str| name.starts_with("steady.pickle") || (name.starts_with("train") && is_pickle(name));
        for path in files(&rig, clean) {
            assert_eq!(sites(&leaks_of(&path), "leaks", "site"), Vec::<String>::new(), "{}", path.display());
        }
    }
}

/// Bytes that autograd keeps of one evaluation of the rig's GPT (batch 32, 256 tokens, width 256, 2 layers, 8 heads,
/// vocabulary 4096, float32), by the tensors that the backward pass of each operation needs.
fn evaluation() -> f64 {
    let (batch, tokens, width, layers, heads, vocabulary) = (32.0, 256.0, 256.0, 2.0, 8.0, 4096.0);
    let hidden = batch * tokens * width * 4.0;
    let scores = batch * heads * tokens * tokens * 4.0;
    let statistics = 2.0 * batch * tokens * 4.0;
    // Softmax's output; q, k and v, copied to be contiguous; attention's output, likewise.
    let attention = scores + 3.0 * hidden + hidden;
    // The outputs and statistics of both norms, and the two sums behind them.
    let norms = 2.0 * (hidden + statistics) + 2.0 * hidden;
    // Before and after GELU.
    let mlp = 2.0 * 4.0 * hidden;
    let layer = attention + norms + mlp;
    // The last norm; the logarithm of softmax, which needs no logits any more; the embedding's sum.
    let head = hidden + statistics + batch * tokens * vocabulary * 4.0;
    layers * layer + head + hidden
}

/// Whoever reads the sites of the public files finds no leak in them.
#[test]
fn public_files_raise_no_false_alarm() {
    let Some(data) = shared_data() else { return };
    for path in files(&data.join("public"), is_pickle) {
        let found = leaks_of(&path);
        for device in found["devices"].as_array().unwrap() {
            assert!(device["leaks"].as_array().unwrap().is_empty(), "{}: {}", path.display(), device["leaks"]);
        }
    }
}

#[test]
fn without_history_growth_is_unknown_and_said_to_be() {
    let run = oomscope(["leaks", "testdata/cases/01_pinned_remainder.pickle"]);
    assert_eq!(run.status, 0);
    assert!(run.stdout.contains("growth cannot be seen"), "{}", run.stdout);
    assert!(run.stdout.contains("MANY BLOCKS OF ONE SIZE"), "{}", run.stdout);
    assert!(run.stdout.contains("weights_post.py:88") && run.stdout.contains("30 blocks"), "{}", run.stdout);
    let result = json_of(&["leaks", "--json", "testdata/cases/01_pinned_remainder.pickle"]);
    assert_eq!((&result["steps"], result["leaks"].as_array().unwrap().len()), (&Value::Null, 0));
    assert_eq!(result["many_alike"][0]["blocks"], 30);
}

#[test]
fn the_text_says_what_grows_and_what_to_try() {
    let text = oomscope(["leaks", "testdata/leaks/loss_accum_val.pickle.gz"]).stdout;
    for expected in [
        "37 steps (1 to 37), marked by Optimizer.step#SGD.step annotations",
        "LEAKS   3.2 MiB a step in all",
        "leakcases.py:52, calls 2 lines that grow",
        "probably an autograd graph is kept",
        "loss.item()",
        "innermost last:",
        "NO LEAKS",
        "cuBLAS workspace",
    ] {
        assert!(text.contains(expected), "no {expected:?} in {text}");
    }
    assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
    let whole = oomscope(["leaks", "--stack", "testdata/leaks/library_frame.pickle.gz"]).stdout;
    assert!(whole.contains("torch/nn/functional.py:2140"), "{whole}");
    let own = oomscope(["leaks", "testdata/leaks/library_frame.pickle.gz"]).stdout;
    assert!(!own.contains("torch/nn/functional.py:2140"), "{own}");
    let clean = oomscope(["leaks", "testdata/leaks/plateau.pickle.gz"]).stdout;
    assert!(clean.contains("No line leaks.") && clean.contains("grew until step 16, level since"), "{clean}");
}

/// A snapshot without history in which the line `/job/train.py:7` holds `kept` blocks of 1 MiB.
fn snapshot(directory: &Path, kept: u64) -> String {
    const MIB: u64 = 1 << 20;
    let base = 0x7f00_0000_0000u64;
    let block = |at: u64| {
        let line = if at < 4 { 3 } else { 7 };
        json!({
            "address": base + at * MIB, "size": MIB, "requested_size": MIB, "state": "active_allocated",
            "frames": [{"name": "step", "filename": "/job/train.py", "line": line}],
        })
    };
    let total = (4 + kept) * MIB;
    let document = json!({
        "segments": [{
            "device": 0, "address": base, "total_size": total, "allocated_size": total, "active_size": total,
            "stream": 0, "segment_type": "large", "blocks": (0..4 + kept).map(block).collect::<Vec<_>>(),
        }],
        "device_traces": [[]],
    });
    let path = directory.join(format!("after_{kept}.json"));
    std::fs::write(&path, document.to_string()).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn growth_from_snapshot_to_snapshot_is_seen() {
    let directory = tempfile::tempdir().unwrap();
    let paths: Vec<String> = (1..=6).map(|n| snapshot(directory.path(), 5 * n)).collect();
    let compare = |count: usize| {
        let mut arguments = vec!["leaks", "--json"];
        arguments.extend(paths[..count].iter().map(String::as_str));
        json_of(&arguments)["devices"][0].clone()
    };
    let six = compare(6);
    assert_eq!(sites(&six, "leaks", "site"), ["/job/train.py:7"]);
    assert_eq!(six["leaks"][0]["bytes_per_snapshot"], 5 << 20);
    let three = compare(3);
    assert_eq!(sites(&three, "leaks", "site"), Vec::<String>::new());
    assert_eq!(sites(&three, "suspects", "site"), ["/job/train.py:7"]);
    let text = oomscope(["leaks", &paths[0], &paths[1]]).stdout;
    assert!(text.contains("SUSPECTS") && text.contains("train.py:7") && !text.contains("train.py:3"), "{text}");
}

#[test]
fn several_snapshots_of_a_job_are_compared() {
    let [small, large] = ["testdata/rig/2.6.0/oom_train_atoom.pickle", "testdata/rig/2.6.0/oom_train.pickle"];
    let same = json_of(&["leaks", "--json", large, large, large]);
    assert_eq!(same["files"].as_array().unwrap().len(), 3);
    assert_eq!(
        (&same["devices"][0]["leaks"], &same["devices"][0]["suspects"]),
        (&Value::Array(vec![]), &Value::Array(vec![]))
    );
    assert_eq!(same["devices"][0]["unrelated"], false);
    let other = oomscope(["leaks", small, "testdata/leaks/plateau.pickle.gz"]);
    assert_eq!(other.status, 0);
    assert!(other.stdout.contains("not snapshots of one job"), "{}", other.stdout);
    let none = oomscope(["leaks", small, "testdata/cases/12_empty.pickle"]);
    assert_eq!(none.status, 2);
    assert!(none.stderr.contains("12_empty.pickle"), "{}", none.stderr);
}

/// A line of `train_oom` rose once, fell a little and stayed: nothing is added in a step, so it is no leak.
#[test]
fn what_adds_nothing_is_no_leak() {
    for file in ["testdata/rig/2.0.1/train_oom.pickle", "testdata/rig/2.6.0/decode.pickle"] {
        let found = json_of(&["leaks", file, "--json"]);
        for leak in found["leaks"].as_array().unwrap() {
            assert!(leak["bytes_per_step"].as_u64() > Some(0), "{file}: {leak}");
        }
    }
}
