//! The table of marks: which text of a log tells which phase.

mod finder;

use std::borrow::Cow;

use serde::{Serialize, Serializer};
use thiserror::Error;

use finder::{FRAME, Part};

/// The table that is built in.
const BUILT_IN: &str = include_str!("marks.txt");
/// What stands for a number at the end of a text.
const NUMBER: &str = "{n}";

/// A phase of a job, in the order in which they come.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Phase {
    /// The process starts.
    Start,
    /// Weights are read.
    Weights,
    /// Weights are converted or quantised.
    Convert,
    /// Modules are placed on devices.
    Place,
    /// A first run measures what the model needs.
    Profile,
    /// The KV cache is reserved.
    KvCache,
    /// CUDA graphs are captured.
    Graphs,
    /// The server takes requests, or training begins.
    Ready,
    /// A request is served.
    Request,
    /// A training step.
    Step,
    /// A phase of the user's own.
    Other(String),
}

const NAMES: [(Phase, &str, &str); 10] = [
    (Phase::Start, "start", "start of the process"),
    (Phase::Weights, "weights", "reading the weights"),
    (Phase::Convert, "convert", "converting or quantising the weights"),
    (Phase::Place, "place", "placing the model on devices"),
    (Phase::Profile, "profile", "profiling and warm-up"),
    (Phase::KvCache, "kv_cache", "reserving the KV cache"),
    (Phase::Graphs, "graphs", "capturing CUDA graphs"),
    (Phase::Ready, "ready", "ready"),
    (Phase::Request, "request", "serving a request"),
    (Phase::Step, "step", "a step"),
];

impl Phase {
    fn of_name(name: &str) -> Self {
        let known = NAMES.iter().find(|(_, known, _)| *known == name);
        known.map_or_else(|| Self::Other(name.to_owned()), |(phase, ..)| phase.clone())
    }

    /// Its name in JSON and in tables of marks.
    pub fn name(&self) -> &str {
        match self {
            Self::Other(name) => name,
            known => NAMES.iter().find(|(phase, ..)| phase == known).map_or("", |(_, name, _)| name),
        }
    }

    /// Its name in text.
    pub fn describe(&self) -> &str {
        match self {
            Self::Other(name) => name,
            known => NAMES.iter().find(|(phase, ..)| phase == known).map_or("", |(.., text)| text),
        }
    }

    /// Whether it comes before anybody's request: then no prompt and no batch can be the cause.
    pub fn is_before_ready(&self) -> bool {
        *self < Self::Ready
    }
}

impl Serialize for Phase {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// One row.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    /// The phase that begins there.
    pub phase: Phase,
    /// The program that writes it.
    pub program: Cow<'static, str>,
    /// The text.
    pub text: Cow<'static, str>,
    /// Whether a number must follow.
    pub with_number: bool,
}

/// Why a table of marks cannot be used.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum MarksError {
    /// A row without three columns.
    #[error("line {0}: a row is `phase | program | text`, e.g. `ready | my server | Listening on port {{n}}`")]
    Row(usize),
    /// A row whose text would be found everywhere.
    #[error("line {0}: the text has fewer than 4 characters and would be found everywhere")]
    Short(usize),
    /// Too many rows.
    #[error("the table is too large for the search to be built")]
    Large,
}

/// A table, ready to be searched for.
#[derive(Clone, Debug)]
pub struct Marks {
    rows: Vec<Mark>,
    parts: Vec<Part>,
    longest: usize,
}

/// Rows in a part.
const PART: usize = 32;
/// Bytes of a log that are searched for all parts before the next ones.
const BLOCK: usize = 4 << 20;

/// A mark that was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    /// Row of the table.
    pub row: usize,
    /// Where in the log it begins.
    pub offset: usize,
    /// Its number.
    pub number: Option<u64>,
}

impl Marks {
    /// The built-in table.
    pub fn built_in() -> Self {
        Self::with("").expect("the built-in table is sound: a test reads it")
    }

    /// The rows of `table`, then the built-in ones.
    pub fn with(table: &str) -> Result<Self, MarksError> {
        let mut rows = parse(table)?;
        rows.extend(parse(BUILT_IN)?);
        let (frames, texts): (Vec<usize>, Vec<usize>) =
            (0..rows.len()).partition(|&row| rows[row].text.starts_with(FRAME));
        let mut parts = texts.chunks(PART).map(|chunk| Part::texts(chunk, &rows)).collect::<Result<Vec<_>, _>>()?;
        parts.push(Part::frames(frames, &rows));
        let longest = rows.iter().map(|row| row.text.len()).max().unwrap_or(0);
        Ok(Self { rows, parts, longest })
    }

    /// The rows.
    pub fn rows(&self) -> &[Mark] {
        &self.rows
    }

    /// Calls `each` for every mark in `log`, in order. Of marks at one place the first row counts.
    pub fn find(&self, log: &[u8], mut each: impl FnMut(Found)) {
        let mut last_end = 0;
        let mut found = Vec::new();
        for start in (0..log.len()).step_by(BLOCK) {
            let end = log.len().min(start + BLOCK);
            // A mark may begin in this block and end in the next.
            let block = &log[start..log.len().min(end + self.longest)];
            found.clear();
            for part in &self.parts {
                part.find(block, |row, at| found.push((start + at, row)));
            }
            found.retain(|&(offset, _)| offset < end);
            found.sort_unstable();
            for &(offset, row) in &found {
                let mark = &self.rows[row];
                let text_end = offset + mark.text.len();
                let number = number_at(log, text_end);
                if offset < last_end || (mark.with_number && number.is_none()) {
                    continue;
                }
                last_end = text_end;
                each(Found { row, offset, number });
            }
        }
    }
}

fn number_at(log: &[u8], at: usize) -> Option<u64> {
    let rest = &log[at..log.len().min(at + 24)];
    let skip = rest.iter().take_while(|c| matches!(c, b' ' | b'[' | b'#')).count();
    let digits = rest[skip..].iter().take_while(|c| c.is_ascii_digit()).count();
    std::str::from_utf8(&rest[skip..skip + digits]).ok()?.parse().ok()
}

fn parse(table: &str) -> Result<Vec<Mark>, MarksError> {
    let mut rows = Vec::new();
    for (line, number) in table.lines().zip(1..) {
        if line.trim().is_empty() || line.starts_with('#') {
            continue;
        }
        let mut columns = line.splitn(3, '|').map(str::trim);
        let (Some(phase), Some(program), Some(text)) = (columns.next(), columns.next(), columns.next()) else {
            return Err(MarksError::Row(number));
        };
        let (text, with_number) = match text.strip_suffix(NUMBER) {
            Some(text) => (text.trim_end(), true),
            None => (text, false),
        };
        if text.len() < 4 {
            return Err(MarksError::Short(number));
        }
        rows.push(Mark {
            phase: Phase::of_name(phase),
            program: program.to_owned().into(),
            text: text.to_owned().into(),
            with_number,
        });
    }
    Ok(rows)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_table_is_sound() {
        let marks = Marks::built_in();
        assert!(marks.rows().len() > 60);
        assert!(marks.rows().iter().all(|row| !matches!(row.phase, Phase::Other(_))));
    }

    /// Marks that lie across the border of two blocks are found once.
    #[test]
    fn blocks_meet_without_a_seam() {
        let marks = Marks::built_in();
        for shift in 0..40 {
            let mut log = vec![b'x'; BLOCK - shift];
            log.extend_from_slice(b"Capturing CUDA graph");
            log.extend_from_slice(&[b'x'; 100]);
            let mut found = Vec::new();
            marks.find(&log, |mark| found.push(mark.offset));
            assert_eq!(found, [BLOCK - shift]);
        }
    }

    #[test]
    fn a_user_adds_phases() {
        let marks = Marks::with("# mine\nmerge | my tool | Merging shard {n}\n").expect("a table");
        let mut found = Vec::new();
        marks.find(b"Merging shard 12\nMerging shard x", |mark| found.push(mark));
        assert_eq!(found, [Found { row: 0, offset: 0, number: Some(12) }]);
        assert_eq!(marks.rows()[0].phase, Phase::Other("merge".to_owned()));
        assert_eq!(Marks::with("ready | x\n").expect_err("two columns"), MarksError::Row(1));
        assert_eq!(Marks::with("\nready | x | ab").expect_err("short"), MarksError::Short(2));
    }
}
