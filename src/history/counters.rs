//! The four counters along the trace, and their peaks.

use serde::Serialize;

use super::{Health, Lives, Ranges};
use crate::snapshot::{Action, Device, Snapshot};
use crate::units::{bytes, count};

/// PyTorch's counters of the same names, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counters {
    /// Asked for by the program, of live and pending blocks.
    pub requested: u64,
    /// Occupied by live blocks.
    pub allocated: u64,
    /// Occupied by live and pending blocks.
    pub active: u64,
    /// Taken from the device.
    pub reserved: u64,
}

/// The highest value of one counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Peak {
    /// Bytes.
    pub bytes: u64,
    /// The event that led to it; `None` when it is the state before the first event.
    pub event: Option<u32>,
    /// Time of that event.
    pub time_us: Option<u64>,
    /// Whether it is what PyTorch counted in this window, to the byte.
    pub exact: bool,
}

impl Peak {
    /// The state that it was reached in.
    pub fn state(&self) -> u32 {
        self.event.map_or(0, |event| event + 1)
    }
}

/// Peaks of the four counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Peaks {
    /// Peak of [`Counters::requested`].
    pub requested: Peak,
    /// Peak of [`Counters::allocated`].
    pub allocated: Peak,
    /// Peak of [`Counters::active`].
    pub active: Peak,
    /// Peak of [`Counters::reserved`].
    pub reserved: Peak,
}

/// A counter carried along the trace; signed, because a damaged trace may pull it below zero.
#[derive(Clone, Copy, Default)]
struct Running {
    now: i64,
    highest: i64,
    event: Option<u32>,
}

impl Running {
    fn new(start: i64) -> Self {
        Self { now: start, highest: start, event: None }
    }

    /// Notes the value that `event` led to, when all that it changes has been added: a block may take the place of one
    /// that ends in the same state.
    fn settle(&mut self, event: u32) {
        if self.now > self.highest {
            (self.highest, self.event) = (self.now, Some(event));
        }
    }
}

/// Peaks along the trace. Contradictions between the counters are noted in `health`.
pub(super) fn peaks(
    snapshot: &Snapshot,
    device: &Device,
    lives: &Lives,
    ranges: &Ranges,
    health: &mut Health,
) -> Peaks {
    let start = at(lives, ranges, 0);
    let mut requested = Running::new(start.requested as i64);
    let mut allocated = Running::new(start.allocated as i64);
    let mut active = Running::new(start.active as i64);
    let mut reserved = Running::new(ranges.signed_reserved_at_start());
    let mut is_sound = true;
    let events = &snapshot.events;
    let mut unrecorded = lives.unrecorded_ends().iter().peekable();
    for event in 0..device.events.len() as u32 {
        let row = device.events.start + event as usize;
        let state = event + 1;
        match events.action[row] {
            Action::Alloc => {
                let Some(life) = lives.of_event(event) else { continue };
                let size = lives.bytes(life) as i64;
                requested.now += lives.requested(life) as i64;
                allocated.now += size;
                active.now += size;
            }
            Action::FreeRequested | Action::FreeCompleted | Action::Free => {
                let Some(life) = lives.of_event(event) else { continue };
                let size = lives.bytes(life) as i64;
                if lives.freed_at(life) == state {
                    allocated.now -= size;
                }
                if lives.done_at(life) == state {
                    active.now -= size;
                    requested.now -= lives.requested(life) as i64;
                }
            }
            Action::SegmentAlloc | Action::SegmentMap => reserved.now += events.size[row] as i64,
            Action::SegmentFree | Action::SegmentUnmap => reserved.now -= events.size[row] as i64,
            _ => {}
        }
        while let Some(&(at, life)) = unrecorded.next_if(|(at, _)| *at <= state) {
            // A free that the dump contradicts may be the event before the end, and has been counted above.
            if lives.of_event(event) == Some(life) && lives.alloc_event(life) != Some(event) {
                continue;
            }
            let size = lives.bytes(life) as i64;
            if lives.freed_at(life) == at {
                allocated.now -= size;
            }
            active.now -= size;
            requested.now -= lives.requested(life) as i64;
        }
        for running in [&mut requested, &mut allocated, &mut active, &mut reserved] {
            running.settle(event);
        }
        if is_sound && let Some(what) = contradiction(requested.now, allocated.now, active.now, reserved.now) {
            health.first_violation = Some((event, what));
            is_sound = false;
        }
    }
    let nothing_before = lives.ids().all(|life| lives.alloc_event(life).is_some()) && ranges.reserved_at_start() == 0;
    let counts_are_exact = health.counts_are_exact();
    let sizes_are_exact = counts_are_exact && nothing_before && health.odd_sizes == 0;
    let times = &events.time_us;
    let peak = |running: Running, exact: bool| Peak {
        bytes: running.highest.max(0) as u64,
        event: running.event,
        time_us: running.event.filter(|_| times.is_used()).map(|event| times.get(device.events.start + event as usize)),
        exact,
    };
    Peaks {
        requested: peak(requested, counts_are_exact),
        allocated: peak(allocated, sizes_are_exact),
        active: peak(active, sizes_are_exact),
        reserved: peak(reserved, counts_are_exact),
    }
}

/// Which of 0 ≤ allocated ≤ active ≤ reserved and requested ≤ active does not hold.
fn contradiction(requested: i64, allocated: i64, active: i64, reserved: i64) -> Option<String> {
    if requested < 0 || allocated < 0 || reserved < 0 {
        Some("more is freed than was ever there".to_owned())
    } else if allocated > active {
        Some("more is allocated than active".to_owned())
    } else if active > reserved {
        let (need, have) = (active as u64, reserved as u64);
        // Rounded figures may look equal.
        let exact = |n: u64| if bytes(need) == bytes(have) { format!("{} B", count(n)) } else { bytes(n) };
        Some(format!("live blocks need {} but only {} is mapped", exact(need), exact(have)))
    } else {
        None
    }
}

/// The counters in `state`, summed from the lives and ranges.
pub(super) fn at(lives: &Lives, ranges: &Ranges, state: u32) -> Counters {
    let mut counters = Counters { reserved: ranges.reserved_at(state), ..Counters::default() };
    for life in lives.ids().filter(|&life| lives.is_alive(life, state)) {
        let bytes = lives.bytes(life);
        counters.active += bytes;
        counters.requested += lives.requested(life);
        if state < lives.freed_at(life) {
            counters.allocated += bytes;
        }
    }
    counters
}
