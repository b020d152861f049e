//! Whole stacks as Python prints them, and calling trees.

use super::figures::{figure, left_out, percent, what};
use super::number_of;
use crate::analysis::ranking::{Branch, StackFrame, StackRow, Tree, Unit};
use crate::render::table::{Align, Table, WIDEST};
use crate::text::{base_name, printable, shorten};
use crate::units::count;

/// Branches with less are summed.
const SMALLEST: f64 = 0.01;

/// Columns of a function's name.
const LONGEST_FUNCTION: usize = 60;

/// The least that a path is shortened to.
const SHORTEST_FILE: usize = 20;

/// Deeper levels are not indented any more.
const DEEPEST_INDENT: usize = 24;

/// The stacks of one row, innermost frame last; runs of library frames as one line. A long path is shortened to `width`
/// columns of a line.
pub(super) fn stacks(rows: &[StackRow], unit: Unit, width: Option<usize>) -> String {
    let room = width.unwrap_or(WIDEST);
    let mut text = String::new();
    for row in rows {
        text += &format!("  {} in {}\n", figure(row.value, unit), number_of(row.blocks, "block"));
        let frames: Vec<&StackFrame> = row.frames.iter().rev().collect();
        for run in frames.chunk_by(|a, b| a.library && b.library) {
            text += &match run {
                [frame] if !frame.library => format!("    {}\n", words(frame, room.saturating_sub(4))),
                [frame] => format!("      … library: {}\n", short(frame)),
                // Below Python's own functions there is the same C++ everywhere.
                [..] if let Some(frame) = run.iter().rev().find(|frame| frame.file.ends_with(".py")) => {
                    format!("      … {} library frames, among them {}\n", run.len(), short(frame))
                }
                [..] => format!("      … {} library frames\n", run.len()),
            };
        }
        if row.more > 0 {
            text += &format!("  and {} more stacks\n", count(row.more));
        }
    }
    text
}

/// `frame` as Python prints it, in at most `room` columns where that leaves its file to be seen.
fn words(frame: &StackFrame, room: usize) -> String {
    let (file, function) = (printable(&frame.file), printable(&frame.function));
    let function = shorten(&function, LONGEST_FUNCTION);
    let words = |file: &str| format!("File \"{file}\", line {}, in {function}", frame.line);
    words(&shorten(&file, room.saturating_sub(crate::text::width(&words(""))).max(SHORTEST_FILE)))
}

/// A library's frame by its function and the end of its path.
fn short(frame: &StackFrame) -> String {
    let file = base_name(&frame.file);
    let function: String = frame.function.chars().take(LONGEST_FUNCTION).collect();
    let text = if file.is_empty() || file == "??" { function } else { format!("{file}:{} {function}", frame.line) };
    printable(&text).into_owned()
}

/// A calling tree; at most `limit` branches of each frame.
pub fn tree(tree: &Tree, limit: usize, width: Option<usize>) -> String {
    let mut text = format!(
        "device {}: {} {}, callers first{}\n",
        tree.device,
        figure(tree.total, tree.unit),
        what(tree.metric, tree.unit, &tree.at, tree.window),
        left_out(tree.left_out, tree.unit)
    );
    if tree.branches.is_empty() {
        return text + "  nothing\n";
    }
    let columns = [(tree.metric, Align::Right), ("share", Align::Right), ("here", Align::Right), ("", Align::Left)];
    let mut table = Table::new(columns).indent(2);
    let mut drawing = Drawing { table: &mut table, limit, unit: tree.unit };
    drawing.branches(&tree.branches, 0);
    text += &table.render(width);
    text
}

struct Drawing<'t> {
    table: &'t mut Table,
    limit: usize,
    unit: Unit,
}

impl Drawing<'_> {
    fn branches(&mut self, branches: &[Branch], depth: usize) {
        let large = branches.iter().take_while(|branch| branch.share >= SMALLEST).count().min(self.limit);
        let indent = "  ".repeat(depth.min(DEEPEST_INDENT));
        for branch in &branches[..large] {
            let site = base_name(&branch.site);
            let name = format!("{indent}{site}  {}", branch.function);
            self.row(branch.value, branch.share, branch.own, name);
            self.branches(&branch.branches, depth + 1);
        }
        let rest = &branches[large..];
        if !rest.is_empty() {
            let value = rest.iter().map(|branch| branch.value).sum();
            let share = rest.iter().map(|branch| branch.share).sum();
            self.row(value, share, 0, format!("{indent}{} more", count(rest.len() as u64)));
        }
    }

    fn row(&mut self, value: u64, share: f64, own: u64, name: String) {
        let own = if own == 0 { String::new() } else { figure(own, self.unit) };
        self.table.row([figure(value, self.unit), percent(share), own, name]);
    }
}
