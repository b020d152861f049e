//! `oomscope check`, through the binary: 0 only when every gate was judged and passed.

mod common;

use std::fs;

use common::{Run, json_of, oomscope, testdata};
use serde_json::Value;

fn rig(name: &str) -> String {
    format!("testdata/rig/2.6.0/{name}")
}

fn check(arguments: &[&str]) -> Run {
    oomscope([&["check"], arguments].concat())
}

/// The JSON of a run, whatever its status.
fn gates(arguments: &[&str]) -> Value {
    let run = check(&[arguments, &["--json"]].concat());
    serde_json::from_str(&run.stdout).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {}", run.stderr))
}

/// The gate `name` of the first device.
fn gate(result: &Value, name: &str) -> Value {
    let gates = result["gates"].as_array().unwrap();
    gates.iter().find(|gate| gate["name"] == name).unwrap_or_else(|| panic!("no {name}: {result}")).clone()
}

#[test]
fn what_has_not_grown_passes() {
    let run = check(&[&rig("steady.pickle.gz"), &rig("steady.pickle.gz")]);
    assert_eq!(run.status, 0, "{}", run.stdout);
    assert!(run.stdout.starts_with("PASSED"), "{}", run.stdout);
    let result = json_of(&["check", "--json", &rig("steady.pickle.gz"), &rig("steady.pickle.gz")]);
    assert_eq!((&result["passed"], &result["command"]), (&true.into(), &"check".into()));
    for key in ["name", "limit", "a", "b", "passed"] {
        assert!(result["gates"][0].get(key).is_some(), "no {key}");
    }
    let info = json_of(&["info", "--json", &rig("steady.pickle.gz")]);
    assert_eq!(gate(&result, "peak growth")["b"], info["devices"][0]["peak"]["allocated"]["bytes"]);
}

#[test]
fn growth_and_leaks_fail_by_default() {
    let (base, new) = (rig("steady.pickle.gz"), rig("steps_leak.pickle.gz"));
    let run = check(&[&base, &new]);
    assert_eq!(run.status, 1, "{}", run.stdout);
    assert!(run.stdout.starts_with("FAILED") && run.stdout.contains("workloads.py:231"), "{}", run.stdout);
    let result = gates(&[&base, &new]);
    assert_eq!((&result["passed"], &result["verdict"]), (&false.into(), &"failed".into()));
    let leak = gate(&result, "leak per step");
    assert_eq!((&leak["b"], &leak["limit"], &leak["passed"]), (&(3 << 20).into(), &(1 << 20).into(), &false.into()));
    let peak = gate(&result, "peak growth");
    assert_eq!(peak["limit"].as_u64().unwrap(), (peak["a"].as_u64().unwrap() as f64 * 1.05) as u64);

    let loose = ["--max-peak-growth", "50%", "--max-leak-per-step", "4MiB"];
    assert_eq!(check(&[&[base.as_str(), &new], &loose[..]].concat()).status, 0);
    let bytes = ["--max-peak-growth", "10MiB", "--max-leak-per-step", "none"];
    assert_eq!(check(&[&[base.as_str(), &new], &bytes[..]].concat()).status, 1);
    let equal = ["--max-peak-growth", "none", "--max-leak-per-step", "3MiB"];
    assert_eq!(check(&[&[base.as_str(), &new], &equal[..]].concat()).status, 1, "as much is too much");
    let reserved = ["--max-reserved-growth", "5%", "--max-peak-growth", "none", "--max-leak-per-step", "none"];
    assert_eq!(check(&[&[base.as_str(), &new], &reserved[..]].concat()).status, 1);
}

#[test]
fn one_file_is_held_against_absolute_limits() {
    let file = rig("steady.pickle.gz");
    assert_eq!(check(&[&file]).status, 0);
    assert_eq!(check(&[&file, "--max-peak", "200MiB", "--max-reserved", "1GiB"]).status, 0);
    assert_eq!(check(&[&file, "--max-peak", "198MiB"]).status, 1);
    assert_eq!(check(&[&file, "--max-reserved", "200MiB"]).status, 1);
    assert_eq!(check(&[&file, "--max-fragmentation", "10%"]).status, 0);
    let result = gates(&[&file, "--max-fragmentation", "0.01"]);
    assert_eq!(gate(&result, "fragmentation")["passed"], false);
    let totals = json_of(&["segments", "--json", &file, "--at", "peak:reserved"])["devices"][0]["totals"].clone();
    let share = totals["stranded"].as_f64().unwrap() / totals["reserved"].as_f64().unwrap();
    assert!((gate(&result, "fragmentation")["b"].as_f64().unwrap() - share).abs() < 1e-12);
}

/// A job that ran out of memory has a bounded peak: that must not pass for a good one.
#[test]
fn a_new_failure_fails() {
    let (base, new) = (rig("decode_expandable.pickle"), rig("decode.pickle"));
    let only_failures = ["--max-peak-growth", "none", "--max-leak-per-step", "none"];
    let with = |more: &[&str]| check(&[&[base.as_str(), &new], &only_failures[..], more].concat()).status;
    assert_eq!(with(&[]), 1);
    assert_eq!(check(&[&[new.as_str(), &base], &only_failures[..]].concat()).status, 0);
    assert_eq!(with(&["--allow-oom"]), 2, "no gate is left");
    assert_eq!(with(&["--allow-oom", "--max-peak", "1GiB"]), 0);
}

/// What is not in a file is never taken for good.
#[test]
fn what_cannot_be_judged_is_status_2() {
    let none = "testdata/cases/03_soft_free_segments.pickle";
    for arguments in [
        vec![none],
        vec![none, none],
        vec![&rig("steady.pickle.gz"), none],
        vec![none, &rig("steady.pickle.gz")],
        vec!["testdata/cases/12_truncated.pickle"],
        vec!["testdata/cases/12_truncated.pickle", "--salvage"],
        vec!["testdata/hostile/block_beyond_its_segment.pickle"],
        vec!["testdata/nothing.pickle"],
        vec![&rig("steady.pickle.gz"), "testdata/cases/12_empty.pickle"],
        vec![&rig("train_ring500.pickle"), "--max-peak", "70GiB"],
        vec![&rig("train_late.pickle"), "--max-fragmentation", "50%"],
        vec![&rig("steady.pickle.gz"), &rig("train_late.pickle")],
    ] {
        let run = check(&arguments);
        assert_eq!(run.status, 2, "{arguments:?}: {}{}", run.stdout, run.stderr);
    }
    let run = check(&[&rig("train_ring500.pickle"), "--max-peak", "70GiB"]);
    assert!(run.stdout.starts_with("CANNOT JUDGE") && run.stdout.contains("--partial"), "{}", run.stdout);
    assert_eq!(check(&[&rig("train_ring500.pickle"), "--max-peak", "70GiB", "--partial"]).status, 0);
    // More than allowed is too much, whatever came before.
    assert_eq!(check(&[&rig("train_ring500.pickle"), "--max-peak", "100MiB"]).status, 1);
    let devices = check(&[&rig("multigpu.pickle"), &rig("steady.pickle.gz"), "--max-peak-growth", "none"]);
    assert_eq!(devices.status, 2, "{}", devices.stdout);
}

/// A file of which only the block contents contradict each other has no figure to trust.
#[test]
fn a_file_that_contradicts_itself_is_not_judged() {
    let Some(data) = common::shared_data() else { return };
    let path = data.join("public/inconsistent_synthetic.pickle");
    let result = gates(&[path.to_str().unwrap(), "--max-peak", "1GiB", "--max-fragmentation", "50%"]);
    assert_eq!(result["verdict"], "unknown");
    for gate in result["gates"].as_array().unwrap() {
        assert_eq!(gate["passed"], Value::Null, "{gate}");
    }
    for name in ["npu_expandable", "npu_empty_cache"] {
        let path = data.join(format!("public/{name}.pickle"));
        assert_eq!(
            check(&[path.to_str().unwrap(), "--max-peak", "1GiB"]).status,
            2,
            "{name}: begins with memory in use"
        );
    }
}

/// CI needs to keep no pickle: the JSON of an earlier run judges alike.
#[test]
fn the_base_may_be_json() {
    let directory = tempfile::tempdir().unwrap();
    let (base, new) = (rig("steady.pickle.gz"), rig("steps_leak.pickle.gz"));
    let expected = gates(&[&base, &new]);
    for command in ["check", "report", "info"] {
        let path = directory.path().join(format!("{command}.json"));
        fs::write(&path, oomscope([command, "--json", &base]).stdout).unwrap();
        let found = gates(&[path.to_str().unwrap(), &new]);
        assert_eq!(found["gates"], expected["gates"], "{command}");
    }
    let of = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        check(&[path.to_str().unwrap(), &new])
    };
    let other = of("top.json", &oomscope(["top", "--json", &base]).stdout);
    assert_eq!(other.status, 2);
    assert!(other.stderr.contains("`top`") && other.stderr.contains("check --json"), "{}", other.stderr);
    let cut = oomscope(["info", "--json", &base]).stdout;
    assert_eq!(of("cut.json", &cut[..cut.len() / 2]).status, 2);
    let odd =
        of("odd.json", "{\"oomscope\": \"0\", \"command\": \"check\", \"figures\": {\"devices\": [{\"device\": 0}]}}");
    assert_eq!(odd.status, 2, "{}", odd.stdout);
    let salvaged = oomscope(["info", "--json", "--salvage", "testdata/cases/12_truncated.pickle"]).stdout;
    let run = of("salvaged.json", &salvaged);
    assert!(run.status == 2 && run.stderr.contains("damaged"), "{}", run.stderr);
}

#[test]
fn junit_tells_failures_from_errors() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("memory.xml");
    let counts = |arguments: &[&str], status: i32| {
        let _ = fs::remove_file(&path);
        let run = check(&[arguments, &["--junit", path.to_str().unwrap()]].concat());
        assert_eq!(run.status, status, "{arguments:?}: {}", run.stderr);
        let text = fs::read_to_string(&path).unwrap();
        let document = roxmltree::Document::parse(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        let suite = document.descendants().find(|node| node.has_tag_name("testsuite")).unwrap();
        let elements = |name: &str| document.descendants().filter(|node| node.has_tag_name(name)).count().to_string();
        for (attribute, element) in [("tests", "testcase"), ("failures", "failure"), ("errors", "error")] {
            assert_eq!(suite.attribute(attribute), Some(elements(element).as_str()), "{attribute}");
        }
        (elements("testcase"), elements("failure"), elements("error"))
    };
    let three = |a: &str, b: &str, c: &str| (a.to_owned(), b.to_owned(), c.to_owned());
    assert_eq!(counts(&[&rig("steady.pickle.gz"), &rig("steps_leak.pickle.gz")], 1), three("3", "2", "0"));
    assert_eq!(counts(&[&rig("steady.pickle.gz")], 0), three("2", "0", "0"));
    assert_eq!(counts(&["testdata/cases/03_soft_free_segments.pickle"], 2), three("2", "0", "2"));
    assert_eq!(counts(&["testdata/cases/12_truncated.pickle"], 2), three("1", "0", "1"));
}

#[test]
fn calls_that_judge_nothing_are_refused() {
    let file = rig("steady.pickle.gz");
    for arguments in [
        vec!["--max-peak-growth", "5%"],
        vec!["--max-reserved-growth", "5%"],
        vec!["--max-leak-per-step", "none", "--allow-oom"],
        vec!["--max-fragmentation", "150%"],
    ] {
        let run = check(&[&[file.as_str()], arguments.as_slice()].concat());
        assert_eq!(run.status, 2, "{arguments:?}");
        assert!(!run.stderr.is_empty(), "{arguments:?}");
    }
    let two = [testdata().join("rig/2.6.0/steady.pickle.gz"), testdata().join("nothing.pickle")];
    assert_eq!(check(&[two[0].to_str().unwrap(), two[1].to_str().unwrap()]).status, 2);
}
