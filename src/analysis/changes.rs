//! What becomes active and what no longer is, event by event.

use crate::history::{History, LifeId};

/// Calls `change` with the state, the life and whether it begins, for every life that begins or ends after state 0, in
/// the order of states. Ends that no event records are among them.
pub fn changes(history: &History, mut change: impl FnMut(u32, LifeId, bool)) {
    let lives = &history.lives;
    let mut unrecorded = lives.unrecorded_ends().iter().peekable();
    for event in 0..history.events() {
        let state = event + 1;
        if let Some(life) = lives.of_event(event) {
            if lives.alloc_event(life) == Some(event) {
                change(state, life, true);
            } else if lives.done_at(life) == state {
                change(state, life, false);
            }
        }
        while let Some(&(_, life)) = unrecorded.next_if(|(at, _)| *at <= state) {
            // A free that the dump contradicts may be the event before its end, and has ended it above.
            let is_told = lives.of_event(event) == Some(life) && lives.alloc_event(life) != Some(event);
            if !is_told {
                change(state, life, false);
            }
        }
    }
}
