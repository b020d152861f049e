//! How long pinning blocks live beside the blocks that came and went around them.

use super::pin::{Lifetimes, Pin, Unit};
use crate::history::{History, State};

/// A pin's blocks are long-lived when their median age is at least this many times the lifetime of their neighbours.
const MUCH_OLDER: u64 = 4;
/// And small when their median size is at most this part of that of their neighbours.
const MUCH_SMALLER: u64 = 2;
/// Units that one freed block counts as a neighbour in.
const MAX_UNITS: usize = 64;

/// Fills in the lifetimes of the first pins; `blocks_of` gives the rows of [`State::blocks`] of each.
pub(super) fn fill(history: &History, state: &State, at: u32, units: &[Unit], blocks_of: &[&[u32]], pins: &mut [Pin]) {
    if !history.health.recorded || blocks_of.is_empty() {
        return;
    }
    let wanted = |unit: &Unit| unit.pinned > 0 && unit.sites.iter().any(|&site| (site as usize) < blocks_of.len());
    let gone = neighbours(history, at, units, wanted);
    let mut of_pin: Vec<Vec<(u32, u64)>> = vec![Vec::new(); blocks_of.len()];
    for (unit, gone) in units.iter().zip(&gone).filter(|(_, gone)| !gone.is_empty()) {
        for &site in unit.sites.iter().filter(|&&site| (site as usize) < blocks_of.len()) {
            of_pin[site as usize].extend(gone);
        }
    }
    for ((pin, rows), mut gone) in pins.iter_mut().zip(blocks_of).zip(of_pin) {
        let blocks = || rows.iter().map(|&row| &state.blocks[row as usize]);
        let births = || blocks().filter_map(|block| history.lives.alloc_event(block.life));
        let mut ages: Vec<u32> = blocks().map(|block| at - history.lives.born_at(block.life).min(at)).collect();
        let mut sizes: Vec<u64> = blocks().map(|block| block.bytes).collect();
        let (Some(median_age), Some(median_bytes)) = (median(&mut ages), median(&mut sizes)) else { continue };
        let life = weighted_median(&mut gone, |block| block.0);
        let size = weighted_median(&mut gone, |block| block.1);
        let is_older = life.is_some_and(|life| u64::from(median_age) >= MUCH_OLDER * u64::from(life.max(1)));
        let is_smaller = size.is_some_and(|size| median_bytes <= size / MUCH_SMALLER);
        pin.lifetimes = Some(Lifetimes {
            first_event: births().min(),
            last_event: births().max(),
            before_recording: (rows.len() - births().count()) as u64,
            median_age,
            median_bytes,
            neighbours: gone.len() as u64,
            neighbours_median_life: life,
            neighbours_median_bytes: size,
            is_classic: is_older && is_smaller,
        });
    }
}

/// For each unit the lifetime and size of the blocks that lay in it and are freed in state `at`.
fn neighbours(history: &History, at: u32, units: &[Unit], wanted: impl Fn(&Unit) -> bool) -> Vec<Vec<(u32, u64)>> {
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
                gone[number].push((lives.done_at(life).saturating_sub(born), lives.bytes(life)));
            }
        }
    }
    gone
}

fn median<T: Copy + Ord>(values: &mut [T]) -> Option<T> {
    let middle = values.len().checked_sub(1)? / 2;
    Some(*values.select_nth_unstable(middle).1)
}

/// The median of a figure of `blocks` (lifetime, bytes), each counted by its bytes.
fn weighted_median<T: Copy + Ord>(blocks: &mut [(u32, u64)], figure: impl Fn(&(u32, u64)) -> T) -> Option<T> {
    blocks.sort_unstable_by_key(&figure);
    let total: u128 = blocks.iter().map(|block| u128::from(block.1)).sum();
    let mut sum = 0;
    let middle = blocks.iter().find(|block| {
        sum += u128::from(block.1);
        2 * sum >= total
    });
    middle.map(figure)
}
