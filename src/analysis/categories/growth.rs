//! Memory that grows by concatenation: a larger block is allocated, what was in the old one copied, and the old one
//! freed. Caches of keys and values that use `torch.cat` leave this trace, whatever their names.

use super::origin::{Origin, Place};
use crate::history::History;
use crate::snapshot::StackId;

/// Blocks of one stack that must have been replaced by larger ones.
const FEWEST: u32 = 8;

/// Which stacks grow by concatenation, by [`StackId`]. Empty when there is a backward pass: what grows in training is
/// something else.
pub(super) fn grown_stacks(history: &History, origins: &[Origin]) -> Vec<bool> {
    let lives = &history.lives;
    let mut freed = vec![0u32; origins.len()];
    let mut replaced = vec![0u32; origins.len()];
    let mut last = None;
    for event in 0..history.events() {
        let Some(life) = lives.of_event(event) else { continue };
        let stack = lives.stack(life);
        let place = |stack: StackId| origins.get(stack.index()).map(|origin| origin.place);
        if lives.alloc_event(life) == Some(event) {
            if place(stack) == Some(Place::Backward) {
                return Vec::new();
            }
            last = Some(life);
        } else if lives.freed_at(life) == event + 1 && stack.has_frames() {
            freed[stack.index()] += 1;
            let is_larger = |new| lives.stack(new) == stack && lives.requested(new) > lives.requested(life);
            replaced[stack.index()] += u32::from(last.is_some_and(is_larger));
        }
    }
    let grows =
        |(&freed, &replaced): (&u32, &u32)| replaced >= FEWEST && 5 * u64::from(replaced) >= 4 * u64::from(freed);
    freed.iter().zip(&replaced).map(grows).collect()
}
