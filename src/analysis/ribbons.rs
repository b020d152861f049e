//! The blocks that weigh most in the picture of memory over time, each with its life and its stack.

use std::cmp::Reverse;

use serde::Serialize;

use super::instants::Instants;
use super::sites::Sites;
use crate::history::{History, LifeId};
use crate::snapshot::StackId;

/// The largest ribbons of one device's timeline, and what lies below them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ribbons {
    /// Device ordinal.
    pub device: i64,
    /// Oldest first, then by address: the order in which they are stacked.
    pub ribbons: Vec<Ribbon>,
    /// Number of blocks that have no ribbon of their own.
    pub others: u64,
    /// Their live and pending bytes at each instant.
    pub rest: Vec<u64>,
}

/// One block over its life. Sizes in bytes, states as in [`crate::history`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ribbon {
    /// Name of its site.
    pub site: String,
    /// Start address, as hexadecimal text.
    #[serde(serialize_with = "super::fragmentation::hex")]
    pub address: u64,
    /// Bytes occupied.
    pub bytes: u64,
    /// Bytes asked for.
    pub requested: u64,
    /// First state in which it exists; `None` when it was there before the recording.
    pub born_at: Option<u32>,
    /// First state in which the program has freed it; `None` when it never did.
    pub freed_at: Option<u32>,
    /// First state in which it is back in its pool; `None` when it was live or pending to the end.
    pub done_at: Option<u32>,
    /// Microseconds from its allocation to its free, where both are recorded with times.
    pub lasted_us: Option<u64>,
    /// The stack that allocated it.
    #[serde(skip)]
    pub stack: StackId,
}

/// The `limit` blocks of `history`'s device with most bytes × events. `instants` say where the rest is summed.
pub fn ribbons(history: &History, sites: &Sites, instants: &Instants, limit: usize) -> Ribbons {
    let lives = &history.lives;
    let end = history.events();
    let weight = |life: &LifeId| {
        let (from, to) = (lives.born_at(*life), lives.done_at(*life).min(end + 1));
        (Reverse(u128::from(lives.bytes(*life)) * u128::from(to.saturating_sub(from))), *life)
    };
    let mut chosen: Vec<LifeId> = lives.ids().collect();
    if chosen.len() > limit {
        chosen.select_nth_unstable_by_key(limit, weight);
        chosen.truncate(limit);
    }
    chosen.sort_by_key(|&life| (lives.born_at(life), lives.addr(life), life));
    let mut rest: Vec<u64> = instants.instants.iter().map(|instant| instant.total.bytes).collect();
    for &life in &chosen {
        let from = instants.instants.partition_point(|instant| instant.state < lives.born_at(life));
        let to = instants.instants.partition_point(|instant| instant.state < lives.done_at(life));
        for bytes in &mut rest[from.min(to)..to] {
            *bytes = bytes.saturating_sub(lives.bytes(life));
        }
    }
    Ribbons {
        device: history.device.ordinal,
        others: (lives.len() - chosen.len()) as u64,
        ribbons: chosen.into_iter().map(|life| ribbon(history, sites, life)).collect(),
        rest,
    }
}

fn ribbon(history: &History, sites: &Sites, life: LifeId) -> Ribbon {
    let block = history.lives.get(life);
    let within = |state: u32| (state <= history.events()).then_some(state);
    let freed_at = within(block.freed_at);
    let time = |event: Option<u32>| history.time_us(event?);
    let (begin, end) = (time(block.alloc_event), time(freed_at.and_then(|state| state.checked_sub(1))));
    Ribbon {
        site: sites.name(sites.of_life(history, life)).into_owned(),
        address: block.addr,
        bytes: block.bytes,
        requested: block.requested,
        born_at: block.alloc_event.map(|event| event + 1),
        freed_at,
        done_at: within(block.done_at),
        lasted_us: begin.zip(end).and_then(|(begin, end)| end.checked_sub(begin)),
        stack: block.stack,
    }
}
