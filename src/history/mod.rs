//! What the trace says about the time before the dump: block lifetimes, mapped memory, counters and peaks.
//!
//! In: a snapshot and one of its devices. Out: a [`History`], from which the state after any number of events follows.
//!
//! A *state* is numbered by the events that led to it: state 0 is the start of the trace, state `k` follows event
//! `k − 1`, and state [`History::events`] is the dump. Final segments and trace together give the start: what the
//! trace does not explain was there before (snapshot format, "reconstructing the initial state").

mod change;
mod counters;
mod health;
mod infer;
mod lives;
mod malloc;
mod moment;
mod pools;
mod ranges;
mod scan;
mod sizes;
mod state;

pub use change::Change;
pub use counters::{Counters, Peak, Peaks};
pub use health::Health;
pub use lives::{Life, LifeId, Lives, NEVER};
pub use malloc::Malloc;
pub use moment::{At, Counter, Moment, MomentError};
pub use ranges::{Range, RangeId, Ranges, Remap, Span, Walk};
pub use state::{Hole, LiveBlock, State, StateRange};

use crate::allocator::AllocatorRules;
use crate::snapshot::{Action, Device, Snapshot};

/// An `oom` entry of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Oom {
    /// Event number.
    pub event: u32,
    /// The request, rounded, in bytes.
    pub rounded: u64,
    /// Bytes that were free on the whole device, after the allocator had given back what it could.
    pub device_free: u64,
    /// Microseconds since 1970; 0 when not recorded.
    pub time_us: u64,
}

/// The reconstructed past of one device.
pub struct History<'a> {
    /// The file.
    pub snapshot: &'a Snapshot,
    /// The device.
    pub device: &'a Device,
    /// The rules by which sizes were rounded.
    pub rules: AllocatorRules,
    /// Every block that was live at some time.
    pub lives: Lives<'a>,
    /// Mapped memory over time.
    pub ranges: Ranges<'a>,
    /// What the trace lacks.
    pub health: Health,
    /// Highest value of each counter; `None` where the trace tells nothing.
    pub peaks: Option<Peaks>,
    /// Recorded failures, oldest first.
    pub ooms: Vec<Oom>,
}

impl<'a> History<'a> {
    /// Reconstructs the past of `device` under `rules`.
    pub fn new(snapshot: &'a Snapshot, device: &'a Device, rules: &AllocatorRules) -> Self {
        let mut inferred = Health::default();
        let unknown = !snapshot.settings.recorded && *rules == snapshot.settings.rules && device.events.len() > 1;
        let rules = &match unknown {
            true => infer::rules(snapshot, device, rules, &mut inferred),
            false => rules.clone(),
        };
        let scanned = scan::scan(snapshot, device, rules);
        let mut health = scanned.health;
        health.inferred_setting = inferred.inferred_setting;
        health.recorded = device.events.len() > 1;
        health.cut = device.cut;
        let mut ranges = Ranges::new(snapshot, device, rules, &mut health);
        let mut lives = scanned.lives;
        sizes::fill(snapshot, device, rules, &mut lives, &mut ranges, &mut health, 0);
        let peaks = counters::peaks(snapshot, device, &lives, &ranges, &mut health);
        health.conclude(snapshot, device, &lives, &ranges);
        let peaks = (health.recorded && !health.cut).then_some(peaks);
        let ooms = ooms(snapshot, device);
        Self { snapshot, device, rules: rules.clone(), lives, ranges, health, peaks, ooms }
    }

    /// Number of events, and of the state at the dump.
    pub fn events(&self) -> u32 {
        self.device.events.len() as u32
    }

    /// The row of event `event` in [`Snapshot::events`].
    pub fn row(&self, event: u32) -> usize {
        self.device.events.start + event as usize
    }

    /// Time of `event` in microseconds since 1970; `None` when the file has no times.
    pub fn time_us(&self, event: u32) -> Option<u64> {
        let times = &self.snapshot.events.time_us;
        times.is_used().then(|| times.get(self.row(event)))
    }

    /// First and last time in the trace.
    pub fn time_span(&self) -> Option<(u64, u64)> {
        let last = self.events().checked_sub(1)?;
        Some((self.time_us(0)?, self.time_us(last)?))
    }

    /// The four counters in state `state`.
    pub fn counters(&self, state: u32) -> Counters {
        counters::at(&self.lives, &self.ranges, state)
    }
}

fn ooms(snapshot: &Snapshot, device: &Device) -> Vec<Oom> {
    let events = &snapshot.events;
    let actions = &events.action[device.events.clone()];
    let found = actions.iter().zip(0..).filter(|(action, _)| **action == Action::Oom);
    found
        .map(|(_, event)| {
            let row = device.events.start + event as usize;
            Oom { event, rounded: events.size[row], device_free: events.addr[row], time_us: events.time_us.get(row) }
        })
        .collect()
}
