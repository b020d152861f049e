//! The verdict on a recorded failure: the figures of the snapshot, joined with those of the error text.

use super::failures::Failure;
use super::growth::{growing, growth};
use super::sites::Sites;
use super::totals::Totals;
use crate::history::History;
use crate::oom::{Facts, Growth, Message};
use crate::units::bytes;

/// Figures of a text and of a snapshot of the same failure may differ by one step of the segment sizes.
const STEP: u64 = 2 << 20;

/// The facts of `failure`. `card` is the card's size, when the caller knows it.
pub fn facts(history: &History, failure: &Failure, sites: &Sites, card: Option<u64>) -> Facts {
    let growth = growing(history, sites, failure.event + 1).map(|found| growth(&found));
    Facts {
        device_free: Some(failure.device_free),
        request: Some(failure.rounded),
        segment: Some(failure.segment_size),
        growth,
        ..of_totals(&failure.totals, card)
    }
}

/// The facts of a moment without failure: enough to see counters that exceed the card, no more.
pub fn of_totals(totals: &Totals, card: Option<u64>) -> Facts {
    Facts {
        card,
        reserved: Some(totals.reserved),
        active: Some(totals.active),
        pending: Some(totals.pending),
        pool_idle: totals.pool_idle,
        stranded: totals.stranded,
        largest_free: totals.largest_free,
        releasable: totals.releasable,
        from_snapshot: true,
        ..Facts::default()
    }
}

/// Whether `message` can be about `failure`: the same segment was asked for.
pub fn is_about(message: &Message, failure: &Failure, device: i64) -> bool {
    let same_device = message.device.is_none_or(|found| i64::from(found) == device);
    let same_size = message.tried.is_some_and(|tried| tried.abs_diff(failure.segment_size) <= STEP + message.tolerance);
    same_device && same_size
}

/// `facts` of a snapshot with what only the text tells: the card, a limit, other processes. Also answers with what
/// contradicts each other.
pub fn join(facts: Facts, message: &Message) -> (Facts, Vec<String>) {
    let text = Facts::of_message(message);
    let mut contradictions = Vec::new();
    let mut compare = |what: &str, ours: Option<u64>, theirs: Option<u64>| {
        if let (Some(ours), Some(theirs)) = (ours, theirs)
            && ours.abs_diff(theirs) > STEP + 2 * message.tolerance
        {
            contradictions.push(format!(
                "{what}: the text says {}, the snapshot {}: they are not of the same moment, or not of the same process",
                bytes(theirs),
                bytes(ours)
            ));
        }
    };
    compare("asked for", facts.segment, text.segment);
    compare("free on the device", facts.device_free, text.device_free);
    compare("reserved", facts.reserved, text.reserved);
    compare("idle in private pools", facts.pool_idle, text.pool_idle);
    let joined = Facts {
        kind: text.kind,
        card: facts.card.or(text.card),
        limit: text.limit,
        says_no_limit: text.says_no_limit,
        process_use: text.process_use,
        others: text.others,
        tolerance: text.tolerance,
        ..facts
    };
    (joined, contradictions)
}

/// Names of growing sites, for those who only want the growth.
pub fn growth_of(history: &History, sites: &Sites, state: u32) -> Option<Growth> {
    growing(history, sites, state).map(|found| growth(&found))
}
