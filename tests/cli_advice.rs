//! What `oomscope report` advises, and that its figures agree with each other in every form that it prints.

mod common;

use std::fs;
use std::path::Path;

use common::{json_of, oomscope, shared_data};
use serde_json::{Value, json};

const RIG: &str = "testdata/rig/2.6.0";

fn remedy(report: &Value, id: &str) -> Value {
    let remedies = report["remedies"].as_array().unwrap();
    remedies.iter().find(|remedy| remedy["id"] == id).cloned().unwrap_or_default()
}

fn report(file: &str) -> Value {
    json_of(&["report", file, "--json"])
}

/// Text, Markdown and HTML of a report.
fn forms(arguments: &[&str]) -> [String; 3] {
    let directory = tempfile::tempdir().unwrap();
    let print = |more: &[&str]| {
        let run = oomscope([&["report"], arguments, more].concat());
        assert_eq!(run.status, 0, "{}", run.stderr);
        run.stdout.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let text = print(&[]);
    let md = print(&["--format", "md"]);
    print(&["-o", directory.path().to_str().unwrap()]);
    [text, md, fs::read_to_string(directory.path().join("report.html")).unwrap()]
}

#[test]
fn another_moment_does_not_hide_the_failure() {
    let file = format!("{RIG}/oom_train_atoom.pickle");
    for (at, shown) in [("peak", "shown at the peak, event 402"), ("end", "shown at the end"), ("9", "after event 9")] {
        for form in forms(&[&file, "--at", at]) {
            assert!(form.contains(shown) && form.contains("the file has 1 OOM, at event 403: --oom 1"), "{at}: {form}");
            assert!(
                !form.contains("no OOM in the trace") && !form.contains("No out-of-memory failure"),
                "{at}: {form}"
            );
        }
    }
}

/// A process that failed twice; in between something else took 6 MiB of the card.
fn failed_twice(path: &Path) {
    const MIB: u64 = 1 << 20;
    let entry = |action: &str, addr: u64, size: u64| json!({"action": action, "addr": addr, "size": size * MIB, "stream": 0, "time_us": addr / MIB, "frames": []});
    let oom = |size: u64, free: u64| json!({"action": "oom", "size": size * MIB, "device_free": free * MIB, "stream": 0, "time_us": 9, "frames": []});
    let (a, b) = (100 * MIB, 200 * MIB);
    let trace = [
        entry("segment_alloc", a, 20),
        entry("alloc", a, 20),
        oom(30, 20),
        entry("segment_alloc", b, 12),
        entry("alloc", b, 12),
        oom(40, 2),
    ];
    let segment = |address: u64, size: u64| {
        let bytes = size * MIB;
        json!({"device": 0, "address": address, "total_size": bytes, "allocated_size": bytes, "active_size": bytes,
            "requested_size": bytes, "stream": 0, "segment_type": "large", "segment_pool_id": [0, 0],
            "is_expandable": false, "frames": [], "blocks": [
                {"address": address, "size": bytes, "requested_size": bytes, "state": "active_allocated", "frames": []}]})
    };
    let snapshot = json!({"segments": [segment(a, 20), segment(b, 12)], "device_traces": [trace],
        "allocator_settings": {}, "external_annotations": []});
    fs::write(path, snapshot.to_string()).unwrap();
}

#[test]
fn each_of_several_failures_has_its_own_capacity() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("twice.json");
    failed_twice(&path);
    let file = path.to_str().unwrap();
    for (oom, own, other, which) in [
        ("1", "40.0 MiB", "34.0 MiB", "OOM 1 of 2; --oom 2 shows the other"),
        ("2", "34.0 MiB", "40.0 MiB", "OOM 2 of 2; --oom 1 shows the other"),
    ] {
        for form in forms(&[file, "--oom", oom]) {
            assert!(form.contains(which), "{form}");
            assert!(form.contains(&format!("of {own} that this process could have")), "{form}");
        }
        let text = &forms(&[file, "--oom", oom])[0];
        assert!(text.contains(&format!("of {own} it could have")), "{text}");
        assert!(!text.contains(&format!("of {other}")), "{text}");
        assert_eq!(
            json_of(&["report", file, "--oom", oom, "--json"])["whatif"]["capacity"],
            own[..2].parse::<u64>().unwrap() << 20
        );
    }
}

#[test]
fn what_grows_has_one_figure_or_is_labelled() {
    let file = format!("{RIG}/leak_eval_atoom.pickle");
    let [text, md, _] = forms(&[&file]);
    let cause = &report(&file)["leaks"]["causes"][0];
    assert_eq!(cause["live_bytes"].as_u64().map(|n| n >> 20), Some(3393));
    for form in [&text, &md] {
        assert_eq!(form.matches("3.31 GiB").count(), 3, "the verdict, the row and the remedy: {form}");
    }
    let file = format!("{RIG}/steps_leak.pickle.gz");
    let [text, md, html] = forms(&[&file]);
    assert!(text.contains("live at the end") && md.contains("live at the end"), "{text}\n{md}");
    assert!(html.contains("What is called live here is that at the end, not that at the peak"));
    let at = &report(&file)["leaks"]["steps"]["at"];
    assert_eq!((at["what"].as_str(), at["event"].as_u64()), (Some("end"), Some(16_025)));
}

#[test]
fn the_line_that_keeps_is_named_with_its_remedy() {
    for (file, line, remedy) in [
        ("leak_eval_atoom.pickle", "workloads.py:94 (autograd graph kept)", "torch.no_grad() or inference_mode()"),
        ("leak_cache_atoom.pickle.gz", "workloads.py:103 (model output kept)", "keep out.detach().cpu()"),
    ] {
        let report = report(&format!("{RIG}/{file}"));
        assert_eq!(report["verdict"], "accumulation");
        assert!(report["evidence"][0].as_str().unwrap().contains(line), "{}", report["evidence"]);
        let first = &report["remedies"][0];
        assert_eq!(first["id"], "let_go");
        let what = first["do"].as_str().unwrap();
        assert!(what.starts_with("at workloads.py:") && what.contains(remedy), "{what}");
    }
}

#[test]
fn a_setting_that_passes_is_among_the_remedies() {
    for (file, words) in [
        ("oom_train.pickle", "passes this request with only 16.0 MiB left: it buys little"),
        ("leak_eval_atoom.pickle", "passes this request with only 20.0 MiB left: it buys little"),
        ("leak_cache_atoom.pickle.gz", "does not pass this request"),
    ] {
        let file = format!("{RIG}/{file}");
        let found = remedy(&report(&file), "expandable_segments");
        assert_eq!(found["class"], "no", "{file}: {found}");
        assert!(found["why"].as_str().unwrap().contains(words), "{file}: {found}");
        for form in forms(&[&file]) {
            assert!(form.contains(words), "{file}: {form}");
        }
    }
}

#[test]
fn only_lines_whose_blocks_live_long_are_to_be_allocated_first() {
    let line = |file: &str| remedy(&report(file), "long_lived_first")["do"].as_str().map(str::to_owned);
    let workload = |number: u32| {
        Some(format!("allocate what workloads.py:{number} keeps before what comes and goes, or in one buffer"))
    };
    assert_eq!(line(&format!("{RIG}/decode_atoom.pickle")), workload(128));
    assert_eq!(line("testdata/rig/2.1.2/frag_maxsplit_atoom.pickle.gz"), workload(116));
    // Activations of the step that failed pin most there.
    assert_eq!(line("testdata/ranks16/snapshot_rank11.pickle.gz"), None);
    let Some(shared) = shared_data() else { return };
    let file = shared.join("rig/2.6.0/frag_atoom.pickle.gz");
    assert_eq!(line(file.to_str().unwrap()), workload(116));
}

/// The rounding that reserves least is advised, as `whatif` finds it.
#[test]
fn the_best_rounding_is_advised() {
    let file = format!("{RIG}/decode_atoom.pickle");
    let all = json_of(&["whatif", &file, "--json"]);
    let scenarios = all["scenarios"].as_array().unwrap();
    let roundings = scenarios.iter().filter(|one| one["settings"].as_str().unwrap().starts_with("roundup"));
    let best =
        roundings.filter(|one| one["advised"] == true).min_by_key(|one| one["end"]["reserved"].as_u64()).unwrap();
    assert_eq!(best["settings"], "roundup_power2_divisions:2");
    let found = remedy(&report(&file), "roundup");
    assert!(found["do"].as_str().unwrap().contains("roundup_power2_divisions:2"), "{found}");
    assert_eq!(found["replayed"], best["advice"]);
}

#[test]
fn what_the_cards_size_would_tell_is_said_where_it_decides() {
    let wanted = |arguments: &[&str]| {
        let report = json_of(&[&["report", "--json"], arguments].concat());
        report["diagnoses"][0]["diagnosis"]["wanted"].to_string().contains("card size is not in the file")
    };
    let file = "testdata/ranks16/snapshot_rank11.pickle.gz";
    assert!(wanted(&[file]));
    assert!(!wanted(&[file, "--capacity", "4GiB"]));
    assert!(!wanted(&[&format!("{RIG}/leak_eval_atoom.pickle")]), "it grows, whoever else is on the card");
}

#[test]
fn a_file_without_a_failure_has_a_next_step() {
    for (file, step) in [
        (format!("{RIG}/steps_leak.pickle.gz"), "oomscope leaks FILE"),
        ("testdata/cases/09_linear_leak.pickle".to_owned(), "oomscope leaks FILE"),
        (format!("{RIG}/train_ring500.pickle"), "oomscope howto hook"),
        (format!("{RIG}/train_late.pickle"), "oomscope howto hook"),
    ] {
        for form in forms(&[&file]) {
            assert!(form.to_uppercase().contains("WHAT TO DO") && form.contains(step), "{file}: {form}");
        }
        assert!(report(&file)["next"].to_string().contains(step), "{file}");
    }
    assert_eq!(report(&format!("{RIG}/steady.pickle.gz"))["next"], json!([]));
}

/// Each release records by its own arguments.
#[test]
fn recording_is_explained_for_the_release() {
    let reasons = |file: &str| json_of(&["info", file, "--json"])["devices"][0]["trace"]["reasons"].to_string();
    let old = reasons("testdata/cases/12_list_2022.pickle");
    assert!(old.contains("before 2.0 records only the stacks") && !old.contains("max_entries"), "{old}");
    let new = reasons("testdata/cases/12_two_devices.pickle");
    assert!(new.contains("_record_memory_history(max_entries=100000, stacks=\\\"python\\\")"), "{new}");
    let howto = oomscope(["howto", "old"]).stdout;
    assert!(howto.contains("_record_memory_history(True, trace_alloc_max_entries="), "{howto}");
}

#[test]
fn a_contradiction_that_rounding_hides_is_told_in_bytes() {
    let run = oomscope(["report", "testdata/cases/12_high_addr.pickle"]);
    assert!(run.stdout.contains("live blocks need 2 097 664 B but only 2 097 152 B is mapped"), "{}", run.stdout);
    assert!(run.stdout.contains("1 block in 2.0 MiB of segments was there"), "{}", run.stdout);
}

#[test]
fn code_in_a_sentence_is_code_on_a_page() {
    let [text, md, html] = forms(&[&format!("{RIG}/steps_leak.pickle.gz")]);
    assert!(text.contains("`oomscope leaks FILE`") && md.contains("`oomscope leaks FILE`"), "{text}\n{md}");
    assert!(html.contains("<code>oomscope leaks FILE</code>"));
}
