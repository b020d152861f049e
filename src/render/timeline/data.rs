//! The series as it is drawn: checked, and reduced to what the picture can show.

use std::cmp::Reverse;
use std::collections::HashMap;

use crate::analysis::series::{Band, OTHER, Series, What};

/// Most groups with a colour of their own; the others are grey.
const MAX_GROUPS: usize = 24;

/// A series with as many values as columns everywhere and columns in order.
pub(in crate::render) struct Data {
    /// Start of the picture, in the unit of the series.
    pub x0: u64,
    /// Edges of the columns relative to `x0`: one more than columns, never decreasing, the last one above 0.
    pub edges: Vec<f64>,
    /// Lowest first, "other" last.
    pub bands: Vec<Row>,
    /// What the colours stand for, lowest first; the last one is grey when it stands for everything else.
    pub groups: Vec<Group>,
    /// Empty when nothing is known.
    pub reserved: Vec<u64>,
    /// Highest live bytes of each column.
    pub active: Vec<u64>,
    /// Lowest sum of the bands in each column.
    pub lowest: Vec<u64>,
    /// Bytes asked for; empty when nothing is known.
    pub requested: Vec<u64>,
    /// Sum of the bands in each column.
    pub totals: Vec<u64>,
    /// The first column with the largest total.
    pub peak: usize,
}

/// One band.
pub(in crate::render) struct Row {
    /// The name; `None` for "other".
    pub site: Option<String>,
    /// For the tooltip.
    pub detail: Option<String>,
    /// Bytes in each column.
    pub values: Vec<u64>,
    /// Whether it sums blocks that have no row of their own, where every other row is one block.
    pub together: bool,
    /// Row of [`Data::groups`].
    pub group: usize,
}

/// The bands of one colour.
pub(in crate::render) struct Group {
    /// Their common name; `None` for everything else.
    pub site: Option<String>,
    /// How many bands, without those that sum others.
    pub bands: usize,
    /// Their bytes at the peak.
    pub at_peak: u64,
    /// The most that they hold in any column.
    pub most: u64,
}

impl Data {
    /// Reduces `series` to at most `columns` columns, in the way that it was made itself: each takes its values at the
    /// event where the sum is largest, so that the peak stays.
    ///
    /// At most `max_bands` bands stay: those with the largest area.
    pub fn new(series: &Series, columns: usize, max_bands: usize) -> Self {
        let n = series.x.len();
        let value = |values: &[u64], i: usize| values.get(i).copied().unwrap_or(0);
        let all: Vec<u64> = (0..n)
            .map(|i| series.bands.iter().fold(0u64, |sum, band| sum.saturating_add(value(&band.values, i))))
            .collect();
        let groups = n.min(columns.max(1));
        let start = |g: usize| (g as u128 * n as u128 / groups.max(1) as u128) as usize;
        // Among equals the first, as everywhere.
        let first_max = |range: std::ops::Range<usize>, values: &[u64]| {
            range.reduce(|best, i| if values[i] > values[best] { i } else { best }).unwrap_or(0)
        };
        let chosen: Vec<usize> = (0..groups).map(|g| first_max(start(g)..start(g + 1), &all)).collect();

        let x0 = series.x.first().copied().unwrap_or(0);
        let mut edges: Vec<f64> = Vec::with_capacity(groups + 1);
        let mut last = 0;
        for x in (0..groups).map(|g| series.x[start(g)]).chain([series.x_end]) {
            last = x.saturating_sub(x0).max(last);
            edges.push(last as f64);
        }
        if let Some(end) = edges.last_mut() {
            *end = end.max(1.0);
        }

        let extreme = |values: &[u64], of: fn(u64, u64) -> u64| -> Vec<u64> {
            let column = |g| (start(g)..start(g + 1)).map(|i| value(values, i)).reduce(of).unwrap_or(0);
            if values.is_empty() { Vec::new() } else { (0..groups).map(column).collect() }
        };
        let totals: Vec<u64> = chosen.iter().map(|&i| all[i]).collect();
        let requested = match series.requested.is_empty() {
            true => Vec::new(),
            false => chosen.iter().map(|&i| value(&series.requested, i)).collect(),
        };
        let peak = first_max(0..groups, &totals);
        let mut bands = rows(series, &chosen, max_bands);
        let groups = group(&mut bands, peak);
        Self {
            x0,
            edges,
            bands,
            groups,
            reserved: extreme(&series.reserved, u64::max),
            active: extreme(&series.active, u64::max),
            lowest: extreme(&series.lowest, u64::min),
            requested,
            totals,
            peak,
        }
    }

    /// The largest total.
    pub fn peak_total(&self) -> u64 {
        self.totals.get(self.peak).copied().unwrap_or(0)
    }

    /// The largest value of bands and reserved.
    pub fn top(&self) -> u64 {
        self.reserved.iter().copied().max().unwrap_or(0).max(self.peak_total())
    }

    /// The points of a step line: both ends of each column at its value.
    pub fn steps<'a>(&'a self, values: &'a [u64]) -> impl Iterator<Item = (f64, f64)> + 'a {
        self.edges.windows(2).zip(values).flat_map(|(edge, &v)| [(edge[0], v as f64), (edge[1], v as f64)])
    }
}

fn rows(series: &Series, chosen: &[usize], max_bands: usize) -> Vec<Row> {
    let take = |values: &[u64]| -> Vec<u64> { chosen.iter().map(|&i| values.get(i).copied().unwrap_or(0)).collect() };
    // Only the last one: a function may be called that, too.
    let (named, other) = match series.bands.split_last() {
        Some((last, named)) if last.site == OTHER => (named, Some(last)),
        _ => (&series.bands[..], None),
    };
    let area = |at: &usize| named[*at].values.iter().fold(0u128, |sum, &value| sum + u128::from(value));
    let mut order: Vec<usize> = (0..named.len()).collect();
    // Where bands are groups, the first are the largest at their own highest point.
    if series.what != What::Live {
        order.sort_by_key(|at| (!named[*at].together, Reverse(area(at)), *at));
    }
    let small = order.split_off(order.len().min(max_bands));
    order.sort_unstable();
    let row = |band: &Band| Row {
        site: Some(band.site.clone()),
        detail: band.detail.clone(),
        values: take(&band.values),
        together: band.together,
        group: 0,
    };
    let mut rows: Vec<Row> = order.iter().map(|&at| row(&named[at])).collect();
    // What has no row goes to the others of its line, where they have one.
    let mut rest = other.map(|band| take(&band.values));
    for band in small.iter().map(|&at| &named[at]) {
        let others = rows.iter_mut().find(|row| row.together && row.site.as_ref() == Some(&band.site));
        let sum = match others {
            Some(row) => &mut row.values,
            None => rest.get_or_insert_with(|| vec![0; chosen.len()]),
        };
        sum.iter_mut().zip(take(&band.values)).for_each(|(sum, value)| *sum = sum.saturating_add(value));
    }
    if let Some(values) = rest {
        rows.push(Row { site: None, detail: None, values, together: true, group: 0 });
    }
    rows
}

/// Puts the rows into groups of one name, in the order in which names first occur from below.
fn group(rows: &mut [Row], peak: usize) -> Vec<Group> {
    let mut areas: HashMap<&str, u128> = HashMap::new();
    for row in rows.iter() {
        let area = row.values.iter().fold(0u128, |sum, &value| sum + u128::from(value));
        *areas.entry(row.site.as_deref().unwrap_or_default()).or_default() += area;
    }
    let mut largest: Vec<(Reverse<u128>, &str)> = areas.into_iter().map(|(site, area)| (Reverse(area), site)).collect();
    largest.sort_unstable();
    let kept: Vec<String> = largest.into_iter().take(MAX_GROUPS).map(|(_, site)| site.to_owned()).collect();
    let name_of = |row: &Row| row.site.clone().filter(|site| kept.contains(site));
    let mut names: Vec<Option<String>> = Vec::new();
    for name in rows.iter().map(name_of) {
        if name.is_some() && !names.contains(&name) {
            names.push(name);
        }
    }
    names.push(None);
    let mut sums = vec![vec![0u64; rows.first().map_or(0, |row| row.values.len())]; names.len()];
    let mut groups: Vec<Group> =
        names.iter().map(|site| Group { site: site.clone(), bands: 0, at_peak: 0, most: 0 }).collect();
    for row in rows.iter_mut() {
        let name = name_of(row);
        row.group = names.iter().position(|other| *other == name).unwrap_or(names.len() - 1);
        groups[row.group].bands += usize::from(!row.together);
        sums[row.group].iter_mut().zip(&row.values).for_each(|(sum, value)| *sum = sum.saturating_add(*value));
    }
    for (group, sums) in groups.iter_mut().zip(&sums) {
        group.at_peak = sums.get(peak).copied().unwrap_or(0);
        group.most = sums.iter().copied().max().unwrap_or(0);
    }
    if rows.iter().all(|row| row.group + 1 < groups.len()) {
        groups.pop();
    }
    groups
}
