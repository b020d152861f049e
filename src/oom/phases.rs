//! In which phase of a job a message came: a short chronology from the marks in its log.

use serde::Serialize;

pub use super::marks::Phase;
use super::marks::{Found, Marks};
use super::message::Message;
use super::squash::line_start;
use super::tag::{self, Tag};
use super::time::{self, LogTime};

/// Entries that are kept: a job has few phases, and each is told once in a row.
const MOST: usize = 4096;

/// A mark in the log. A run of equal ones is one entry.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Entry {
    /// The phase that begins.
    pub phase: Phase,
    /// The program that wrote it.
    pub program: String,
    /// The mark's text.
    pub text: String,
    /// Its last number, e.g. of a step.
    pub number: Option<u64>,
    /// Byte of the log at which the run begins.
    pub offset: usize,
    /// Byte of the log at which its last one is.
    #[serde(skip)]
    pub last: usize,
    /// How many there are in a row.
    pub count: u64,
    /// Who wrote it.
    pub source: Option<Tag>,
    /// Microseconds since the entry before, where lines have times.
    pub after_us: Option<u64>,
    #[serde(skip)]
    time: Option<LogTime>,
}

/// The phases of a log, in order.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Chronology {
    /// The marks.
    pub entries: Vec<Entry>,
}

impl Chronology {
    /// Reads `log` by `marks`.
    pub fn new(log: &[u8], marks: &Marks) -> Self {
        let mut entries: Vec<Entry> = Vec::new();
        marks.find(log, |Found { row, offset, number }| {
            let mark = &marks.rows()[row];
            if let Some(open) = entries.last_mut().filter(|open| open.phase == mark.phase && open.text == mark.text) {
                let source = tag::of_prefix(&log[line_start(log, offset)..offset]);
                if source == open.source {
                    (open.count, open.last, open.number) = (open.count + 1, offset, number.or(open.number));
                    return;
                }
            }
            if entries.len() >= MOST {
                // Alternating marks of many steps: what is near the error matters more than the middle.
                entries.drain(MOST / 4..MOST / 2);
            }
            let start = line_start(log, offset);
            entries.push(Entry {
                phase: mark.phase.clone(),
                program: mark.program.clone().into_owned(),
                text: mark.text.clone().into_owned(),
                number,
                offset,
                last: offset,
                count: 1,
                source: tag::of_prefix(&log[start..offset]),
                after_us: None,
                time: time::of_line(&log[start..]),
            });
        });
        let mut before: Option<LogTime> = None;
        for entry in &mut entries {
            entry.after_us = before.zip(entry.time).and_then(|(from, to)| from.until(to));
            before = entry.time.or(before);
        }
        Self { entries }
    }

    /// The last mark before `message`, of the same source where both have one.
    pub fn before(&self, message: &Message) -> Option<&Entry> {
        let same = |entry: &&Entry| match (entry.source, message.source) {
            (Some(theirs), Some(ours)) => theirs == ours,
            _ => true,
        };
        self.entries.iter().rev().filter(|entry| entry.offset < message.offset).find(same)
    }

    /// Whether anything says that the job was ready before `message`.
    pub fn was_ready(&self, message: &Message) -> bool {
        let before = self.entries.iter().filter(|entry| entry.offset < message.offset);
        let mut before = before.filter(|entry| !entry.text.starts_with("in "));
        before.any(|entry| !entry.phase.is_before_ready())
    }

    /// One entry for each change of phase, for a short table.
    pub fn changes(&self, until: usize) -> Vec<&Entry> {
        let mut changes: Vec<&Entry> = Vec::new();
        for entry in self.entries.iter().filter(|entry| entry.offset < until) {
            if changes.last().is_none_or(|last| last.phase != entry.phase) {
                changes.push(entry);
            }
        }
        changes
    }
}
