//! Charts of one line, in characters.

const LEVELS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Left-aligned blocks of one to seven eighths.
const EIGHTHS: [char; 7] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉'];

/// `values` over `width` characters, from zero to the largest of them; each character shows the largest value that it
/// covers, so that no peak is lost. Empty when there is nothing to show.
pub fn sparkline(values: &[u64], width: usize) -> String {
    sparkline_to(values, width, values.iter().copied().max().unwrap_or(0))
}

/// [`sparkline`] on a scale given by the caller: `top` fills a character, more is cut off there.
pub fn sparkline_to(values: &[u64], width: usize, top: u64) -> String {
    if values.is_empty() {
        return String::new();
    }
    let at = |i: usize| (i as u128 * values.len() as u128 / width as u128) as usize;
    (0..width)
        .map(|i| {
            let from = at(i);
            let covered = &values[from..at(i + 1).max(from + 1)];
            LEVELS[eighths(covered.iter().copied().max().unwrap_or(0), top, 8).saturating_sub(1).min(7)]
        })
        .collect()
}

/// A bar of `value` on a scale where `max` takes `width` characters, to an eighth of a character.
///
/// A value above zero always shows something; a value above `max` fills the width. No padding.
pub fn bar(value: u64, max: u64, width: usize) -> String {
    let n = eighths(value.min(max), max, width.saturating_mul(8));
    let mut bar = "█".repeat(n / 8);
    bar.extend(EIGHTHS.get((n % 8).wrapping_sub(1)));
    bar
}

/// A bar from `start` to `end` on the same scale as [`bar`], in whole characters, indented with spaces up to `start`.
///
/// Spans that follow each other on the scale follow each other on the screen; an empty span gives an empty text.
pub fn bar_span(start: u64, end: u64, max: u64, width: usize) -> String {
    let cell = |v: u64| {
        let scaled = (v.min(max) as u128 * width as u128 * 2).checked_div(max as u128).unwrap_or(0);
        (scaled.div_ceil(2)) as usize
    };
    if end <= start || width == 0 || max == 0 {
        return String::new();
    }
    let from = cell(start).min(width - 1);
    let to = cell(end).max(from + 1);
    format!("{}{}", " ".repeat(from), "█".repeat(to - from))
}

/// `value / max` in steps of 1 / `steps`, rounded to the nearest, but at least one step for a value above zero.
fn eighths(value: u64, max: u64, steps: usize) -> usize {
    if value == 0 || steps == 0 {
        return 0;
    }
    let (value, max, steps) = (value as u128, max.max(1) as u128, steps as u128);
    ((value * steps + max / 2) / max).clamp(1, steps) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sparkline_keeps_maxima() {
        assert_eq!(sparkline(&[0, 1, 2, 3, 4, 5, 6, 7, 8], 9), "▁▁▂▃▄▅▆▇█");
        let mut values = vec![1; 1000];
        values[507] = 100;
        let line = sparkline(&values, 10);
        assert_eq!(line, "▁▁▁▁▁█▁▁▁▁");
        assert_eq!(sparkline(&[1, 8], 6), "▁▁▁███");
    }

    #[test]
    fn odd_input_is_harmless() {
        assert_eq!(sparkline(&[], 10), "");
        assert_eq!(sparkline(&[5], 0), "");
        assert_eq!(sparkline(&[0, 0], 2), "▁▁");
        assert_eq!(sparkline(&[u64::MAX, 0], 2), "█▁");
        assert_eq!(bar(5, 0, 4), "");
        assert_eq!(bar(u64::MAX, u64::MAX, 3), "███");
        assert_eq!(bar_span(0, u64::MAX, u64::MAX, 3), "███");
        assert_eq!(bar_span(3, 3, 10, 10), "");
        assert_eq!(bar_span(1, 2, 0, 10), "");
    }

    #[test]
    fn bars() {
        assert_eq!(bar(4, 8, 4), "██");
        assert_eq!(bar(1, 16, 2), "▏");
        assert_eq!(bar(1, 1_000_000, 10), "▏");
        assert_eq!(bar(9, 8, 2), "██");
        assert_eq!(bar(0, 8, 2), "");
    }

    #[test]
    fn spans_follow_each_other() {
        assert_eq!(bar_span(0, 3, 10, 10), "███");
        assert_eq!(bar_span(3, 10, 10, 10), "   ███████");
        assert_eq!(bar_span(9_999, 10_000, 10_000, 4), "   █");
    }
}
