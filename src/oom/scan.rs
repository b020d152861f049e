//! Finds every out-of-memory message in a log.
//!
//! In: bytes of any kind. Out: the messages, in order, equal ones of one source counted instead of repeated.

use std::ops::Range;
use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use memchr::memchr_iter;

use super::clauses;
use super::lookalike::{self, LOOKALIKES};
use super::message::{Kind, Message};
use super::squash::{self, Squashed};
use super::tag;

/// Where a message of an allocator may begin; [`LOOKALIKES`] follow in the numbering of patterns.
const ANCHORS: [&str; 9] = [
    "out of memory",
    "Tried to allocate",
    "Allocation on device",
    "memory allocation failed with OOM",
    "Could not allocate tensor with",
    "is allocated by PyTorch",
    "already allocated",
    "reserved in total by",
    "reserved by PyTorch but",
];
/// Distinct messages that are kept: a log of retries has few, and nobody reads more.
const MOST_MESSAGES: usize = 10_000;
/// How far before an anchor its message may begin.
const LOOK_BACK: usize = 600;

static FINDER: LazyLock<AhoCorasick> = LazyLock::new(|| {
    let patterns = ANCHORS.iter().copied().chain(LOOKALIKES.iter().map(|row| row.anchor));
    AhoCorasick::builder()
        .match_kind(aho_corasick::MatchKind::LeftmostFirst)
        .build(patterns)
        .expect("a few constant patterns")
});

/// The messages in `log`.
pub fn scan(log: &[u8]) -> Vec<Message> {
    let mut messages: Vec<Message> = Vec::new();
    let mut lines = LineCounter { log, at: 0, line: 1 };
    let mut read_already = ReadAlready::default();
    for found in FINDER.find_iter(log) {
        if read_already.contains(found.start()) {
            continue;
        }
        let done = read_already.end_before(found.start());
        let pattern = found.pattern().as_usize();
        let text = squash::message(log, found.start());
        let read = match pattern.checked_sub(ANCHORS.len()) {
            Some(row) => lookalike::read(&LOOKALIKES[row], &text, found.start()),
            None => allocator(log, &text, pattern, found.start(), done),
        };
        let Some(mut message) = read else { continue };
        read_already.add(&text, message.end.max(found.end()));
        message.line = lines.line_of(message.offset);
        message.source = tag::of_prefix(&log[squash::line_start(log, message.offset)..message.offset]);
        if let Some(earlier) = messages.iter_mut().rev().take(256).find(|earlier| earlier.is_same(&message)) {
            earlier.count += 1;
        } else if messages.len() < MOST_MESSAGES {
            messages.push(message);
        }
    }
    drop_echoes(messages)
}

/// The message around the anchor at `at`; nothing when it is only the words.
fn allocator(log: &[u8], text: &Squashed, pattern: usize, at: usize, done: usize) -> Option<Message> {
    let before = squash::plain(log, at.saturating_sub(80).max(done), at);
    match pattern {
        0 => out_of_memory(&before, text, at),
        1 => {
            let is_limit = before.find(b"memoryblockwithsizelargerthan").is_some();
            let kind = if is_limit { Kind::SingleAllocationLimit } else { Kind::Allocator };
            Some(clauses::read(text, kind, at)).filter(|message| message.tried.is_some())
        }
        2 => {
            let is_whole = text.find(b"wouldexceedallowedmemory").is_some();
            let raised = before.text.ends_with(b"outofmemoryerror:");
            (is_whole || raised).then(|| clauses::read(text, Kind::CudaMallocAsync, at))
        }
        3 => Some(clauses::read(text, Kind::AllocationWarning, at)),
        4 => Some(clauses::read(text, Kind::DirectMl, at)).filter(|message| message.tried.is_some()),
        _ => fragment(log, at, done),
    }
}

fn out_of_memory(before: &Squashed, text: &Squashed, at: usize) -> Option<Message> {
    let word = before.text.iter().rev().take_while(|c| c.is_ascii_alphabetic() || **c == b')').count();
    let backend = &before.text[before.text.len() - word..];
    let kind = if before.text.ends_with(b"mpsbackend") {
        Kind::Mps
    } else if before.text.ends_with(b"cudaerror:") || before.text.ends_with(b"hiperror:") {
        Kind::CudaError
    } else if before.text.ends_with(b"runtimeerror(2):") || before.text.ends_with(b"error=2:") {
        Kind::CudaRuntimeError
    } else if text.find(b"preemptivelyrejected").is_some() {
        Kind::PreemptiveRejection
    } else if text.find(b"triedtoallocatemorethan1eb").is_some() {
        Kind::MoreThan1Eb
    } else if named(backend).is_some() || text.text.starts_with(b"outofmemory.triedtoallocate") {
        Kind::Allocator
    } else {
        return None;
    };
    let mut message = clauses::read(text, kind, at);
    message.backend = match kind {
        Kind::Allocator | Kind::PreemptiveRejection | Kind::MoreThan1Eb => named(backend).map(str::to_uppercase),
        _ => None,
    };
    Some(message)
}

/// The device family that ends `word`: its allocator has PyTorch's grammar.
fn named(word: &[u8]) -> Option<&'static str> {
    let names = ["cuda", "hip", "xpu", "npu", "mlu", "musa", "gcu"];
    names.into_iter().find(|name| word.ends_with(name.as_bytes()))
}

/// A message whose beginning is missing: from the first clause before the anchor on.
fn fragment(log: &[u8], at: usize, done: usize) -> Option<Message> {
    let from = at.saturating_sub(LOOK_BACK).max(done);
    let clauses_start = [&b"GPU "[..], b"Including non-PyTorch", b"Of the allocated memory", b"Process "];
    let starts = clauses_start.iter().filter_map(|words| memchr::memmem::find(&log[from..at], words));
    let start = starts.min().map_or_else(|| squash::line_start(log, at).max(from), |found| from + found);
    let mut message = clauses::read(&squash::message(log, start), Kind::Allocator, start);
    message.end = message.end.max(at + 1);
    message.is_cut = true;
    // One figure alone may be anybody's prose.
    let figures = [message.allocated, message.reserved_unallocated, message.reserved, message.total];
    (figures.iter().flatten().count() >= 2).then_some(message)
}

/// Leaves out messages without figures where the same source has one with figures: a program's own print of the
/// error, or the source line in a traceback.
fn drop_echoes(messages: Vec<Message>) -> Vec<Message> {
    let is_echo = |message: &Message| {
        let may_be = matches!(message.kind, Kind::Allocator | Kind::CudaMallocAsync) && !message.has_figures();
        may_be && messages.iter().any(|other| other.has_figures() && !other.kind.is_lookalike())
    };
    let echoes: Vec<bool> = messages.iter().map(is_echo).collect();
    messages.into_iter().zip(echoes).filter(|(_, echo)| !echo).map(|(message, _)| message).collect()
}

/// The stretches of the log that messages were read from: several ranks may interleave line by line.
#[derive(Default)]
struct ReadAlready {
    stretches: Vec<Range<usize>>,
}

impl ReadAlready {
    fn contains(&self, at: usize) -> bool {
        self.stretches.iter().any(|stretch| stretch.contains(&at))
    }

    /// The last end of a stretch before `at`.
    fn end_before(&self, at: usize) -> usize {
        self.stretches.iter().map(|stretch| stretch.end).filter(|&end| end <= at).max().unwrap_or(0)
    }

    /// Adds what `text` was made of, up to `end`.
    fn add(&mut self, text: &Squashed, end: usize) {
        let start = text.stretches.first().map_or(0, |stretch| stretch.start);
        // Anchors come in order, and no message reaches far: what lies well before is never asked for again.
        self.stretches.retain(|stretch| stretch.end + squash::MOST_BYTES > start);
        let clipped = text.stretches.iter().filter(|stretch| stretch.start < end);
        self.stretches.extend(clipped.map(|stretch| stretch.start..stretch.end.min(end)));
    }
}

/// Counts lines between messages, each only once.
struct LineCounter<'a> {
    log: &'a [u8],
    at: usize,
    line: u64,
}

impl LineCounter<'_> {
    fn line_of(&mut self, offset: usize) -> u64 {
        if offset < self.at {
            // A fragment begins before its anchor, at most a few lines.
            return self.line.saturating_sub(memchr_iter(b'\n', &self.log[offset..self.at]).count() as u64);
        }
        self.line += memchr_iter(b'\n', &self.log[self.at..offset]).count() as u64;
        self.at = offset;
        self.line
    }
}
