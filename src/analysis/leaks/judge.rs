//! Whether a series of samples is a leak.
//!
//! A leak rises: with 6 samples or more the one-sided p of Mann and Kendall is below 0.01 and the slope of Theil and
//! Sen above 0, after a warm-up; with 3 to 5 samples a strict rise is a suspect. What returns to an earlier level,
//! stops growing, or was allocated once is no leak. Where blocks do not become more and more, only their sizes grow, and
//! the proof must be stricter: sizes also vary by chance.

use crate::analysis::trend;

/// Fewer samples prove nothing.
pub const MIN_SAMPLES: usize = 6;
/// Fewer samples are not even a suspicion.
pub const MIN_SUSPECT: usize = 3;
/// A rise as steady is believed when chance would give it in less than this share of the cases.
pub const ALPHA: f64 = 0.01;
/// The same where blocks do not stay.
const STRICT_ALPHA: f64 = 0.001;
/// Below this p a series looks as if it rose.
const NOTABLE: f64 = 0.05;
/// Steps that have left blocks behind, from which on blocks are said to stay.
const MIN_GENERATIONS: usize = 3;
/// What is left of the growth at the end, for it to have been given back.
const GIVEN_BACK: f64 = 0.1;

/// What was found.
#[derive(Clone, Debug, PartialEq)]
pub enum Judgement {
    /// A leak.
    Leak(Trend),
    /// A strict rise over too few samples.
    Suspect(Trend),
    /// It has grown, but is no leak.
    Not(Why),
    /// It did not grow.
    Nothing,
}

/// A rise.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trend {
    /// Samples cut off as warm-up.
    pub warm_up: usize,
    /// Samples that the test used.
    pub samples: usize,
    /// Mann and Kendall's p, one-sided.
    pub p_value: f64,
    /// Theil and Sen's slope of the later half, bytes per sample.
    pub slope: f64,
    /// The last sample that is at the starting level.
    pub since: usize,
    /// Whether blocks stay; else they are replaced by larger ones.
    pub accumulates: bool,
}

/// Why a rise is no leak. Numbers are those of samples.
#[derive(Clone, Debug, PartialEq)]
pub enum Why {
    /// Only one sample is higher than the one before.
    Once(usize),
    /// No growth since.
    Level(usize),
    /// Freed before the end.
    GivenBack,
    /// Back at an earlier level in between.
    Returns(usize),
    /// Sizes vary: p.
    NoTrend(f64),
}

impl Why {
    /// In words; `step` gives the number of the step that ends with a sample.
    pub fn text(&self, step: impl Fn(usize) -> u64) -> String {
        match *self {
            Self::Once(sample) => format!("allocated once, in step {}", step(sample)),
            Self::Level(sample) => format!("grew until step {}, level since", step(sample)),
            Self::GivenBack => "grew, but was given back before the end".to_owned(),
            Self::Returns(sample) => format!("comes and goes: back at an earlier level in step {}", step(sample)),
            Self::NoTrend(p) => {
                format!("varies without a steady rise: chance gives as much in {:.0} % of cases", p * 100.0)
            }
        }
    }
}

/// Judges a site that holds `levels` bytes in `blocks` blocks in the samples, and `now` bytes at the end;
/// `generations` is the number of different steps from which blocks were left at the last sample.
pub fn judge(levels: &[f64], blocks: &[f64], now: f64, generations: usize) -> Judgement {
    // Most sites hold the same all the time, or come and go.
    if levels.iter().all(|&level| level == levels[0]) || (trend::rising(levels) > ALPHA && now <= levels[0]) {
        return Judgement::Nothing;
    }
    let warm_up = trend::warm_up(levels);
    let used = &levels[warm_up..];
    let n = used.len();
    let (Some(&first), Some(&last)) = (levels.first(), levels.last()) else { return Judgement::Nothing };
    if n < MIN_SUSPECT {
        return Judgement::Nothing;
    }
    let p_value = trend::rising(used);
    let more_blocks = || trend::rising(&blocks[warm_up..]) < ALPHA && stops(blocks, warm_up).is_none();
    let accumulates = generations >= MIN_GENERATIONS && (n < MIN_SAMPLES || more_blocks());
    let since = levels.iter().rposition(|&level| level <= levels[warm_up]).unwrap_or(warm_up);
    let found = Trend { warm_up, samples: n, p_value, slope: recent_slope(used), since, accumulates };
    let highest = levels.iter().copied().fold(first, f64::max);
    let given_back = now <= first + (highest - first) * GIVEN_BACK;
    if n < MIN_SAMPLES {
        return match used.windows(2).all(|pair| pair[0] < pair[1]) && !given_back {
            true => Judgement::Suspect(found),
            false => Judgement::Nothing,
        };
    }
    let rises = p_value < ALPHA && trend::slope(used) > 0.0;
    if !rises && last <= first {
        return Judgement::Nothing;
    }
    if given_back {
        return if rises { Judgement::Not(Why::GivenBack) } else { Judgement::Nothing };
    }
    match stops(levels, warm_up) {
        Some(Why::NoTrend(p_value)) => return varies(p_value),
        Some(why) => return Judgement::Not(why),
        None => {}
    }
    if !rises {
        return varies(p_value);
    }
    // What rose early and has stopped since is no leak of today.
    if found.slope <= 0.0 {
        return varies(p_value);
    }
    let third = n / 3;
    let (head, tail) = (&used[..third], &used[n - third..]);
    let lowest_at = (n - third..n).min_by(|&a, &b| used[a].total_cmp(&used[b])).unwrap_or(0);
    if used[lowest_at] <= trend::median(&mut head.to_vec()) {
        return Judgement::Not(Why::Returns(warm_up + lowest_at));
    }
    let highest_head = head.iter().copied().fold(f64::MIN, f64::max);
    let strictly = p_value < STRICT_ALPHA && trend::rising(recent(used)) < ALPHA && least(tail) > highest_head;
    match accumulates || strictly {
        true => Judgement::Leak(found),
        false => varies(p_value),
    }
}

/// Sizes that vary: worth a word only where they could be taken for a rise.
fn varies(p_value: f64) -> Judgement {
    if p_value < NOTABLE { Judgement::Not(Why::NoTrend(p_value)) } else { Judgement::Nothing }
}

/// The slope over the later half of `samples`, at least [`MIN_SAMPLES`] of them: the rate of today, which tells when
/// the device will be full.
pub fn recent_slope(samples: &[f64]) -> f64 {
    trend::slope(recent(samples))
}

fn recent(samples: &[f64]) -> &[f64] {
    let count = samples.len().div_ceil(2).max(MIN_SAMPLES).min(samples.len());
    &samples[samples.len() - count..]
}

/// Whether the last third of the samples no longer grows, and since when.
fn stops(levels: &[f64], warm_up: usize) -> Option<Why> {
    let used = &levels[warm_up..];
    let tail = &used[used.len() - (used.len() / 3).max(2)..];
    let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
    let (early, late) = tail.split_at(tail.len() / 2);
    if mean(late) > mean(early) {
        return None;
    }
    let rises: Vec<usize> = (1..levels.len()).filter(|&at| levels[at] > levels[at - 1]).collect();
    match rises[..] {
        [] => None,
        [once] => Some(Why::Once(once)),
        [.., last] if last + 1 < levels.len() && levels[last..].iter().all(|&level| level == levels[last]) => {
            Some(Why::Level(last))
        }
        _ => Some(Why::NoTrend(trend::rising(used))),
    }
}

fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::MAX, f64::min)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(levels: &[f64]) -> Judgement {
        judge(levels, &series(levels.len(), |at| at as f64), *levels.last().unwrap(), levels.len())
    }

    fn series(n: usize, level: impl Fn(usize) -> f64) -> Vec<f64> {
        (0..n).map(level).collect()
    }

    #[test]
    fn a_steady_rise_is_a_leak_with_its_rate_and_start() {
        let late = series(30, |at| at.saturating_sub(3) as f64 * 3.0);
        let Judgement::Leak(trend) = verdict(&late) else { panic!() };
        assert_eq!((trend.slope, trend.since), (3.0, 3));
        let fewest = series(6, |at| at as f64);
        assert!(matches!(verdict(&fewest), Judgement::Leak(trend) if trend.samples == 6 && trend.p_value < 0.002));
    }

    #[test]
    fn few_samples_are_a_suspicion_at_most() {
        assert!(matches!(verdict(&[1.0, 2.0, 3.0, 4.0, 5.0]), Judgement::Suspect(trend) if trend.samples == 5));
        assert_eq!(verdict(&[1.0, 2.0, 2.0, 3.0, 4.0]), Judgement::Nothing);
        assert_eq!(verdict(&[1.0, 2.0]), Judgement::Nothing);
    }

    #[test]
    fn what_stops_returns_or_came_once_is_none() {
        assert_eq!(verdict(&series(64, |at| at.min(9) as f64)), Judgement::Not(Why::Level(9)));
        assert_eq!(verdict(&series(30, |at| at.min(14) as f64)), Judgement::Not(Why::Level(14)));
        assert_eq!(verdict(&series(30, |at| f64::from(u8::from(at > 4)))), Judgement::Not(Why::Once(5)));
        let saw = series(24, |at| (at % 8) as f64);
        assert!(!matches!(verdict(&saw), Judgement::Leak(_)));
        let rising = series(20, |at| at as f64);
        assert_eq!(judge(&rising, &rising, 0.0, 20), Judgement::Not(Why::GivenBack));
        let mut dips = series(30, |at| at as f64);
        dips[23] = 0.0;
        assert_eq!(verdict(&dips), Judgement::Not(Why::Returns(23)));
    }

    /// Without blocks that stay, a rise that chance gives in one of 200 series is not enough.
    #[test]
    fn varying_sizes_need_a_stricter_proof() {
        let wobbly = [2.0, 1.0, 0.0, 5.0, 4.0, 3.0, 8.0, 7.0, 6.0, 11.0, 10.0, 9.0];
        let line = series(12, |at| at as f64);
        assert!(matches!(judge(&wobbly, &line, 11.0, 12), Judgement::Leak(_)));
        assert!(matches!(judge(&wobbly, &line, 11.0, 1), Judgement::Not(Why::NoTrend(_))));
        assert!(matches!(judge(&wobbly, &[4.0; 12], 11.0, 12), Judgement::Not(Why::NoTrend(_))), "a bounded queue");
        assert!(matches!(judge(&line, &[1.0; 12], 11.0, 1), Judgement::Leak(trend) if !trend.accumulates));
    }
}
