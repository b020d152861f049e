//! Searches a log for the texts of a table.

use std::collections::HashMap;

use aho_corasick::{AhoCorasick, MatchKind, packed};
use memchr::memmem;

use super::{Mark, MarksError};

/// A finder for some of the rows: a vector unit looks for a few dozen texts several times faster than an automaton
/// does for all of them.
#[derive(Clone, Debug)]
pub(super) struct Part {
    rows: Vec<usize>,
    finder: Finder,
}

#[derive(Clone, Debug)]
enum Finder {
    Packed(packed::Searcher),
    Automaton(AhoCorasick),
    /// Functions of a traceback: `File "x.py", line 3, in name`.
    Frames(HashMap<String, usize>),
}

/// What begins the text of a row that stands for a function of a traceback.
pub(super) const FRAME: &str = "in ";
/// What stands before the function in a traceback.
const BEFORE_FRAME: &[u8] = b", in ";

impl Part {
    /// A finder for the texts of the rows in `chunk`.
    pub(super) fn texts(chunk: &[usize], rows: &[Mark]) -> Result<Self, MarksError> {
        let texts = || chunk.iter().map(|&row| rows[row].text.as_bytes());
        let packed =
            packed::Config::new().match_kind(packed::MatchKind::LeftmostFirst).builder().extend(texts()).build();
        let finder = match packed {
            Some(searcher) => Finder::Packed(searcher),
            // Processors without such a unit.
            None => Finder::Automaton(
                AhoCorasick::builder()
                    .match_kind(MatchKind::LeftmostFirst)
                    .build(texts())
                    .map_err(|_| MarksError::Large)?,
            ),
        };
        Ok(Self { rows: chunk.to_vec(), finder })
    }

    /// A finder for the functions of the rows in `found`.
    pub(super) fn frames(found: Vec<usize>, rows: &[Mark]) -> Self {
        // Of two rows for one function the first counts, as with other texts.
        let names = found.iter().rev().map(|&row| (rows[row].text[FRAME.len()..].to_owned(), row)).collect();
        Self { rows: found, finder: Finder::Frames(names) }
    }

    /// Calls `each` with the row and the place of every one in `block`.
    pub(super) fn find(&self, block: &[u8], mut each: impl FnMut(usize, usize)) {
        match &self.finder {
            Finder::Packed(searcher) => {
                searcher.find_iter(block).for_each(|found| each(self.rows[found.pattern().as_usize()], found.start()));
            }
            Finder::Automaton(automaton) => {
                automaton.find_iter(block).for_each(|found| each(self.rows[found.pattern().as_usize()], found.start()));
            }
            Finder::Frames(names) => {
                for at in memmem::find_iter(block, BEFORE_FRAME) {
                    let name = &block[at + BEFORE_FRAME.len()..];
                    let length = name.iter().take_while(|c| c.is_ascii_alphanumeric() || **c == b'_').count();
                    let row = std::str::from_utf8(&name[..length]).ok().and_then(|name| names.get(name));
                    if let Some(&row) = row {
                        each(row, at + BEFORE_FRAME.len() - FRAME.len());
                    }
                }
            }
        }
    }
}
