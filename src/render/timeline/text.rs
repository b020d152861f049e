//! The timeline in characters, for a terminal: a letter a band.

use super::axes::{self, Tick};
use super::data::Data;
use super::legend;
use crate::analysis::series::{MarkKind, Series, Unit, What};
use crate::render::table::{Align, Table};
use crate::render::terminal::names::{shared_directory, without};
use crate::text::{printable, shorten, width};
use crate::units::{bytes, count, duration};

/// Columns of the labels at the left.
const LEFT: usize = 11;
/// Narrowest and widest chart, in characters.
const WIDTHS: (usize, usize) = (20, 400);
/// Bands with a letter.
const LETTERS: usize = 26;

/// Draws `series` in `width` columns; the plot has `height` rows.
///
/// Each character shows the memory at the highest moment that it covers, so that no peak is lost. Blocks and segments
/// drawn one by one in a picture are drawn by their common name here.
pub fn timeline_text(series: &Series, title: &str, width: usize, height: usize) -> String {
    let data = Data::new(series, usize::MAX, usize::MAX);
    let chart =
        Chart::new(series, &data, width.saturating_sub(LEFT + 1).clamp(WIDTHS.0, WIDTHS.1), height.clamp(4, 200));
    let mut out = format!("{}\n\n", shorten(&printable(title), width.max(LEFT)));
    chart.marks(&mut out);
    chart.plot(&mut out);
    chart.axis(&mut out);
    out.push('\n');
    chart.legend(&mut out, width);
    out
}

struct Chart<'a> {
    series: &'a Series,
    data: &'a Data,
    /// For each character the column of the data that it shows.
    shown: Vec<usize>,
    /// The highest reserved (or live, where segments are shown) bytes that each character covers.
    line: Vec<u64>,
    rows: usize,
    /// Bytes at the top.
    end: f64,
    /// Bytes of each group in each column of the data.
    groups: Vec<Vec<u64>>,
}

impl<'a> Chart<'a> {
    fn new(series: &'a Series, data: &'a Data, columns: usize, rows: usize) -> Self {
        let span = data.edges.last().copied().unwrap_or(1.0).max(1.0);
        let count = data.totals.len();
        let line = if series.what == What::Segments { &data.active } else { &data.reserved };
        let (mut shown, mut highest) = (Vec::new(), Vec::new());
        for at in (0..columns).take_while(|_| count > 0) {
            let edge = |at: usize| at as f64 / columns as f64 * span;
            // The last column that begins at or before the left edge, up to the last that begins before the right one.
            let from = data.edges[..count].partition_point(|&x| x <= edge(at)).saturating_sub(1);
            let to = data.edges[..count].partition_point(|&x| x < edge(at + 1)).max(from + 1);
            let best = (from..to).fold(from, |best, i| if data.totals[i] > data.totals[best] { i } else { best });
            shown.push(best);
            highest.push((from..to).filter_map(|i| line.get(i).copied()).max().unwrap_or(0));
        }
        let top = data.top().max(line.iter().copied().max().unwrap_or(0));
        let capacity = series.capacity.filter(|&capacity| capacity / 2 <= top).unwrap_or(0);
        let mut groups = vec![vec![0u64; count]; data.groups.len()];
        for row in &data.bands {
            groups[row.group].iter_mut().zip(&row.values).for_each(|(sum, value)| *sum = sum.saturating_add(*value));
        }
        Self { series, data, shown, line: highest, rows, end: top.max(capacity).max(1) as f64 * 1.02, groups }
    }

    /// The character of a group; the largest have the first letters of the alphabet.
    fn letter(&self, group: usize) -> char {
        let named = self.data.groups[group].site.is_some() && group < LETTERS;
        if named { char::from(b'A' + group as u8) } else { '·' }
    }

    fn place(&self, x: u64) -> usize {
        let span = self.data.edges.last().copied().unwrap_or(1.0).max(1.0);
        let fraction = x.saturating_sub(self.data.x0) as f64 / span;
        ((fraction * self.shown.len() as f64) as usize).min(self.shown.len().saturating_sub(1))
    }

    /// A row with what happened.
    fn marks(&self, out: &mut String) {
        if self.shown.is_empty() {
            return;
        }
        let mut row = vec![' '; self.shown.len()];
        for (kind, sign) in SIGNS {
            for mark in self.series.marks.iter().filter(|mark| mark.kind == kind) {
                row[self.place(mark.x)] = sign;
            }
        }
        push_line(out, "", ' ', row);
    }

    fn plot(&self, out: &mut String) {
        let unit = self.end / self.rows as f64;
        let row_of = |value: f64| ((value / unit) as usize).min(self.rows - 1);
        let ticks = axes::byte_ticks(self.end);
        let capacity = self.series.capacity.filter(|&capacity| capacity as f64 <= self.end).map(|c| row_of(c as f64));
        for row in (0..self.rows).rev() {
            let middle = (row as f64 + 0.5) * unit;
            let is_capacity = capacity == Some(row);
            let cells = (0..self.shown.len()).map(|at| match self.cell(at, middle, row) {
                ' ' if is_capacity => '-',
                cell => cell,
            });
            let label = ticks.iter().find(|(value, _)| row_of(*value) == row).map(|(_, label)| label.as_str());
            push_line(out, label.unwrap_or(""), if label.is_some() { '┤' } else { '│' }, cells);
        }
    }

    /// What is at `middle` bytes in a column of characters.
    fn cell(&self, at: usize, middle: f64, row: usize) -> char {
        let column = self.shown[at];
        let mut sum = 0u64;
        for (group, values) in self.groups.iter().enumerate() {
            sum = sum.saturating_add(values[column]);
            if middle < sum as f64 {
                return self.letter(group);
            }
        }
        let line = self.line[at] as f64;
        match self.series.what {
            // Anything is more than nothing.
            _ if row == 0 && sum > 0 => self.letter(self.largest(column)),
            What::Segments => ' ',
            _ if middle < line => '░',
            _ => ' ',
        }
    }

    fn largest(&self, column: usize) -> usize {
        let groups = 0..self.groups.len();
        groups
            .reduce(|best, group| if self.groups[group][column] > self.groups[best][column] { group } else { best })
            .unwrap_or(0)
    }

    fn axis(&self, out: &mut String) {
        let columns = self.shown.len();
        let span = self.data.edges.last().copied().unwrap_or(1.0).max(1.0);
        let fits = |ticks: &[Tick], distance: f64| {
            let widest = ticks.iter().map(|tick| width(&tick.1)).max().unwrap_or(0);
            (widest + 2) as f64 <= distance * columns as f64
        };
        let mut line = vec!['─'; columns];
        let mut labels = vec![' '; columns + 8];
        let mut free = 0;
        let ticks = if columns == 0 { Vec::new() } else { axes::x_ticks(self.data.x0, span, self.series.unit, fits) };
        for (x, label) in ticks {
            let at = (x / span * columns as f64) as usize;
            if let Some(cell) = line.get_mut(at) {
                *cell = '┬';
            }
            let from = at.saturating_sub(width(&label) / 2);
            if from >= free && from + width(&label) <= labels.len() && at < columns {
                label.chars().zip(&mut labels[from..]).for_each(|(c, cell)| *cell = c);
                free = from + width(&label) + 1;
            }
        }
        push_line(out, "", '└', line);
        push_line(out, "", ' ', labels);
        push_line(
            out,
            "",
            ' ',
            match self.series.unit {
                Unit::Event => "event".chars(),
                Unit::Microseconds => "time since the first event".chars(),
            },
        );
    }

    fn legend(&self, out: &mut String, width: usize) {
        let mut table = Table::new([
            ("", Align::Left),
            (legend::heading(self.series), Align::Left),
            ("at the peak", Align::Right),
            ("at most", Align::Right),
        ])
        .indent(2);
        let shared = shared_directory(self.data.groups.iter().filter_map(|group| group.site.as_deref()));
        for (at, group) in self.data.groups.iter().enumerate().rev() {
            let name = group.site.as_deref().map(|site| without(site, shared));
            let name = name.unwrap_or_else(|| legend::others(self.series));
            table.row([&self.letter(at).to_string(), name, &bytes(group.at_peak), &bytes(group.most)]);
        }
        let most = |values: &[u64]| bytes(values.iter().copied().max().unwrap_or(0));
        let peak = |values: &[u64]| values.get(self.data.peak).copied().map_or_else(String::new, bytes);
        table.row(["", "sum", &bytes(self.data.peak_total()), &bytes(self.data.peak_total())]);
        if self.series.what != What::Segments {
            table.row(["░", "reserved", &peak(&self.data.reserved), &most(&self.data.reserved)]);
        } else {
            table.row(["", "live", &peak(&self.data.active), &most(&self.data.active)]);
        }
        if let Some(capacity) = self.series.capacity {
            table.row(["-", "capacity", "", &bytes(capacity)]);
        }
        if let Some(limit) = self.series.limit {
            table.row(["", if limit.exact { "limit" } else { "limit, at least" }, "", &bytes(limit.bytes)]);
        }
        *out += &table.render(Some(width));
        out.push('\n');
        for (kind, sign) in SIGNS.iter().rev() {
            let marks: Vec<_> = self.series.marks.iter().filter(|mark| mark.kind == *kind).collect();
            let place = |x: u64| match self.series.unit {
                Unit::Event => format!("event {}", count(x)),
                Unit::Microseconds => format!("{} after the first event", duration(x)),
            };
            match (kind, marks.as_slice()) {
                (_, []) => {}
                (MarkKind::Step | MarkKind::Annotation, marks) => {
                    let what = if *kind == MarkKind::Step { "step begins" } else { "named region begins" };
                    *out += &format!("  {sign} {what} ({}×)\n", count(marks.len() as u64));
                }
                (_, [.., last]) => {
                    let more = if marks.len() > 1 {
                        format!(", the last of {}", count(marks.len() as u64))
                    } else {
                        String::new()
                    };
                    *out += &format!("  {sign} {} at {}{more}\n", last.label, place(last.x));
                }
            }
        }
    }
}

/// What stands for each kind of mark, least important first.
const SIGNS: [(MarkKind, char); 4] =
    [(MarkKind::Annotation, '\''), (MarkKind::Step, '|'), (MarkKind::Peak, '▼'), (MarkKind::Oom, 'X')];

fn push_line(out: &mut String, label: &str, edge: char, cells: impl IntoIterator<Item = char>) {
    let start = out.len();
    *out += &format!("{label:>LEFT$}{edge}");
    out.extend(cells);
    out.truncate(start + out[start..].trim_end().len());
    out.push('\n');
}
