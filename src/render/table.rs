//! A small table for the terminal.
//!
//! Cells may come from untrusted files: control characters and escape sequences in them are made visible, not obeyed.

use crate::text::{printable, shorten, width, words};

/// What stands between two columns.
const GAP: usize = 2;
/// Columns of a line where the terminal's are not known.
pub const WIDEST: usize = 120;
/// The least that a column is shortened to.
const NARROWEST: usize = 8;
/// The least that a column of sentences is given before other columns are shortened.
const READABLE: usize = 24;

/// How a column is set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// Text: starts at the left, and may be shortened when the table is too wide.
    Left,
    /// Numbers: end at the right, never shortened.
    Right,
    /// Sentences, in the last column: continued on further lines when the table is too wide.
    Prose,
}

/// A table being filled: columns first, then rows.
#[derive(Clone, Debug)]
pub struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
    indent: usize,
}

impl Table {
    /// A table with these columns: heading (may be empty) and alignment. Without any heading no heading line is written.
    pub fn new<'a>(columns: impl IntoIterator<Item = (&'a str, Align)>) -> Self {
        let columns = columns.into_iter().map(|(name, align)| (printable(name).into_owned(), align)).collect();
        Self { columns, rows: Vec::new(), indent: 0 }
    }

    /// Indents every line by `columns` spaces.
    pub fn indent(mut self, columns: usize) -> Self {
        self.indent = columns;
        self
    }

    /// Adds a row. Missing cells are empty, those beyond the last column are left out.
    pub fn row<S: AsRef<str>>(&mut self, cells: impl IntoIterator<Item = S>) -> &mut Self {
        let mut row: Vec<String> =
            cells.into_iter().take(self.columns.len()).map(|cell| printable(cell.as_ref()).into_owned()).collect();
        row.resize(self.columns.len(), String::new());
        self.rows.push(row);
        self
    }

    /// Whether no row was added.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The table as lines, each ending in a newline, none in spaces.
    ///
    /// Sentences are continued below, and the widest left-aligned columns shortened in the middle, until the lines fit
    /// into `total` terminal columns ([`WIDEST`] where they are not known), though to no less than a readable minimum:
    /// a very narrow terminal wraps instead.
    pub fn render(&self, total: Option<usize>) -> String {
        let mut widths: Vec<usize> = self.columns.iter().map(|(name, _)| width(name)).collect();
        for row in &self.rows {
            for (w, cell) in widths.iter_mut().zip(row) {
                *w = (*w).max(width(cell));
            }
        }
        self.fit(&mut widths, total.unwrap_or(WIDEST));
        let headings: Vec<&str> = self.columns.iter().map(|(name, _)| name.as_str()).collect();
        let mut out = String::new();
        if headings.iter().any(|h| !h.is_empty()) {
            self.line(&mut out, &headings, &widths);
        }
        for row in &self.rows {
            self.line(&mut out, &row.iter().map(String::as_str).collect::<Vec<_>>(), &widths);
        }
        out
    }

    /// Takes columns away from the widest text columns, the widest first, until the lines fit or nothing is left.
    fn fit(&self, widths: &mut [usize], total: usize) {
        let excess = |widths: &[usize]| {
            let line = self.indent + widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1);
            line.checked_sub(total).filter(|&excess| excess > 0)
        };
        if let (Some(excess), Some((_, Align::Prose)), Some(last)) =
            (excess(widths), self.columns.last(), widths.last_mut())
        {
            *last = last.saturating_sub(excess).max(READABLE.min(*last));
        }
        loop {
            let Some(excess) = excess(widths) else { return };
            let left = |i: &usize| self.columns[*i].1 != Align::Right;
            let Some(widest) = (0..widths.len()).filter(left).max_by_key(|&i| (widths[i], usize::MAX - i)) else {
                return;
            };
            // Down to the next widest one, so that two long columns share the loss.
            let next = (0..widths.len()).filter(left).filter(|&i| i != widest).map(|i| widths[i]).max().unwrap_or(0);
            let floor = next.min(widths[widest].saturating_sub(1)).max(NARROWEST);
            if widths[widest] <= floor {
                return;
            }
            widths[widest] -= excess.min(widths[widest] - floor);
        }
    }

    fn line(&self, out: &mut String, cells: &[&str], widths: &[usize]) {
        let start = out.len();
        out.extend(std::iter::repeat_n(' ', self.indent));
        for (i, ((cell, &w), (_, align))) in cells.iter().zip(widths).zip(&self.columns).enumerate() {
            if i > 0 {
                out.extend(std::iter::repeat_n(' ', GAP));
            }
            let text = shorten(cell, w);
            let pad = std::iter::repeat_n(' ', w.saturating_sub(width(&text)));
            match align {
                Align::Left => {
                    out.push_str(&text);
                    out.extend(pad);
                }
                Align::Right => {
                    out.extend(pad);
                    out.push_str(&text);
                }
                Align::Prose => {
                    let column = width(&out[start..]);
                    out.push_str(&wrapped(cell, w).join(&format!("\n{:column$}", "")));
                }
            }
        }
        out.truncate(start + out[start..].trim_end_matches(' ').len());
        out.push('\n');
    }
}

/// `text` in lines of at most `columns`, broken at spaces; a longer word is shortened.
fn wrapped(text: &str, columns: usize) -> Vec<String> {
    if width(text) <= columns {
        return vec![text.to_owned()];
    }
    let mut lines = vec![String::new()];
    for word in words(text) {
        let word = shorten(word, columns);
        match lines.last_mut() {
            Some(line) if line.is_empty() => line.push_str(&word),
            Some(line) if width(line) + 1 + width(&word) <= columns => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(word.into_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sites() -> Table {
        let mut table = Table::new([("SITE", Align::Left), ("live", Align::Right), ("function", Align::Left)]);
        table.row(["workloads.py:128", "147.9 MiB", "decode"]);
        table.row(["/opt/venv/lib/python3.11/site-packages/model/attention.py:1042", "9.7 MiB", "scaled_dot"]);
        table
    }

    #[test]
    fn columns_are_aligned() {
        let mut table = Table::new([("WHAT", Align::Left), ("live", Align::Right)]).indent(2);
        table.row(["漢字", "1 B"]).row(["ab", "616.4 MiB"]);
        assert_eq!(table.render(None), "  WHAT       live\n  漢字        1 B\n  ab    616.4 MiB\n");
    }

    #[test]
    fn the_widest_text_column_is_shortened() {
        let text = sites().render(Some(60));
        let expected = "\
SITE                                        live  function
workloads.py:128                       147.9 MiB  decode
/opt/venv/lib/…odel/attention.py:1042    9.7 MiB  scaled_dot
";
        assert_eq!(text, expected);
        assert!(text.lines().all(|l| width(l) <= 60), "{text}");
        assert!(sites().render(None).contains("site-packages"));
    }

    #[test]
    fn sentences_are_continued_below() {
        let mut table = Table::new([("", Align::Left), ("", Align::Prose)]).indent(2);
        table.row(["trace", "recording began late, so that an earlier peak would be lost"]).row(["stacks", "none"]);
        let text = "  trace   recording began late, so that an earlier\n          peak would be lost\n  stacks  none\n";
        assert_eq!(table.render(Some(50)), text);
    }

    #[test]
    fn a_narrow_terminal_keeps_numbers_whole() {
        let text = sites().render(Some(5));
        assert!(text.contains("147.9 MiB") && text.contains('…'), "{text}");
    }

    #[test]
    fn two_long_columns_share_the_loss() {
        let mut table = Table::new([("", Align::Left), ("", Align::Left)]);
        table.row(["a".repeat(60), "b".repeat(50)]);
        let text = table.render(Some(42));
        assert_eq!(width(text.trim_end()), 42);
        assert_eq!(text.matches('a').count(), 19);
        assert_eq!(text.matches('b').count(), 19);
    }

    #[test]
    fn escapes_are_shown_not_obeyed() {
        let mut table = Table::new([("", Align::Left), ("n", Align::Right)]);
        table.row(["\x1b]0;owned\x07evil\r\n", "1"]);
        assert_eq!(table.render(None), "                  n\n␛]0;owned␇evil␍␊  1\n");
    }

    #[test]
    fn odd_tables_are_harmless() {
        assert_eq!(Table::new([]).render(Some(0)), "");
        let mut table = Table::new([("a", Align::Left)]);
        table.row(["1", "2", "3"]).row::<&str>([]);
        assert_eq!(table.render(Some(1)), "a\n1\n\n");
    }
}
