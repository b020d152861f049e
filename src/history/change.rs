//! What single events do to the counters.

use super::{History, LifeId};
use crate::snapshot::Action;

/// Bytes by which one event changes the four counters of [`Counters`](super::Counters).
///
/// The counters in state `k` are those in state 0 with the changes of the events `0..k` added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Of the bytes asked for.
    pub requested: i64,
    /// Of the bytes of live blocks.
    pub allocated: i64,
    /// Of the bytes of live and pending blocks.
    pub active: i64,
    /// Of the bytes taken from the device.
    pub reserved: i64,
}

impl History<'_> {
    /// What `event` changes. Blocks whose end no event records end with the event in front of the state that lacks them.
    pub fn change(&self, event: u32) -> Change {
        let row = self.row(event);
        let events = &self.snapshot.events;
        let size = events.size[row] as i64;
        let mut change = Change {
            reserved: match events.action[row] {
                Action::SegmentAlloc | Action::SegmentMap => size,
                Action::SegmentFree | Action::SegmentUnmap => -size,
                _ => 0,
            },
            ..Change::default()
        };
        let own = self.lives.of_event(event);
        if let Some(life) = own {
            self.count(life, event + 1, &mut change);
        }
        let ends = self.lives.unrecorded_ends();
        let first = ends.partition_point(|(state, _)| *state <= event);
        for (_, life) in ends[first..].iter().take_while(|(state, _)| *state == event + 1) {
            if own != Some(*life) {
                self.count(*life, event + 1, &mut change);
            }
        }
        change
    }

    /// Adds what `state` changes about `life`.
    fn count(&self, life: LifeId, state: u32, change: &mut Change) {
        let (bytes, requested) = (self.lives.bytes(life) as i64, self.lives.requested(life) as i64);
        if self.lives.born_at(life) == state {
            change.requested += requested;
            change.allocated += bytes;
            change.active += bytes;
        }
        if self.lives.freed_at(life) == state {
            change.allocated -= bytes;
        }
        if self.lives.done_at(life) == state {
            change.requested -= requested;
            change.active -= bytes;
        }
    }
}
