//! Frames, and the stacks that they make.

use super::record::record;
use super::source::Source;
use crate::snapshot::{FrameId, StackId};

record! {
    /// Distinct stack frames.
    struct FrameRow<'a> in "frames" {
        /// Number of the frame in this file.
        frame: u64,
        /// Function.
        function: &'a str,
        /// Source file, as the recorder wrote it.
        file: &'a str,
        /// Line; null when it is not known.
        line: Option<u64>,
    }
}

record! {
    /// Distinct stacks, one row a frame.
    struct StackRow in "stacks" {
        /// Number of the stack in this file; stacks without frames have no row.
        stack: u64,
        /// 0 for the innermost frame.
        depth: u64,
        /// Number of the frame.
        frame: u64,
    }
}

/// Row `row` of the frames.
pub(super) fn frame<'a>(source: &Source<'a>, row: usize) -> FrameRow<'a> {
    let frame = source.snapshot.frame(FrameId(row as u32));
    FrameRow {
        frame: row as u64,
        function: source.snapshot.text(frame.name),
        file: source.snapshot.text(frame.filename),
        line: Some(u64::from(frame.line)).filter(|&line| line > 0),
    }
}

/// The first row of each stack, and the number of rows behind the last.
pub(super) fn stack_starts(source: &Source) -> Vec<usize> {
    let stacks = &source.snapshot.stacks;
    let mut starts = Vec::with_capacity(stacks.len() + 1);
    let mut start = 0;
    for stack in 0..stacks.len() {
        starts.push(start);
        start += stacks.get(StackId(stack as u32)).len();
    }
    starts.push(start);
    starts
}

/// Row `row` of the stacks, which start at `starts`.
pub(super) fn stack(source: &Source, starts: &[usize], row: usize) -> StackRow {
    let stack = starts.partition_point(|&start| start <= row) - 1;
    let depth = row - starts[stack];
    let frame = source.snapshot.stacks.get(StackId(stack as u32))[depth];
    StackRow { stack: stack as u64, depth: depth as u64, frame: u64::from(frame.0) }
}
