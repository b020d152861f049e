//! `requests`: what the program asked of the allocator, for `oomscope whatif --requests` and for a generator to change.
//!
//! One JSON object whose operations stand one a line. Blocks that were live when the trace begins are requested first,
//! by address. A block is freed where it returned to its pool: one that waited for another stream, later than the
//! program freed it. Streams are numbered in order of appearance, the default one being 0.

use std::collections::HashMap;
use std::io::Write;

use serde_json::json;

use super::{ExportError, Result, SeriesFormat};
use crate::allocator::MIB;
use crate::analysis::whatif::Recorded;
use crate::history::{History, LifeId, NEVER};
use crate::snapshot::{Action, StreamId};

/// The list of operations of one device.
pub struct Requests;

impl SeriesFormat for Requests {
    fn write(&self, histories: &[History], out: &mut dyn Write) -> Result<()> {
        let [history] = histories else { return Err(ExportError::OneDevice(histories.len())) };
        write!(out, "{{\"settings\": {}, ", json!(history.snapshot.settings.conf))?;
        if let Some(mib) = capacity_mib(history) {
            write!(out, "\"gpu_mib\": {mib}, \"ctx_mib\": 0, ")?;
        }
        write!(out, "\"ops\": [")?;
        let mut operations = Operations { history, out, streams: HashMap::from([(0, 0)]), is_first: true };
        operations.write_all()?;
        writeln!(out, "\n]}}")?;
        Ok(())
    }
}

/// What the recorded failures show that PyTorch could have, when it is a whole number of MiB, as the format has it.
fn capacity_mib(history: &History) -> Option<u64> {
    let recorded = Recorded::new(history);
    let capacity = recorded.recording(recorded.trace.len()).limits(&recorded.rules).capacity?;
    capacity.is_multiple_of(MIB).then_some(capacity / MIB)
}

struct Operations<'a, 'h, W: Write + ?Sized> {
    history: &'a History<'h>,
    out: &'a mut W,
    /// Number of each stream pointer.
    streams: HashMap<u64, usize>,
    is_first: bool,
}

impl<W: Write + ?Sized> Operations<'_, '_, W> {
    fn write_all(&mut self) -> Result<()> {
        let history = self.history;
        let lives = &history.lives;
        for block in history.state(0).blocks {
            let stream = self.stream(lives.get(block.life).stream);
            self.allocate(block.life.into(), block.requested, stream)?;
        }
        let mut ends: Vec<(u32, LifeId)> =
            lives.ids().map(|life| (lives.done_at(life), life)).filter(|(state, _)| *state != NEVER).collect();
        ends.sort_unstable();
        let mut ends = ends.into_iter().peekable();
        let own_flushes = self.flushes_of_requests();
        let mut failed = u64::from(u32::MAX);
        let mut in_flush = false;
        let columns = &history.snapshot.events;
        for event in 0..history.events() {
            let row = history.row(event);
            let action = columns.action[row];
            if matches!(action, Action::SegmentFree | Action::SegmentUnmap) {
                // One call gives back all that it can.
                if !in_flush && !own_flushes[event as usize] {
                    self.operation(format_args!("[\"e\"]"))?;
                }
                in_flush = true;
            } else if action != Action::FreeCompleted {
                in_flush = false;
            }
            while let Some((_, life)) = ends.next_if(|(state, _)| *state <= event + 1) {
                self.operation(format_args!("[\"f\", {life}]"))?;
            }
            match action {
                Action::Alloc => {
                    if let Some(life) = lives.of_event(event) {
                        let stream = self.stream(columns.stream[row]);
                        self.allocate(life.into(), columns.size[row], stream)?;
                    }
                }
                Action::Oom => {
                    let stream = self.stream(columns.stream[row]);
                    self.allocate(failed, columns.size[row], stream)?;
                    failed += 1;
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// For each event whether a request gave memory back by it, in want of memory; else the program did.
    fn flushes_of_requests(&self) -> Vec<bool> {
        let mut own = vec![false; self.history.events() as usize];
        let actions = &self.history.snapshot.events.action[self.history.device.events.clone()];
        for (event, action) in (0..).zip(actions) {
            if matches!(action, Action::Alloc | Action::Oom)
                && let Some(first) = self.history.malloc(event).first_flush
            {
                own[first as usize..event as usize].fill(true);
            }
        }
        own
    }

    fn stream(&mut self, id: StreamId) -> usize {
        let pointer = self.history.snapshot.streams[id.index()];
        let next = self.streams.len();
        *self.streams.entry(pointer).or_insert(next)
    }

    fn allocate(&mut self, id: u64, size: u64, stream: usize) -> Result<()> {
        self.operation(format_args!("[\"a\", {id}, {size}, {stream}]"))
    }

    fn operation(&mut self, operation: std::fmt::Arguments) -> Result<()> {
        let separator = if self.is_first { "\n" } else { ",\n" };
        self.is_first = false;
        write!(self.out, "{separator}{operation}")?;
        Ok(())
    }
}
