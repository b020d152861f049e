//! The series as it is drawn: checked, and reduced to what the picture can show.

use crate::analysis::series::{OTHER, Series};

/// Most bands drawn on their own; the smallest are added to "other".
const MAX_BANDS: usize = 24;

/// A series with as many values as columns everywhere and columns in order.
pub(in crate::render) struct Data {
    /// Start of the picture, in the unit of the series.
    pub x0: u64,
    /// Edges of the columns relative to `x0`: one more than columns, never decreasing, the last one above 0.
    pub edges: Vec<f64>,
    /// Lowest first. Largest sites first, "other" last.
    pub bands: Vec<Row>,
    /// Empty when nothing is known.
    pub reserved: Vec<u64>,
    /// Sum of the bands in each column.
    pub totals: Vec<u64>,
    /// The first column with the largest total.
    pub peak: usize,
}

/// One band.
pub(in crate::render) struct Row {
    /// The site's name; `None` for "other".
    pub site: Option<String>,
    /// For the tooltip.
    pub detail: Option<String>,
    /// Bytes in each column.
    pub values: Vec<u64>,
}

impl Data {
    /// Reduces `series` to at most `columns` columns, in the way that it was made itself: each takes its values at the
    /// event where the sum is largest, so that the peak stays.
    pub fn new(series: &Series, columns: usize) -> Self {
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

        let reserved = match series.reserved.is_empty() {
            true => Vec::new(),
            false => (0..groups)
                .map(|g| (start(g)..start(g + 1)).map(|i| value(&series.reserved, i)).max().unwrap_or(0))
                .collect(),
        };
        let totals: Vec<u64> = chosen.iter().map(|&i| all[i]).collect();
        Self { x0, edges, bands: rows(series, &chosen), reserved, peak: first_max(0..groups, &totals), totals }
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

fn rows(series: &Series, chosen: &[usize]) -> Vec<Row> {
    let take = |values: &[u64]| -> Vec<u64> { chosen.iter().map(|&i| values.get(i).copied().unwrap_or(0)).collect() };
    // Only the last one: a function may be called that, too.
    let (sites, other) = match series.bands.split_last() {
        Some((last, sites)) if last.site == OTHER => (sites, Some(last)),
        _ => (&series.bands[..], None),
    };
    let (sites, small) = sites.split_at(sites.len().min(MAX_BANDS));
    let mut rows: Vec<Row> = sites
        .iter()
        .map(|b| Row { site: Some(b.site.clone()), detail: b.detail.clone(), values: take(&b.values) })
        .collect();
    let other = other.into_iter().chain(small).map(|band| take(&band.values)).reduce(|mut sum, values| {
        sum.iter_mut().zip(values).for_each(|(s, v)| *s = s.saturating_add(v));
        sum
    });
    if let Some(values) = other {
        rows.push(Row { site: None, detail: None, values });
    }
    rows
}
