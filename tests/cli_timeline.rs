//! `oomscope timeline`: pictures that are well-formed and run nothing, charts that fit a terminal, JSON that sums.

mod common;

use common::{json_of, oomscope};

const TRAIN: &str = "testdata/rig/2.6.0/oom_train_atoom.pickle";
const DECODE: &str = "testdata/rig/2.6.0/decode_atoom.pickle";

/// The picture, which must be well-formed and must not contain anything that runs.
fn picture(arguments: &[&str]) -> String {
    let run = oomscope(arguments);
    assert_eq!(run.status, 0, "{arguments:?}: {}", run.stderr);
    let lower = run.stdout.to_lowercase();
    for part in ["<script", "onload", "href", "<style"] {
        assert!(!lower.contains(part), "{arguments:?}: {part}");
    }
    roxmltree::Document::parse(&run.stdout).unwrap_or_else(|error| panic!("{arguments:?}: {error}"));
    run.stdout
}

#[test]
fn every_subject_gives_a_picture() {
    let lines = picture(&["timeline", TRAIN]);
    assert!(lines.contains(">gpt.py:32<") && lines.contains("peak 1.39 GiB") && lines.contains("OOM: 128.0 MiB asked"));
    let blocks = picture(&["timeline", TRAIN, "--what", "blocks"]);
    assert!(blocks.contains("allocated by event") && blocks.contains(">gpt.py:32 ×"), "blocks");
    let segments = picture(&["timeline", DECODE, "--what", "segments"]);
    assert!(segments.contains(">large pool ×") && segments.contains("peak 3.54 GiB"), "segments");
    let expandable =
        picture(&["timeline", "testdata/rig/2.6.0/oom_train_expandable_atoom.pickle", "--what", "segments"]);
    assert!(expandable.contains(">expandable, large pool<"), "expandable");
    for (by, row) in [("size", ">64 MiB to 256 MiB<"), ("category", ">activations<"), ("stream", "default stream")] {
        assert!(picture(&["timeline", TRAIN, "--stack-by", by]).contains(row), "{by}");
    }
}

#[test]
fn regions_and_every_device_are_shown() {
    let meta = picture(&["timeline", "testdata/rig/2.15.0/meta.pickle", "--x", "time"]);
    assert!(meta.contains("## my region ##"));
    let devices = picture(&["timeline", "testdata/rig/2.6.0/multigpu.pickle"]);
    assert!(devices.contains("device 0") && devices.contains("device 1"));
    let one = picture(&["timeline", "testdata/rig/2.6.0/multigpu.pickle", "--device", "1"]);
    assert!(!one.contains("device 0"));
}

#[test]
fn characters_fit_the_width() {
    for width in ["60", "100"] {
        let run = oomscope(["timeline", DECODE, "--text", "--width", width]);
        assert_eq!(run.status, 0, "{}", run.stderr);
        let widest = run.stdout.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= width.parse().unwrap(), "{widest}\n{}", run.stdout);
        for part in ["3 GiB┤", "X OOM: 78.1 MiB asked at event 1 803", "peak 692.4 MiB at event 1 797", "capacity"] {
            assert!(run.stdout.contains(part), "{part}\n{}", run.stdout);
        }
    }
}

#[test]
fn json_has_the_bands_of_the_window() {
    let json = json_of(&["timeline", TRAIN, "--json", "--window", "100..200"]);
    let series = &json["series"][0];
    assert_eq!(series["unit"], "event");
    assert_eq!(series["x"][0], 100);
    assert_eq!(series["x_end"], 201);
    let columns = series["x"].as_array().unwrap().len();
    let bands = series["bands"].as_array().unwrap();
    for i in 0..columns {
        let sum: u64 = bands.iter().map(|band| band["values"][i].as_u64().unwrap()).sum();
        assert_eq!(Some(sum), series["active"][i].as_u64(), "column {i}");
    }
    let oom = json_of(&["timeline", TRAIN, "--json", "--window", "oom.."]);
    let kinds: Vec<&serde_json::Value> =
        oom["series"][0]["marks"].as_array().unwrap().iter().map(|mark| &mark["kind"]).collect();
    assert!(kinds.contains(&&serde_json::json!("oom")), "{kinds:?}");
}

#[test]
fn what_cannot_be_drawn_is_said() {
    for (arguments, said) in [
        (vec!["timeline", TRAIN, "--window", "9999.."], "no event 9999"),
        (vec!["timeline", TRAIN, "--window", "200..100"], "ends before it begins"),
        (vec!["timeline", TRAIN, "--what", "blocks", "--stack-by", "size"], "--stack-by"),
        (vec!["timeline", "testdata/cases/12_empty.pickle"], "no history"),
    ] {
        let run = oomscope(&arguments);
        assert_eq!(run.status, 2, "{arguments:?}");
        assert!(run.stderr.contains(said), "{arguments:?}: {}", run.stderr);
    }
}
