//! Steps that nothing marks: the program comes back to the same line of its own at regular distances.
//!
//! A place is where the program's own code is, above the calls of modules, so that the layers of a model are no steps.
//! Of the places that are visited at regular distances the one visited most rarely begins the steps, because what is
//! visited more often is an inner loop; but a loop of a few passes only, around one of many, is none that a trend could
//! be seen in. Of places visited about equally often the first one begins them.

use super::boundaries::{MIN_BOUNDARIES, StepSource, Steps, checked, is_regular};
use crate::analysis::places::Places;
use crate::history::History;

/// From this many visits on, an outer loop is preferred to an inner one.
const ENOUGH: usize = 8;
/// Places visited up to this much more often belong to the same loop.
const SAME_LOOP: f64 = 1.25;
/// At least this share of the passes must repeat, for several to be one step.
const REPEATS: f64 = 0.95;

pub(super) fn find(history: &History) -> Option<Steps> {
    let mut places = Places::new(history.snapshot);
    let visits = visits(history, &mut places);
    let (place, regularity) = outermost(history, &visits)?;
    let (line, starts) = (places.frame(place as u32)?, &visits[place]);
    let passes = repetition(&allocated(history, starts)).unwrap_or(1);
    let boundaries = starts.iter().copied().step_by(passes).collect();
    let frame = history.snapshot.frame(line);
    let line = format!("{}:{}", history.snapshot.text(frame.filename), frame.line);
    checked(history, StepSource::Period { line, passes: passes as u32, regularity }, boundaries, 1..)
}

/// For each place the states before its visits. Stacks without Python frames have no place.
fn visits(history: &History, places: &mut Places) -> Vec<Vec<u32>> {
    let lives = &history.lives;
    let mut visits: Vec<Vec<u32>> = Vec::new();
    let mut last = 0;
    for event in 0..history.events() {
        let Some(life) = lives.of_event(event).filter(|&life| lives.alloc_event(life) == Some(event)) else { continue };
        let stack = lives.stack(life);
        let place = places.of(stack).number;
        if places.frame(place).is_none() {
            continue;
        }
        let visit = places.enter(stack);
        if visit.number == last {
            continue;
        }
        last = visit.number;
        let place = place as usize;
        if visits.len() <= place {
            visits.resize_with(place + 1, Vec::new);
        }
        visits[place].push(event);
    }
    visits
}

/// The place that begins the steps, and how regularly it does.
fn outermost(history: &History, visits: &[Vec<u32>]) -> Option<(usize, f64)> {
    let half = history.events().div_ceil(2);
    let spans = |starts: &[u32]| starts.last().zip(starts.first()).is_some_and(|(last, first)| last - first >= half);
    let often = (0..visits.len()).filter(|&place| visits[place].len() >= MIN_BOUNDARIES && spans(&visits[place]));
    let regular: Vec<(usize, f64)> = often.filter_map(|place| Some((place, is_regular(&visits[place])?))).collect();
    let counts = || regular.iter().map(|&(place, _)| visits[place].len());
    let fewest = counts().filter(|&count| count >= ENOUGH).min().or_else(|| counts().max())?;
    let same_loop = |place: usize| {
        let count = visits[place].len();
        count >= fewest && count as f64 <= fewest as f64 * SAME_LOOP
    };
    regular.iter().copied().filter(|&(place, _)| same_loop(place)).min_by_key(|&(place, _)| visits[place][0])
}

/// Bytes asked for between one start and the next.
fn allocated(history: &History, starts: &[u32]) -> Vec<u64> {
    let lives = &history.lives;
    let bytes = |event| {
        let life = lives.of_event(event).filter(|&life| lives.alloc_event(life) == Some(event));
        life.map_or(0, |life| lives.requested(life))
    };
    starts.windows(2).map(|pair| (pair[0]..pair[1]).map(bytes).sum()).collect()
}

/// After how many values `series` repeats, when it is not the same all the time.
fn repetition(series: &[u64]) -> Option<usize> {
    let alike = |distance: usize| {
        let pairs = series.len() - distance;
        let same = (0..pairs).filter(|&at| series[at] == series[at + distance]).count();
        same as f64 >= pairs as f64 * REPEATS
    };
    let longest = series.len() / MIN_BOUNDARIES;
    (1..=longest).find(|&distance| alike(distance)).filter(|&distance| distance > 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_repeats_is_a_step_of_several_passes() {
        let requests: Vec<u64> = (0..160).map(|at| at % 16).collect();
        assert_eq!(repetition(&requests), Some(16));
        assert_eq!(repetition(&[7; 40]), None);
        let growing: Vec<u64> = (0..40).collect();
        assert_eq!(repetition(&growing), None);
    }
}
