//! The rules about memory inside PyTorch: where it is, and whether it would have been enough.

use super::{
    FULL_SHARE, GROWING_SHARE, HEADROOM_SHARE, IDLE_SHARE, STRANDED_SHARE, finding, missing, part_of, percent, share,
};
use crate::oom::facts::Facts;
use crate::oom::verdict::{Finding, Verdict};
use crate::units::bytes;

/// Whether `idle` bytes would have served, and are no trifle.
fn would_serve(facts: &Facts, idle: u64) -> bool {
    let (Some(needed), Some(capacity)) = (facts.needed(), facts.capacity()) else { return false };
    idle > 0 && idle >= needed && share(idle, capacity) >= IDLE_SHARE
}

pub(super) fn pending(facts: &Facts) -> Option<Finding> {
    let pending = facts.pending.filter(|&pending| would_serve(facts, pending))?;
    let evidence = format!("{} are freed, but wait for another stream before they can be used again.", bytes(pending));
    finding(Verdict::Pending, pending, evidence)
}

pub(super) fn pools(facts: &Facts) -> Option<Finding> {
    let idle = facts.pool_idle.filter(|&idle| would_serve(facts, idle))?;
    let evidence = format!(
        "{} idle inside private pools (CUDA graphs, MemPool), where nothing else can use them; {}.",
        bytes(idle),
        missing(facts)
    );
    finding(Verdict::Pools, idle, evidence)
}

pub(super) fn accumulation(facts: &Facts) -> Option<Finding> {
    let growth = facts.growth.as_ref()?;
    let (headroom, capacity, active) = (facts.headroom()?, facts.capacity()?, facts.active?);
    let is_full = headroom < i64::try_from(part_of(capacity, FULL_SHARE)).unwrap_or(i64::MAX);
    if !is_full || share(growth.bytes, active) < GROWING_SHARE || growth.bytes == 0 {
        return None;
    }
    let more = |n: usize| if n == 0 { String::new() } else { format!(" and {n} more") };
    let held = growth.held();
    let of_live = format!("{} of the {} live, {}", bytes(held), bytes(active), percent(held, active));
    let evidence = match (&growth.keeper, growth.sites.first()) {
        (Some(keeper), _) => {
            let more = more(keeper.others);
            format!("{of_live}, are held by what kept adding to it: {} ({}){more}.", keeper.line, keeper.kind)
        }
        (None, Some(site)) => {
            let more = more(growth.sites.len() - 1);
            format!("At least {of_live}, stayed in lines that kept adding to it: {site}{more}.")
        }
        (None, None) => format!("At least {of_live}, stayed in lines that kept adding to it."),
    };
    finding(Verdict::Accumulation, held, evidence)
}

pub(super) fn fragmentation(facts: &Facts) -> Option<Finding> {
    let (headroom, capacity) = (facts.headroom()?, facts.capacity()?);
    let (stranded, request) = (facts.stranded?, facts.request?);
    let headroom = u64::try_from(headroom).ok()?;
    let is_much = stranded >= request.max(part_of(capacity, STRANDED_SHARE));
    if !is_much && share(headroom, capacity) < HEADROOM_SHARE {
        return None;
    }
    let largest = match facts.largest_free {
        Some(largest) => format!(", {} the largest piece", bytes(largest)),
        None => String::new(),
    };
    let where_it_is = if facts.from_snapshot { "free next to live blocks" } else { "reserved but not allocated" };
    let evidence = format!(
        "{} are {where_it_is}{largest}. {} were asked for, the device had {}; in one piece all would have fit, with {} to spare.",
        bytes(stranded),
        bytes(request),
        bytes(facts.device_free.unwrap_or(0)),
        bytes(headroom)
    );
    finding(Verdict::Fragmentation, stranded, evidence)
}

pub(super) fn capacity(facts: &Facts, is_alone: bool) -> Option<Finding> {
    let (headroom, capacity, active, request) = (facts.headroom()?, facts.capacity()?, facts.active?, facts.request?);
    if headroom >= 0 && !is_alone {
        return None;
    }
    let rest = match u64::try_from(headroom) {
        Ok(left) => format!("in one piece it would fit, with {} to spare", bytes(left)),
        Err(_) => format!("{} too much, even in one piece", bytes(headroom.unsigned_abs())),
    };
    let evidence = format!(
        "{} are live and {} were asked for, of {} that this process could have: {rest}.",
        bytes(active),
        bytes(request),
        bytes(capacity)
    );
    finding(Verdict::Capacity, active, evidence)
}
