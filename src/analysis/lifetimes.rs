//! How long pinning blocks live beside the blocks that came and went around them.

use super::pin::{Lifetimes, Pin, Unit};
use crate::history::{History, LifeId, Lives, State};

/// A pin's blocks are long-lived when their median age is at least this many times the lifetime of their neighbours.
const MUCH_OLDER: u64 = 4;
/// And small when their median size is at most this part of that of their neighbours.
const MUCH_SMALLER: u64 = 2;
/// Units that one freed block counts as a neighbour in.
const MAX_UNITS: usize = 64;

/// Fills in the lifetimes of the first pins; `blocks_of` gives the rows of [`State::blocks`] of each.
pub(super) fn fill(
    history: &History,
    state: &State,
    at: u32,
    units: &[Unit],
    blocks_of: &[Vec<u32>],
    pins: &mut [Pin],
) {
    if !history.health.recorded || blocks_of.is_empty() {
        return;
    }
    let wanted = |unit: &Unit| unit.pinned > 0 && unit.sites.iter().any(|&site| (site as usize) < blocks_of.len());
    let gone = neighbours(history, at, units, wanted);
    let gone: Vec<(&Unit, &[LifeId])> =
        units.iter().zip(&gone).filter(|(_, gone)| !gone.is_empty()).map(|(unit, gone)| (unit, &gone[..])).collect();
    let lives = &history.lives;
    for (number, (pin, rows)) in (0..).zip(pins.iter_mut().zip(blocks_of)) {
        let blocks = || rows.iter().map(|&row| &state.blocks[row as usize]);
        let births = || blocks().filter_map(|block| history.lives.alloc_event(block.life));
        let mut ages: Vec<u32> = blocks().map(|block| at - history.lives.born_at(block.life).min(at)).collect();
        let mut sizes: Vec<u64> = blocks().map(|block| block.bytes).collect();
        let (Some(median_age), Some(median_bytes)) = (median(&mut ages), median(&mut sizes)) else { continue };
        let here = gone.iter().filter(|(unit, _)| unit.sites.contains(&number));
        let gone = here.flat_map(|(_, gone)| *gone).map(|&life| (lived(lives, life), lives.bytes(life)));
        let life = weighted_median(gone.clone()).map(|life| life as u32);
        let size = weighted_median(gone.clone().map(|(_, bytes)| (bytes, bytes)));
        let is_older = life.is_some_and(|life| u64::from(median_age) >= MUCH_OLDER * u64::from(life.max(1)));
        let is_smaller = size.is_some_and(|size| median_bytes <= size / MUCH_SMALLER);
        pin.lifetimes = Some(Lifetimes {
            first_event: births().min(),
            last_event: births().max(),
            before_recording: (rows.len() - births().count()) as u64,
            median_age,
            median_bytes,
            neighbours: gone.count() as u64,
            neighbours_median_life: life,
            neighbours_median_bytes: size,
            is_classic: is_older && is_smaller,
        });
    }
}

/// For each unit the blocks that lay in it and are freed in state `at`.
fn neighbours(history: &History, at: u32, units: &[Unit], wanted: impl Fn(&Unit) -> bool) -> Vec<Vec<LifeId>> {
    let wanted: Vec<bool> = units.iter().map(wanted).collect();
    let mut gone = vec![Vec::new(); units.len()];
    let lives = &history.lives;
    for life in lives.ids().filter(|&life| lives.done_at(life) <= at) {
        let (addr, born) = (lives.addr(life), lives.born_at(life));
        let end = addr.saturating_add(lives.bytes(life));
        let first = units.partition_point(|unit| unit.addr.saturating_add(unit.bytes) <= addr);
        let here = units[first..].iter().zip(first..).take(MAX_UNITS).take_while(|(unit, _)| unit.addr < end);
        for (unit, number) in here {
            // What lay at the address before the unit was mapped was no neighbour.
            if wanted[number] && unit.born.is_none_or(|event| event < born) {
                gone[number].push(life);
            }
        }
    }
    gone
}

/// For how many events a block was there that is gone.
fn lived(lives: &Lives, life: LifeId) -> u64 {
    u64::from(lives.done_at(life).saturating_sub(lives.born_at(life)))
}

fn median<T: Copy + Ord>(values: &mut [T]) -> Option<T> {
    let middle = values.len().checked_sub(1)? / 2;
    Some(*values.select_nth_unstable(middle).1)
}

/// Bits of a figure that are looked at in one go.
const DIGIT: u32 = 12;

/// The median of figures, each counted by its weight. The figures may be as many as the trace has blocks, so that they are
/// gone through several times rather than kept and sorted: each time tells more of the median's bits, from the highest on.
fn weighted_median(figures: impl Iterator<Item = (u64, u64)> + Clone) -> Option<u64> {
    let highest = figures.clone().map(|(figure, _)| figure).max()?;
    let total: u128 = figures.clone().map(|(_, weight)| u128::from(weight)).sum();
    if total == 0 {
        return figures.map(|(figure, _)| figure).min();
    }
    let mut weights = vec![0u128; 1 << DIGIT];
    let (mut median, mut below) = (0, 0);
    for digit in (0..(u64::BITS - highest.leading_zeros()).div_ceil(DIGIT)).rev() {
        let shift = digit * DIGIT;
        weights.fill(0);
        let above = |figure: u64| figure.checked_shr(shift + DIGIT).unwrap_or(0);
        for (figure, weight) in figures.clone().filter(|(figure, _)| above(*figure) == above(median)) {
            weights[(figure >> shift) as usize % (1 << DIGIT)] += u128::from(weight);
        }
        let here = weights.iter().position(|weight| {
            below += weight;
            2 * below >= total
        })?;
        below -= weights[here];
        median |= (here as u64) << shift;
    }
    Some(median)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_weighted_median_is_that_of_the_sorted_figures(
            figures in prop::collection::vec((0u32..64, any::<u64>(), 1u64..1000), 0..60),
        ) {
            let mut figures: Vec<(u64, u64)> = figures.iter().map(|(shift, bits, weight)| (bits >> shift, *weight)).collect();
            let found = weighted_median(figures.iter().copied());
            figures.sort_unstable();
            let total: u64 = figures.iter().map(|(_, weight)| weight).sum();
            let mut sum = 0;
            let middle = figures.iter().find(|(_, weight)| {
                sum += weight;
                2 * sum >= total
            });
            prop_assert_eq!(found, middle.map(|(figure, _)| *figure));
        }
    }
}
