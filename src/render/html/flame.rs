//! Live memory by call stack: each frame as wide as the memory allocated below it, the root on top.

use maud::{Markup, html};

use super::cells::{hex, name, paint_of};
use crate::analysis::folded::{Folded, FoldedStack};
use crate::text::base_name;
use crate::units::bytes;

/// Frames narrower than this part of the whole are left out.
const NARROWEST: u64 = 500;
/// Frames, and rows of them.
const FRAMES: usize = 1_500;
const ROWS: usize = 48;
/// Pixels of a row.
const ROW: usize = 19;

struct Frame<'a> {
    label: &'a str,
    row: usize,
    start: u64,
    value: u64,
}

/// The picture of `folded`; at most `limit` frames.
pub fn flame(folded: &Folded, limit: usize) -> Markup {
    let mut frames = vec![Frame { label: "all live memory", row: 0, start: 0, value: folded.total }];
    below(&folded.stacks, 0, 0, folded.total / NARROWEST, limit.min(FRAMES), &mut frames);
    let rows = frames.iter().map(|frame| frame.row + 1).max().unwrap_or(1);
    let whole = folded.total.max(1) as f64;
    let is_cut = folded.stacks.iter().any(|stack| stack.frames.len() >= ROWS) || frames.len() > limit.min(FRAMES);
    html! {
        div.flame.scroll role="region" aria-label="Flame graph of live memory" {
            svg width="100%" height=(rows * ROW) role="tree" aria-label="Frames; arrow keys move, Enter zooms, Escape shows all" {
                @for (at, frame) in frames.iter().enumerate() {
                    @let share = frame.value as f64 / whole;
                    @let start = frame.start as f64 / whole;
                    svg.frame x=(percent(start)) y=(frame.row * ROW) width=(percent(share)) height=(ROW - 1) role="treeitem"
                        tabindex=(if at == 0 { "0" } else { "-1" }) data-start=(format!("{start:.6}")) data-share=(format!("{share:.6}")) data-row=(frame.row)
                        aria-level=(frame.row + 1) aria-label=(format!("{}, {}, {:.1} %", name(frame.label), bytes(frame.value), share * 100.0)) {
                        rect width="100%" height="100%" fill=(hex(paint_of(file(frame.label)).colour)) {}
                        text x="5" y="13" { (name(&short(frame.label))) }
                    }
                }
            }
        }
        @if is_cut { p.note { "Very deep stacks and narrow frames are not drawn; oomscope flame has them." } }
    }
}

/// Adds the frames of row `depth` that `stacks`, which are sorted and start at `start`, have, and what is below them.
fn below<'a>(
    stacks: &'a [FoldedStack],
    depth: usize,
    mut start: u64,
    narrowest: u64,
    limit: usize,
    frames: &mut Vec<Frame<'a>>,
) {
    if depth >= ROWS {
        return;
    }
    for same in stacks.chunk_by(|a, b| a.frames.get(depth) == b.frames.get(depth)) {
        let value = same.iter().fold(0u64, |sum, stack| sum.saturating_add(stack.value));
        if let Some(label) = same[0].frames.get(depth)
            && value > narrowest
            && frames.len() <= limit
        {
            frames.push(Frame { label, row: depth + 1, start, value });
            below(same, depth + 1, start, narrowest, limit, frames);
        }
        start = start.saturating_add(value);
    }
}

fn percent(share: f64) -> String {
    format!("{:.4}%", share * 100.0)
}

/// The file and line of `function (file:line)`.
fn file(label: &str) -> &str {
    label.rsplit_once(" (").map_or(label, |(_, place)| place.trim_end_matches(')'))
}

/// The frame without directories.
fn short(label: &str) -> String {
    match label.rsplit_once(" (") {
        Some((function, place)) => format!("{function}  {}", base_name(place.trim_end_matches(')'))),
        None => label.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analysis::ranking::Unit;

    #[test]
    fn frames_lie_below_their_callers() {
        let stack = |frames: &[&str], value| FoldedStack {
            frames: frames.iter().map(|&frame| frame.to_owned()).collect(),
            value,
        };
        let stacks = vec![stack(&["a"], 10), stack(&["a", "b"], 30), stack(&["c", "b"], 60)];
        let folded = Folded { unit: Unit::Bytes, total: 100, stacks, own: Default::default() };
        let mut frames = Vec::new();
        below(&folded.stacks, 0, 0, 0, 99, &mut frames);
        let found: Vec<_> = frames.iter().map(|frame| (frame.label, frame.row, frame.start, frame.value)).collect();
        assert_eq!(found, [("a", 1, 0, 40), ("b", 2, 10, 30), ("c", 1, 40, 60), ("b", 2, 40, 60)]);
    }

    #[test]
    fn labels_lose_their_directories() {
        assert_eq!(short("f (/a/b/x.py:3)"), "f  x.py:3");
        assert_eq!((short("at::empty").as_str(), file("f (/a/x.py:3)")), ("at::empty", "/a/x.py:3"));
    }
}
