//! `oomscope flame`: every picture is well-formed, runs nothing, and shows the figures of the ranking.

mod common;

use common::{json_of, oomscope};

const TRAIN: &str = "testdata/rig/2.6.0/oom_train_atoom.pickle";
const LATE: &str = "testdata/rig/2.6.0/train_late.pickle";

/// The tooltips of a picture, which must be well-formed and must not contain anything that runs.
fn tooltips(arguments: &[&str]) -> Vec<String> {
    let run = oomscope(arguments);
    assert_eq!(run.status, 0, "{arguments:?}: {}", run.stderr);
    let lower = run.stdout.to_lowercase();
    for part in ["<script", "onload", "onclick", "href", "<style", "<!doctype"] {
        assert!(!lower.contains(part), "{arguments:?}: {part}");
    }
    let document = roxmltree::Document::parse(&run.stdout).unwrap();
    let titles = document.descendants().filter(|node| node.has_tag_name("title"));
    titles.map(|node| node.text().unwrap_or_default().to_owned()).collect()
}

#[test]
fn live_memory_at_the_failure() {
    let titles = tooltips(&["flame", TRAIN]);
    assert!(titles.contains(&"all (1.39 GiB, 100%)".to_owned()), "{titles:?}");
    assert!(titles.iter().any(|title| title.starts_with("forward (gpt.py:32) (384.0 MiB, ")), "{titles:?}");
}

#[test]
fn the_total_is_that_of_the_ranking() {
    for (flame, top) in [
        (vec!["flame", TRAIN, "--json"], vec!["top", TRAIN, "--json"]),
        (vec!["flame", TRAIN, "--json", "--at", "peak"], vec!["top", TRAIN, "--json", "--at", "peak"]),
        (
            vec!["flame", TRAIN, "--json", "--metric", "allocated", "--window", "100..200"],
            vec!["top", TRAIN, "--json", "--metric", "allocated", "--window", "100..200"],
        ),
        (
            vec!["flame", TRAIN, "--json", "--metric", "bytes-time", "--native"],
            vec!["top", TRAIN, "--json", "--metric", "bytes-time"],
        ),
    ] {
        let (flame, top) = (json_of(&flame), json_of(&top));
        assert!(flame["total"].as_u64().unwrap() > 0);
        assert_eq!(flame["total"], top["total"]);
        assert_eq!(flame["metric"], top["metric"]);
    }
}

#[test]
fn every_metric_and_device_gives_a_picture() {
    for metric in ["allocated", "churn", "count", "bytes-time"] {
        assert!(tooltips(&["flame", TRAIN, "--metric", metric]).len() > 10, "{metric}");
    }
    let devices = tooltips(&["flame", "testdata/rig/2.6.0/multigpu.pickle", "--at", "peak"]);
    assert!(devices.iter().any(|title| title.starts_with("device 1 (")), "{devices:?}");
}

#[test]
fn a_difference_shows_both_sides() {
    let titles = tooltips(&["flame", "--diff", LATE, TRAIN, "--at", "peak"]);
    let all: Vec<&String> = titles.iter().filter(|title| title.starts_with("all (")).collect();
    assert_eq!(all.len(), 2, "{all:?}");
    assert!(all[0].contains("1.39 GiB"), "{all:?}");
    let same = tooltips(&["flame", TRAIN, "--diff", TRAIN]);
    assert!(
        same.iter().filter(|title| !title.starts_with("all (")).all(|title| title.ends_with("; 0.00%)")),
        "{same:?}"
    );
}

#[test]
fn what_does_not_go_together_is_said() {
    let run = oomscope(["flame", TRAIN, "--window", "1..2"]);
    assert_eq!(run.status, 2);
    assert!(run.stderr.contains("--at"), "{}", run.stderr);
    let run = oomscope(["flame", TRAIN, "--metric", "allocated", "--at", "peak"]);
    assert_eq!(run.status, 2);
    assert!(run.stderr.contains("--window"), "{}", run.stderr);
}
