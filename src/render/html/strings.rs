//! Names for the data element: each once, and in all no more than the page can hold.

use std::collections::HashMap;

use super::cells::name;
use crate::text::shorten;

/// Bytes, as JSON, from which on names are cut to [`SHORT`] columns.
const BUDGET: usize = 900_000;
const SHORT: usize = 24;

/// Distinct names by number.
#[derive(Default)]
pub struct Strings {
    list: Vec<String>,
    numbers: HashMap<String, u32>,
    used: usize,
}

impl Strings {
    /// The number of `text`.
    pub fn number(&mut self, text: &str) -> u32 {
        if let Some(&number) = self.numbers.get(text) {
            return number;
        }
        let mut kept = name(text);
        if self.used > BUDGET {
            kept = shorten(&kept, SHORT).into_owned();
        }
        self.used += kept.chars().map(cost).sum::<usize>();
        let number = self.list.len() as u32;
        self.list.push(kept);
        self.numbers.insert(text.to_owned(), number);
        number
    }

    /// All of them.
    pub fn into_list(self) -> Vec<String> {
        self.list
    }
}

/// Bytes that a character takes at most in the page.
fn cost(c: char) -> usize {
    match c {
        '<' | '>' | '&' | '"' | '\\' => 6,
        c => c.len_utf8(),
    }
}
