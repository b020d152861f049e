//! `top`, through the binary: metrics, windows, frames, stacks and trees.

mod common;

use std::path::Path;

use common::{json_of, oomscope, read, run_in, shared_data, testdata};
use oomscope::history::History;
use serde_json::Value;

const TRAIN: &str = "testdata/rig/2.6.0/oom_train.pickle";
const STREAMS: &str = "testdata/rig/2.6.0/streams.pickle";

fn top(path: &str, flags: &[&str]) -> Value {
    json_of(&[&["top", path, "--json"], flags].concat())
}

fn rows(ranking: &Value) -> &Vec<Value> {
    ranking["rows"].as_array().unwrap()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value}"))
}

fn sum(ranking: &Value, key: &str) -> u64 {
    rows(ranking).iter().map(|row| number(&row[key])).sum()
}

fn first(ranking: &Value) -> (&str, &str) {
    let row = &rows(ranking)[0];
    (row["site"].as_str().unwrap().rsplit('/').next().unwrap(), row["function"].as_str().unwrap_or(""))
}

/// Every way of grouping and every metric sums to its total, which does not depend on the grouping.
#[test]
fn every_metric_sums_to_its_total_in_every_grouping() {
    const BY: [&str; 10] =
        ["line", "function", "file", "module", "stack", "category", "stream", "pool", "annotation", "compile-region"];
    for path in [TRAIN, STREAMS, "testdata/rig/2.0.1/train_oom.pickle", "testdata/rig/2.6.0/train_ring500.pickle"] {
        for metric in ["live", "allocated", "freed", "churn", "count", "lifetime", "bytes-time"] {
            let mut totals = Vec::new();
            for by in BY {
                let ranking = top(path, &["--by", by, "--metric", metric]);
                let total = number(&ranking["total"]);
                assert_eq!(sum(&ranking, "value"), total, "{path} {metric} {by}");
                assert_eq!((ranking["by"].as_str(), ranking["metric"].as_str()), (Some(by), Some(metric)));
                let shares: f64 = rows(&ranking).iter().map(|row| row["share"].as_f64().unwrap()).sum();
                assert!(total == 0 || (shares - 1.0).abs() < 1e-9, "{path} {metric} {by}: {shares}");
                totals.push(total);
            }
            assert!(totals.iter().all(|total| *total == totals[0]), "{path} {metric}: {totals:?}");
        }
    }
}

/// Bytes × time is the area under the curve of active memory; the two sums are made in different ways.
#[test]
fn bytes_time_is_the_area_under_the_curve() {
    let snapshot = read(&testdata().join("rig/2.6.0/oom_train.pickle"));
    let history = History::new(&snapshot, &snapshot.devices[0], &snapshot.settings.rules);
    let mut area = 0u128;
    for event in 1..history.events() {
        let passed = history.time_us(event).unwrap() - history.time_us(event - 1).unwrap();
        area += u128::from(history.counters(event).active) * u128::from(passed);
    }
    let ranking = top(TRAIN, &["--metric", "bytes-time"]);
    assert_eq!(ranking["unit"], "byte-ms");
    let (found, expected) = (u128::from(number(&ranking["total"])), area / 1000);
    assert!(found.abs_diff(expected) * 1000 <= expected, "{found} {expected}");
    let blocks: u64 = sum(&ranking, "blocks");
    assert!(found <= expected && expected - found <= u128::from(blocks), "only each block's part is rounded down");
}

/// What is allocated in a window and what is there when it begins is freed in it, or there when it ends.
#[test]
fn windows_cut_the_trace() {
    let events = number(&json_of(&["info", TRAIN, "--json"])["devices"][0]["events"]);
    let total = |metric: &str, window: &str| number(&top(TRAIN, &["--metric", metric, "--window", window])["total"]);
    let live = |moment: &str| number(&top(TRAIN, &["--at", moment])["total"]);
    assert_eq!(live("99") + total("allocated", "100..300"), live("300") + total("freed", "100..300"));
    assert_eq!(total("allocated", "..99") + total("allocated", "100.."), total("allocated", &format!("0..{events}")));
    assert!(total("churn", "100..300") <= total("freed", "100..300"));
    let window = top(TRAIN, &["--metric", "count", "--window", "100..300"]);
    assert_eq!((number(&window["window"]["first"]), number(&window["window"]["last"])), (100, 300));
    let time = number(&window["at"]["time_us"]);
    assert_eq!(total("count", &format!("100..@{time}")), number(&window["total"]));
    for (flags, says) in [
        (vec!["--window", "3..5"], "--at"),
        (vec!["--metric", "churn", "--at", "peak"], "--window"),
        (vec!["--metric", "churn", "--window", "300..100"], "ends before it begins"),
        (vec!["--metric", "churn", "--window", "step:3"], "nothing marks steps"),
        (vec!["--metric", "churn", "--window", "x"], "is no window"),
    ] {
        let run = oomscope([&["top", TRAIN][..], &flags].concat());
        assert!(run.status == 2 && run.stderr.contains(says), "{flags:?}: {}", run.stderr);
    }
    let run = oomscope(["top", "testdata/cases/03_soft_free_segments.pickle", "--metric", "churn"]);
    assert!(run.status == 2 && run.stderr.contains("no recorded history"), "{}", run.stderr);
}

/// The steps of `steps_leak` are marked; each keeps one tensor of 3 MiB from step 3 on.
#[test]
fn windows_by_step() {
    let Some(data) = shared_data() else { return };
    let path = data.join("rig/2.6.0/steps_leak.pickle.gz");
    let path = path.to_str().unwrap();
    let total = |metric: &str, window: &str| number(&top(path, &["--metric", metric, "--window", window])["total"]);
    let sum = total("allocated", "step:3") + total("allocated", "step:4") + total("allocated", "step:5");
    assert_eq!(sum, total("allocated", "step:3..step:5"));
    let window = ["--metric", "count", "--window", "step:3..step:7", "--under", r"workloads\.py:231 "];
    let kept = top(path, &window);
    assert_eq!(number(&kept["total"]), 5, "one tensor a step");
    assert!(kept["note"].as_str().unwrap().contains("ProfilerStep"), "{}", kept["note"]);
    let text = oomscope(["top", path, "--metric", "churn", "--window", "step:99"]).stderr;
    assert!(text.contains("there is no step 99: steps 0 to 29"), "{text}");
}

#[test]
fn files_without_times_count_events() {
    let path = "testdata/rig/2.0.1/train_oom.pickle";
    assert_eq!(top(path, &["--metric", "lifetime"])["unit"], "events");
    assert_eq!(top(path, &["--metric", "bytes-time"])["unit"], "byte-events");
    let text = oomscope(["top", path, "--metric", "bytes-time"]).stdout;
    assert!(text.contains("the file has no times"), "{text}");
}

#[test]
fn frames_can_be_chosen() {
    let whole = number(&top(TRAIN, &[])["total"]);
    let under = top(TRAIN, &["--under", r"gpt\.py:19 "]);
    assert_eq!(first(&under), ("gpt.py:19", "forward"));
    assert_eq!(number(&under["total"]) + number(&under["left_out"]), whole);
    assert_eq!(sum(&under, "bytes"), 384 << 20);
    let hidden = top(TRAIN, &["--hide", r"gpt\.py"]);
    assert_eq!(first(&hidden), ("workloads.py:65", "train_step"));
    assert_eq!(sum(&hidden, "bytes"), whole);
    let user = top(TRAIN, &["--user", r"/torch/nn/functional\.py"]);
    assert_eq!(first(&user), ("functional.py:2140", "softmax"));
    let innermost = top(TRAIN, &["--innermost"]);
    assert!(rows(&innermost)[0]["site"].as_str().unwrap().contains("site-packages"));
    assert_eq!(sum(&innermost, "bytes"), whole);
    let module = top(TRAIN, &["--by", "module"]);
    assert_eq!(first(&module).0, "gpt");
    // Patterns are searched for in the whole frame: hiding `_start` must not hide `train_step`.
    assert_eq!(first(&top(TRAIN, &["--hide", r" _start$"])), first(&top(TRAIN, &[])));
    assert_eq!(oomscope(["top", TRAIN, "--under", "("]).status, 2);
}

/// Long paths are shortened in their middle: the file and its line stay.
#[test]
fn stacks_fit_the_terminal() {
    for columns in [70, 80] {
        let arguments = ["top", TRAIN, "--stack", "--limit", "3"];
        let run = run_in(Path::new(env!("CARGO_MANIFEST_DIR")), arguments, &[("COLUMNS", &columns.to_string())]);
        assert!(run.stdout.lines().all(|line| line.chars().count() <= columns), "{}", run.stdout);
        assert!(run.stdout.contains("gpt.py\", line "), "{}", run.stdout);
    }
}

#[test]
fn stacks_are_printed_as_python_prints_them() {
    let text = oomscope(["top", TRAIN, "--stack", "--limit", "1"]).stdout;
    let line =
        |part: &str| text.lines().position(|line| line.contains(part)).unwrap_or_else(|| panic!("{part}: {text}"));
    assert!(line("in <module>") < line("line 65, in train_step"), "innermost last: {text}");
    assert!(line("line 65, in train_step") < line("line 19, in forward"), "{text}");
    assert!(text.contains("… 2 library frames, among them module.py"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
    let ranking = top(TRAIN, &["--stack", "--limit", "2"]);
    let stacks = rows(&ranking)[0]["stacks"].as_array().unwrap();
    assert_eq!(stacks[0]["frames"].as_array().unwrap().last().unwrap()["function"], "<module>");
    assert!(rows(&ranking)[2].get("stacks").is_none());
}

#[test]
fn the_tree_sums_at_every_branch() {
    fn check(branches: &Value, above: u64) {
        let sum: u64 = branches.as_array().unwrap().iter().map(|branch| number(&branch["value"])).sum();
        assert_eq!(sum, above);
        for branch in branches.as_array().unwrap() {
            check(&branch["branches"], number(&branch["value"]) - number(&branch["own"]));
        }
    }
    let tree = top(TRAIN, &["--tree"]);
    check(&tree["branches"], number(&tree["total"]));
    assert_eq!(number(&tree["total"]), number(&top(TRAIN, &[])["total"]));
    let text = oomscope(["top", TRAIN, "--tree"]).stdout;
    assert!(text.contains("workloads.py:254  <module>") && text.contains("gpt.py:19  forward"), "{text}");
    assert_eq!(oomscope(["top", TRAIN, "--tree", "--by", "file"]).status, 2);
}

/// Same input, same output, whatever the number of threads.
#[test]
fn threads_do_not_change_the_output() {
    let run = |threads: &str| {
        let arguments = ["top", TRAIN, "--by", "category", "--metric", "bytes-time", "--json"];
        run_in(Path::new(env!("CARGO_MANIFEST_DIR")), arguments, &[("RAYON_NUM_THREADS", threads)]).stdout
    };
    assert_eq!(run("1"), run("4"));
}

#[test]
fn streams_pools_and_regions_are_named() {
    assert_eq!(rows(&top(STREAMS, &["--by", "stream", "--metric", "count"])).len(), 3);
    let pools = top("testdata/rig/2.15.0/mempool.pickle", &["--by", "pool", "--at", "end"]);
    assert!(rows(&pools).iter().any(|row| row["site"] == "default pool"));
    assert!(rows(&pools).iter().any(|row| row["site"].as_str().unwrap().starts_with("private pool")), "{pools}");
    let regions = top("testdata/rig/2.15.0/meta.pickle", &["--by", "annotation", "--metric", "count"]);
    let names: Vec<&str> = rows(&regions).iter().map(|row| row["site"].as_str().unwrap()).collect();
    assert!(names.contains(&"## my region ##") && names.contains(&"phase=load"), "{names:?}");
    let none = top(TRAIN, &["--by", "compile-region"]);
    assert!(none["note"].as_str().unwrap().contains("2.8"), "{none}");
}

/// What a reader of the programs would blame. `leak_eval` keeps whole graphs, which many lines of the model share: with
/// the model hidden the culprit is the call in the evaluation loop.
#[test]
fn the_line_to_blame_comes_first() {
    let model = ["gpt.py:19", "gpt.py:32", "gpt.py:65"];
    let expected: [(&str, &[&str], &[&str]); 6] = [
        ("decode", &[], &["workloads.py:127"]),
        ("oom_train", &[], &model[..2]),
        ("oom_bigone", &[], &["workloads.py:132"]),
        ("oom_fraction", &[], &["workloads.py:201"]),
        ("leak_eval", &[], &model),
        ("leak_eval", &["--hide", r"gpt\.py"], &["workloads.py:94"]),
    ];
    let check = |path: &std::path::Path, flags: &[&str], lines: &[&str]| {
        let ranking = top(path.to_str().unwrap(), &[&["--at", "oom"], flags].concat());
        assert!(lines.contains(&first(&ranking).0), "{}: {:?}", path.display(), first(&ranking));
    };
    let mut visited = 0;
    let mut roots = vec![testdata().join("rig")];
    roots.extend(shared_data().map(|data| data.join("rig")));
    for root in &roots {
        for path in common::files(root, common::is_pickle) {
            let stem = common::stem(&path);
            let name = stem.rsplit('/').next().unwrap().trim_end_matches("_atoom");
            for (_, flags, lines) in expected.iter().filter(|(wanted, ..)| *wanted == name) {
                check(&path, flags, lines);
                visited += 1;
            }
            match name {
                // The logits: a view of each is kept.
                "leak_cache" => check(&path, &[], &["gpt.py:62"]),
                // What the graph holds, and what was asked for beside it.
                "oom_privatepool" => check(&path, &[], &["workloads.py:185"]),
                "oom_train_expandable" => check(&path, &[], &model),
                _ => continue,
            }
            visited += 1;
        }
    }
    let least = if roots.len() > 1 { 40 } else { 10 };
    assert!(visited >= least, "{visited} files");
}
