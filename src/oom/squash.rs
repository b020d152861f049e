//! A stretch of a log made comparable: colours, line prefixes and all white space removed, letters in lower case.
//!
//! Without white space it no longer matters where a terminal, a logger or a person broke the lines, not even in the
//! middle of a word. Each byte remembers where it came from.

use std::ops::Range;

use memchr::{memchr, memchr_iter, memmem};

use super::tag::{self, Tag};

/// A message is never longer than this many lines ...
const MOST_LINES: usize = 40;
/// ... nor than this many bytes.
pub(super) const MOST_BYTES: usize = 8 << 10;
/// Beginnings of messages, squashed: what follows a second one is another message.
const BEGINNINGS: [&[u8]; 4] =
    [b"outofmemory.tried", b"backendoutofmemory(", b"wouldexceedallowedmemory", b"allocationfailedwithoom"];

/// Squashed text.
#[derive(Clone, Debug, Default)]
pub struct Squashed {
    /// The text.
    pub text: Vec<u8>,
    /// For each byte of `text`, its offset in the log.
    pub offsets: Vec<usize>,
    /// The stretches of the log that it is made of, in order.
    pub stretches: Vec<Range<usize>>,
}

impl Squashed {
    fn push(&mut self, byte: u8, offset: usize) {
        self.text.push(byte.to_ascii_lowercase());
        self.offsets.push(offset);
    }

    fn truncate(&mut self, length: usize) {
        self.text.truncate(length);
        self.offsets.truncate(length);
    }

    /// Where `needle` begins.
    pub fn find(&self, needle: &[u8]) -> Option<usize> {
        memmem::find(&self.text, needle)
    }

    /// The text from behind the first `needle` on, and where that is.
    pub fn after(&self, needle: &[u8]) -> Option<(&[u8], usize)> {
        let at = self.find(needle)? + needle.len();
        Some((&self.text[at..], at))
    }

    /// The text up to the first `needle`, and where that is.
    pub fn before(&self, needle: &[u8]) -> Option<(&[u8], usize)> {
        let at = self.find(needle)?;
        Some((&self.text[..at], at))
    }
}

/// Bytes before a message in which the beginning of its line is looked for.
const MOST_PREFIX: usize = 600;

/// Start of the line that `at` lies in, or what is near enough of a line of megabytes, which has no prefix.
pub fn line_start(log: &[u8], at: usize) -> usize {
    let from = at.saturating_sub(MOST_PREFIX);
    memchr::memrchr(b'\n', &log[from..at]).map_or(from, |newline| from + newline + 1)
}

/// The message that begins at `start`, squashed. Lines of other ranks in between are left out.
pub fn message(log: &[u8], start: usize) -> Squashed {
    let end = log.len().min(start + MOST_BYTES);
    let prefix = &log[line_start(log, start)..start];
    let own = tag::of_prefix(prefix);
    let mut squashed = Squashed::default();
    let mut at = start;
    for line_number in 0..MOST_LINES {
        let line_end = memchr(b'\n', &log[at..end]).map_or(end, |n| at + n);
        let line = &log[at..line_end];
        let skip = if line_number == 0 { 0 } else { continuation(line, prefix) };
        let is_own = line_number == 0 || same_source(own, tag::of_prefix(&line[..skip]));
        if is_own {
            if line_number > 0 && ends_message(&line[skip..]) {
                break;
            }
            squash_into(&mut squashed, &line[skip..], at + skip);
            squashed.stretches.push(at + skip..line_end);
        }
        if line_end >= end {
            break;
        }
        at = line_end + 1;
    }
    cut_second_message(&mut squashed);
    squashed
}

/// `log[start..end]`, squashed as it is.
pub fn plain(log: &[u8], start: usize, end: usize) -> Squashed {
    let mut squashed = Squashed::default();
    squash_into(&mut squashed, &log[start..end], start);
    squashed
}

fn same_source(own: Option<Tag>, other: Option<Tag>) -> bool {
    // A logger may tag only the first line of a message, so an untagged line belongs to whoever is speaking.
    match (own, other) {
        (Some(own), Some(other)) => own == other,
        _ => true,
    }
}

/// A traceback, or the beginning of another message, cannot be the rest of a message.
fn ends_message(line: &[u8]) -> bool {
    let trimmed = line.trim_ascii();
    let begins = memmem::find(line, b"out of memory").is_some() && memmem::find(line, b"(out of memory)").is_none();
    begins || trimmed.starts_with(b"Traceback (most recent") || trimmed.starts_with(b"File \"")
}

fn cut_second_message(squashed: &mut Squashed) {
    for beginning in BEGINNINGS {
        let second = memmem::find_iter(&squashed.text, beginning).nth(1);
        if let Some(at) = second {
            squashed.truncate(at);
        }
    }
}

fn squash_into(squashed: &mut Squashed, bytes: &[u8], offset: usize) {
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let length = escape_length(rest);
        if length > 0 {
            at += length;
            continue;
        }
        if !rest[0].is_ascii_whitespace() {
            squashed.push(rest[0], offset + at);
        }
        at += 1;
    }
}

/// Length of the colour code, or of the escaped white space of a JSON log, at the beginning of `bytes`.
fn escape_length(bytes: &[u8]) -> usize {
    let introducer = match bytes[0] {
        0x1b => 1,
        b'\\' if bytes.starts_with(b"\\u001b") || bytes.starts_with(b"\\u001B") => 6,
        b'\\' if bytes.starts_with(b"\\x1b") || bytes.starts_with(b"\\033") => 4,
        b'\\' if matches!(bytes.get(1), Some(b'n' | b'r' | b't')) => return 2,
        _ => return 0,
    };
    if bytes.get(introducer) != Some(&b'[') {
        return introducer;
    }
    let parameters = bytes[introducer + 1..].iter().take(32).take_while(|c| !c.is_ascii_alphabetic()).count();
    (introducer + 1 + parameters + 1).min(bytes.len())
}

/// How much of a continued line is the logger's prefix. `first` is the prefix of the message's first line.
fn continuation(line: &[u8], first: &[u8]) -> usize {
    let common = line.iter().zip(first).take_while(|(a, b)| a == b).count();
    // Not behind any colon: that may be the middle of a time, which differs from line to line.
    let is_boundary = |at: &usize| b"])| >".contains(&line[*at]) || line[*at..].starts_with(b": ");
    let boundary = (0..common).rev().find(is_boundary).map_or(0, |at| at + 1);
    let mut at = if boundary >= 3 { boundary } else { 0 };
    loop {
        let rest = &line[at..];
        let length = prefix_token(rest);
        if length == 0 {
            return at;
        }
        at += length;
    }
}

/// Length of one token that only loggers write at the beginning of a line.
fn prefix_token(rest: &[u8]) -> usize {
    let Some(&first) = rest.first() else { return 0 };
    let word = rest.iter().take_while(|c| !c.is_ascii_whitespace()).count();
    match first {
        0x1b => escape_length(rest),
        c if c.is_ascii_whitespace() => 1,
        b'|' => 1,
        b':' | b'-' if word == 1 => 1,
        b':' => 1,
        b'[' => memchr(b']', &rest[..rest.len().min(80)]).map_or(0, |close| close + 1),
        b'(' => {
            let close = memchr(b')', &rest[..rest.len().min(80)]).unwrap_or(0);
            let inside = &rest[..close];
            let is_process = [&b"pid="[..], b"rank", b"Rank"].iter().any(|word| memmem::find(inside, word).is_some());
            if is_process { close + 1 } else { 0 }
        }
        b'0'..=b'9' if is_time(&rest[..word]) => word,
        _ if is_level(&rest[..word]) => word,
        _ if rest[..word].ends_with(b"]") && memmem::find(&rest[..word], b":").is_some() => word,
        _ => {
            // `worker-0  | text`, as compose tools write it.
            let gap = rest[word..].iter().take_while(|c| **c == b' ').count();
            if word > 0 && gap > 0 && rest.get(word + gap) == Some(&b'|') { word + gap + 1 } else { 0 }
        }
    }
}

fn is_time(word: &[u8]) -> bool {
    let separators = memchr_iter(b':', word).count() + word.iter().filter(|c| matches!(c, b'-' | b'/')).count();
    separators > 0 && word.len() >= 5 && word.iter().all(|c| c.is_ascii_digit() || b":-/.,TZ+".contains(c))
}

fn is_level(word: &[u8]) -> bool {
    let word = word.strip_suffix(b":").unwrap_or(word);
    [&b"INFO"[..], b"WARNING", b"WARN", b"ERROR", b"DEBUG", b"CRITICAL", b"FATAL", b"stderr", b"stdout"].contains(&word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn squashed(log: &str, from: &str) -> String {
        let start = log.find(from).expect("the beginning");
        String::from_utf8(message(log.as_bytes(), start).text).expect("text")
    }

    #[test]
    fn wrapping_prefixes_and_colours_do_not_matter() {
        let logs = [
            "CUDA out of memory. Tried to allocate 1.00 GiB. GPU 0 has",
            "x CUDA out of memory. Tried to al\nlocate 1.0\n0 GiB. GPU 0 has",
            "[rank3]: CUDA out of memory. Tried\n[rank3]: to allocate 1.00 GiB.\n[rank1]: else\n[rank3]: GPU 0 has",
            "ERROR 04-01 23:46:56 [a.py:1] CUDA out of memory. Tried\nERROR 04-01 23:46:57 [a.py:1] to allocate 1.00 GiB. GPU 0 has",
            "(W pid=7) ERROR 04-01 23:46:56 a.py:1] CUDA out of memory.\n(W pid=7) ERROR 04-01 23:46:56 a.py:1] Tried to allocate 1.00 GiB. GPU 0 has",
            "\x1b[31mCUDA out\x1b[0m of memory. Tried to allocate \x1b[1;33m1.00 GiB\x1b[0m. GPU 0 has",
            "2024-05-01T10:00:00.123Z stderr CUDA out of memory. Tried to\n2024-05-01T10:00:00.124Z stderr allocate 1.00 GiB. GPU 0 has",
            "w-0  | CUDA out of memory. Tried to\nw-0  | allocate 1.00 GiB. GPU 0 has",
            "{\"log\": \"CUDA out of memory.\\nTried to allocate 1.00 GiB. GPU 0 has",
        ];
        for log in logs {
            let text = squashed(log, "CUDA out");
            assert_eq!(text, "cudaoutofmemory.triedtoallocate1.00gib.gpu0has", "{log}");
        }
    }

    #[test]
    fn a_second_message_is_not_read_along() {
        let log = "CUDA out of memory. Tried to allocate 1.00 GiB. CUDA out of memory. Tried to allocate 2.00 GiB.";
        assert_eq!(squashed(log, "CUDA"), "cudaoutofmemory.triedtoallocate1.00gib.cuda");
    }
}
