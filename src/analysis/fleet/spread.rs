//! How far a rank's figure lies from those of its group.

/// The middle value; of an even number, the lower one, so that it is always a figure that some rank has. 0 of none.
pub fn median(values: impl IntoIterator<Item = u64>) -> u64 {
    let mut values: Vec<u64> = values.into_iter().collect();
    values.sort_unstable();
    values.len().checked_sub(1).map_or(0, |last| values[last / 2])
}

/// Scores beyond this are outliers (Iglewicz and Hoaglin, for the modified z-score).
pub const OUTLYING: f64 = 3.5;
/// The least spread assumed, as a part of the median: ranks of one program often agree to the byte, and then any
/// difference would be infinitely odd.
const LEAST_SPREAD: f64 = 0.005;

/// The modified z-score of each value: its distance from the median in units of the scaled median deviation.
pub fn scores(values: &[u64]) -> Vec<f64> {
    let middle = median(values.iter().copied());
    let deviation = median(values.iter().map(|value| value.abs_diff(middle)));
    let spread = (1.4826 * deviation as f64).max(LEAST_SPREAD * middle as f64).max(1.0);
    values.iter().map(|&value| (value as f64 - middle as f64) / spread).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_odd_value_among_equals_stands_out() {
        let scores = scores(&[100_000, 100_000, 107_000, 100_000, 100_100]);
        assert!(scores[2] > OUTLYING && scores[4] < OUTLYING, "{scores:?}");
        assert_eq!(scores[0], 0.0);
    }

    #[test]
    fn a_broad_spread_has_no_outliers() {
        assert!(scores(&[10, 20, 30, 40, 50]).iter().all(|score| score.abs() < OUTLYING));
        assert!(scores(&[]).is_empty());
        assert_eq!(median([4, 1, 3, 2]), 2);
    }
}
