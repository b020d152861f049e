//! Whether a series rises: statistics that a few odd samples do not deceive.
//!
//! Samples are taken at equal distances (steps); a value is in bytes or blocks.

use std::sync::OnceLock;

/// Below this many samples no warm-up is cut off.
const MIN_FOR_WARM_UP: usize = 10;
/// A warm-up is at most one part in this many of the samples.
const WARM_UP_PART: usize = 5;
/// By how much the rest must follow a straight line better, for a warm-up to be one.
const WARM_UP_GAIN: f64 = 2.0;
/// Up to this many samples the distribution of Mann and Kendall is counted out; above, the normal one is as good.
const EXACT_UP_TO: usize = 50;

/// The one-sided p-value of Mann and Kendall's test against a rising trend: how likely so many pairs in rising order
/// are, if the order of the samples meant nothing. Equal samples are no rising pair, and the distribution is the one
/// without ties, which errs towards a larger p. 1 for fewer than 2 samples.
pub fn rising(samples: &[f64]) -> f64 {
    let n = samples.len();
    let score: i64 = samples
        .iter()
        .enumerate()
        .map(|(at, &sample)| {
            let later = &samples[at + 1..];
            later.iter().filter(|&&other| other > sample).count() as i64
                - later.iter().filter(|&&other| other < sample).count() as i64
        })
        .sum();
    if n < 2 || score <= 0 {
        return 1.0;
    }
    match n <= EXACT_UP_TO {
        true => exact(n, score),
        false => {
            let n = n as f64;
            let variance = n * (n - 1.0) * (2.0 * n + 5.0) / 18.0;
            upper_tail((score as f64 - 1.0) / variance.sqrt())
        }
    }
}

/// P(S ≥ `score`) over all orders of `n` samples, `score` > 0.
fn exact(n: usize, score: i64) -> f64 {
    // S = pairs − 2 × inversions, so S ≥ score means at most (pairs − score) / 2 inversions.
    static TAILS: [OnceLock<Vec<f64>>; EXACT_UP_TO + 1] = [const { OnceLock::new() }; EXACT_UP_TO + 1];
    let tails = TAILS[n].get_or_init(|| inversions(n));
    let pairs = (n * (n - 1) / 2) as i64;
    tails[((pairs - score) / 2).clamp(0, pairs) as usize]
}

/// For each k the share of the orders of `n` samples with at most k inversions.
fn inversions(n: usize) -> Vec<f64> {
    let mut shares = vec![1.0];
    for size in 2..=n {
        let mut next = vec![0.0; shares.len() + size - 1];
        for (count, share) in shares.iter().enumerate() {
            for further in 0..size {
                next[count + further] += share / size as f64;
            }
        }
        shares = next;
    }
    let sums = shares.iter().scan(0.0, |sum, share| {
        *sum += share;
        Some(*sum)
    });
    sums.collect()
}

/// P(Z ≥ `z`) of the normal distribution, for `z` ≥ 0; relative error below 1e-6 (continued fraction above 2, series
/// below; Abramowitz and Stegun 26.2.10 and 26.2.14).
fn upper_tail(z: f64) -> f64 {
    let density = (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    if z < 2.0 {
        let mut term = z;
        let mut sum = z;
        for n in 1..40 {
            term *= z * z / f64::from(2 * n + 1);
            sum += term;
        }
        return 0.5 - density * sum;
    }
    density / (1..60).rev().fold(z, |tail, n| z + f64::from(n) / tail)
}

/// Theil and Sen's slope: the median of the slopes between all pairs of samples, per sample. 0 for fewer than 2.
pub fn slope(samples: &[f64]) -> f64 {
    let mut slopes: Vec<f64> = Vec::with_capacity(samples.len() * samples.len().saturating_sub(1) / 2);
    for (at, &sample) in samples.iter().enumerate() {
        let later = samples[at + 1..].iter().zip(1u32..);
        slopes.extend(later.map(|(&other, steps)| (other - sample) / f64::from(steps)));
    }
    median(&mut slopes)
}

/// The middle of `values`, which get reordered; of an even number the mean of both. 0 of none.
pub fn median(values: &mut [f64]) -> f64 {
    let n = values.len();
    if n == 0 {
        return 0.0;
    }
    let (below, &mut upper, _) = values.select_nth_unstable_by(n / 2, f64::total_cmp);
    match n % 2 {
        1 => upper,
        _ => (below.iter().copied().fold(f64::MIN, f64::max) + upper) / 2.0,
    }
}

/// How many samples at the start are a warm-up: the change point after which the rest follows a straight line best,
/// when it follows it at least twice as well as the whole does. At most a fifth of the samples, and none of fewer than
/// ten.
pub fn warm_up(samples: &[f64]) -> usize {
    let n = samples.len();
    if n < MIN_FOR_WARM_UP {
        return 0;
    }
    let whole = roughness(samples);
    let (mut best, mut least) = (0, whole / WARM_UP_GAIN);
    for cut in 1..=n / WARM_UP_PART {
        let rest = roughness(&samples[cut..]);
        if whole > 0.0 && (rest < least || (best == 0 && rest == least)) {
            (best, least) = (cut, rest);
        }
    }
    best
}

/// The mean distance of `samples` from their robust line.
fn roughness(samples: &[f64]) -> f64 {
    let slope = slope(samples);
    let offsets: Vec<f64> = samples.iter().enumerate().map(|(at, sample)| sample - slope * at as f64).collect();
    let middle = median(&mut offsets.clone());
    offsets.iter().map(|offset| (offset - middle).abs()).sum::<f64>() / offsets.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kendall's table: P(S ≥ s) for small n.
    #[test]
    fn exact_probabilities_are_those_of_the_tables() {
        let close = |a: f64, b: f64| (a - b).abs() < 5e-4;
        assert!(close(exact(4, 6), 0.042) && close(exact(4, 4), 0.167));
        assert!(close(exact(5, 10), 0.0083) && close(exact(5, 8), 0.042));
        assert!(close(exact(6, 15), 0.0014) && close(exact(6, 13), 0.0083) && close(exact(6, 11), 0.028));
        assert!(close(exact(10, 21), 0.036) && close(exact(10, 29), 0.0046));
    }

    #[test]
    fn the_normal_tail_continues_the_exact_one() {
        assert!((upper_tail(0.0) - 0.5).abs() < 1e-12);
        assert!((upper_tail(1.96) - 0.024_997_9).abs() < 1e-6);
        assert!((upper_tail(2.326_348) - 0.01).abs() < 1e-6);
        assert!((upper_tail(5.0) / 2.866_516e-7 - 1.0).abs() < 1e-5);
    }

    #[test]
    fn order_decides_and_outliers_do_not() {
        let mut line: Vec<f64> = (0..20).map(|at| f64::from(at) * 3.0).collect();
        assert!(rising(&line) < 1e-9);
        assert_eq!(slope(&line), 3.0);
        line[7] = 1e9;
        assert!(rising(&line) < 1e-6);
        assert!((slope(&line) - 3.0).abs() < 1e-9);
        line.reverse();
        assert_eq!(rising(&line), 1.0);
        assert_eq!(rising(&[5.0; 12]), 1.0);
        assert_eq!(slope(&[]), 0.0);
    }

    #[test]
    fn a_warm_up_ends_where_the_line_begins() {
        let filled: Vec<f64> = (0..60).map(|at| f64::from(at.min(8)).exp2()).collect();
        assert_eq!(warm_up(&filled), 8);
        let line: Vec<f64> = (0..60).map(f64::from).collect();
        assert_eq!(warm_up(&line), 0);
        assert_eq!(warm_up(&filled[..9]), 0, "fewer than ten samples");
    }
}
