//! Flame graphs: a golden file, and names that try to break out of the picture.
//!
//! `OOMSCOPE_BLESS=1 cargo test --test flame_svg` rewrites the golden file; look at it before committing.

mod common;

use std::collections::BTreeSet;

use oomscope::analysis::folded::{Folded, FoldedStack};
use oomscope::analysis::ranking::Unit;
use oomscope::render::flame::{FlameOptions, difference_svg, flame_svg};

const MIB: u64 = 1 << 20;

fn folded(stacks: &[(&[&str], u64)]) -> Folded {
    let mut stacks: Vec<FoldedStack> = stacks
        .iter()
        .map(|(frames, value)| FoldedStack { frames: frames.iter().map(|&f| f.to_owned()).collect(), value: *value })
        .collect();
    stacks.sort_by(|a, b| a.frames.cmp(&b.frames));
    let own: BTreeSet<String> =
        stacks.iter().flat_map(|stack| &stack.frames).filter(|frame| !frame.contains("torch")).cloned().collect();
    Folded {
        unit: Unit::Bytes,
        total: stacks.iter().fold(0, |total: u64, stack| total.saturating_add(stack.value)),
        stacks,
        own,
    }
}

fn hostile() -> Folded {
    folded(&[
        (&["# <module> (/home/me/train.py:3)", "step (/home/me/train.py:41)"], 300 * MIB),
        (&["# <module> (/home/me/train.py:3)", "</title><script>alert(1)</script> (/home/me/x.py:1)"], 200 * MIB),
        (
            &[
                "# <module> (/home/me/train.py:3)",
                "\" onload='x' &amp; 12 345",
                "empty (/v/site-packages/torch/_refs.py:7)",
            ],
            100 * MIB,
        ),
        (&["(autograd backward, no Python stack)"], 40 * MIB),
    ])
}

fn options() -> FlameOptions {
    FlameOptions { title: "<b>rank 0</b>.pickle".into(), subtitle: "bytes live, at the OOM".into(), width: 1_000 }
}

fn check(svg: &str) {
    let lower = svg.to_lowercase();
    assert!(!lower.contains("<script") && !lower.contains(" onload=\"") && !lower.contains("href"));
    roxmltree::Document::parse(svg).expect("well-formed XML");
}

#[test]
fn hostile_names() {
    let svg = flame_svg(&hostile(), &options()).unwrap();
    check(&svg);
    assert!(svg.contains("&lt;/title&gt;&lt;script&gt;alert(1)"));
    // Nothing is lost, whatever a frame is called.
    assert!(svg.contains("<title>all (640.0 MiB, 100%)</title>"), "{svg}");
    let path = common::testdata().join("golden/flame_hostile.svg");
    if std::env::var_os("OOMSCOPE_BLESS").is_some() {
        std::fs::write(&path, &svg).unwrap();
    }
    let expected = std::fs::read_to_string(&path).expect("a golden file: run with OOMSCOPE_BLESS=1");
    assert!(svg == expected, "flame_hostile.svg changed: run with OOMSCOPE_BLESS=1, look at it, commit it");
}

#[test]
fn differences_have_both_sides() {
    let after = folded(&[(&["# <module> (/home/me/train.py:3)", "step (/home/me/train.py:41)"], 500 * MIB)]);
    let svg = difference_svg(&hostile(), &after, ("a.pickle", "b.pickle"), &options()).unwrap();
    check(&svg);
    assert!(svg.contains("b.pickle: 500.0 MiB") && svg.contains("a.pickle: 640.0 MiB"), "{svg}");
}

#[test]
fn nothing_gives_no_picture() {
    let nothing = folded(&[]);
    assert_eq!(flame_svg(&nothing, &options()), None);
    assert_eq!(difference_svg(&nothing, &nothing, ("a", "b"), &options()), None);
    assert!(difference_svg(&hostile(), &nothing, ("a", "b"), &options()).is_some());
}

#[test]
fn the_same_frames_have_the_same_colour_every_time() {
    assert_eq!(flame_svg(&hostile(), &options()), flame_svg(&hostile(), &options()));
}

/// Values whose sum does not fit into 64 bits, as damaged files have them, and one that inferno could not multiply.
#[test]
fn enormous_values_are_drawn() {
    for value in [u64::MAX, u64::MAX / 3, 1 << 60] {
        let many = folded(&[(&["a", "b"], value), (&["a", "c"], value), (&["d"], 1)]);
        let few = folded(&[(&["a", "b"], 1), (&["a", "c"], value)]);
        let svg = flame_svg(&many, &options()).unwrap();
        check(&svg);
        check(&difference_svg(&many, &few, ("a", "b"), &options()).unwrap());
        check(&difference_svg(&few, &many, ("a", "b"), &options()).unwrap());
    }
}
