//! The rules, one function each, and their thresholds.

mod inside;

use super::{Finding, Verdict};
use crate::oom::facts::Facts;
use crate::oom::message::{Kind, ProcessUse};
use crate::units::bytes;

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// The device has this much more than was asked for: it was no shortage. Less may be lost to alignment, and to what
/// another process took between the failure and the count.
pub const SPARE: u64 = 128 * MIB;
/// Memory outside PyTorch is worth a headline from here on: a CUDA context with its libraries takes up to that.
pub const OUTSIDE: u64 = 3 * GIB / 2;
/// ... and from this share of the card on.
pub const OUTSIDE_SHARE: f64 = 0.10;
/// Other processes that the text names count from here on, whatever the share.
pub const NAMED_OTHERS: u64 = GIB;
/// Reserved-but-free memory of this share of the card, where it also covers the request, goes before memory outside.
pub const PIECES_FIRST_SHARE: f64 = 0.05;
/// A request above this share of the card is one giant tensor.
pub const GIANT_SHARE: f64 = 0.50;
/// No card has that much; a request above it needs no card to be called giant.
pub const LARGEST_CARD: u64 = 512 * GIB;
/// Waiting frees and idle pools count from this share of the capacity on.
pub const IDLE_SHARE: f64 = 0.025;
/// Growth matters when less than this share of the capacity is left.
pub const FULL_SHARE: f64 = 0.10;
/// ... and when the growing lines hold this share of the active bytes.
pub const GROWING_SHARE: f64 = 0.25;
/// Free pieces count from this share of the capacity on ...
pub const STRANDED_SHARE: f64 = 0.025;
/// ... or when all memory in one piece would have left this share.
pub const HEADROOM_SHARE: f64 = 0.05;
/// PyTorch's own count exceeds the driver's by more than rounding when it is above it by this.
pub const COUNTER_SLACK: u64 = 256 * MIB;

/// Every rule that holds, the headline first.
pub(super) fn holding(facts: &Facts) -> Vec<Finding> {
    let refused = limit(facts).or_else(|| not_shortage(facts));
    // What the device had, or was not asked for, was not missing.
    let pieces = if refused.is_none() { inside::fragmentation(facts) } else { None };
    let outside = if refused.is_none() { outside(facts) } else { None };
    let pieces_first = outside.is_some() && pieces.is_some() && pieces_cover_request(facts);
    let counters_exceed = counters_exceed(facts);
    let is_spoilt = counters_exceed.is_some() || facts.process_use == ProcessUse::Unknown;
    let mut found: Vec<Finding> = [refused, counters_exceed].into_iter().flatten().collect();
    if pieces_first && !is_spoilt {
        found.extend(pieces.clone());
    }
    found.extend(outside);
    found.extend(giant(facts));
    found.extend(use_unknown(facts));
    // Counters that do not describe the card say nothing about its pieces.
    if !is_spoilt {
        found.extend(inside::pending(facts));
        found.extend(inside::pools(facts));
        found.extend(inside::accumulation(facts));
        if !pieces_first {
            found.extend(pieces);
        }
        found.extend(inside::capacity(facts, found.is_empty()));
    }
    found
}

fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn percent(part: u64, whole: u64) -> String {
    format!("{:.0} %", 100.0 * share(part, whole))
}

fn part_of(whole: u64, share: f64) -> u64 {
    (whole as f64 * share) as u64
}

fn finding(verdict: Verdict, bytes: impl Into<Option<u64>>, evidence: String) -> Option<Finding> {
    Some(Finding { verdict, bytes: bytes.into(), evidence })
}

fn limit(facts: &Facts) -> Option<Finding> {
    let tolerance = 2 * facts.tolerance;
    match facts.kind {
        Some(Kind::PreemptiveRejection) => {
            let asked = facts.request.map_or("The request".to_owned(), bytes);
            let evidence = format!(
                "{asked} would exceed the limit that per_process_memory_fraction sets; the card was not asked."
            );
            return finding(Verdict::Limit, facts.request, evidence);
        }
        Some(Kind::Mps) => {
            let (limit, own, asked) = (facts.limit?, facts.reserved?, facts.request?);
            let others = facts.other_allocations.unwrap_or(0);
            if own.saturating_add(others).saturating_add(asked).saturating_add(2 * tolerance) < limit {
                return None;
            }
            let evidence = format!(
                "{} for PyTorch and {} for other users of Metal, with {} more, exceed the {} that are allowed.",
                bytes(own),
                bytes(others),
                bytes(asked),
                bytes(limit)
            );
            return finding(Verdict::Limit, limit, evidence);
        }
        _ => {}
    }
    let (segment, free) = (facts.segment?, facts.device_free);
    if free.is_some_and(|free| free < segment) {
        // The card could not have given it either: lifting the limit would change nothing.
        return None;
    }
    if let Some(limit) = facts.limit {
        let reserved = facts.reserved?;
        let would_exceed = reserved.saturating_add(segment).saturating_add(tolerance) > limit;
        let below_card = facts.card.is_none_or(|card| limit.saturating_add(tolerance) < card);
        if !would_exceed || !below_card || reserved > limit.saturating_add(tolerance) {
            return None;
        }
        let of_card = facts.card.map_or(String::new(), |card| format!(" of the card's {}", bytes(card)));
        let evidence = format!(
            "The program allows itself {}{of_card}, and has reserved {}; {} more would exceed that{}.",
            bytes(limit),
            bytes(reserved),
            bytes(segment),
            free.map_or(String::new(), |free| format!(", although {} are free", bytes(free)))
        );
        return finding(Verdict::Limit, limit, evidence);
    }
    // A snapshot does not carry the limit, but shows that the card was not the reason.
    if facts.from_snapshot && !facts.says_no_limit {
        let (reserved, free) = (facts.reserved?, free?);
        let evidence = format!(
            "The device had {} free for a {} segment, so a limit was hit (a memory fraction): it lies between the {} reserved and {}.",
            bytes(free),
            bytes(segment),
            bytes(reserved),
            bytes(reserved.saturating_add(segment))
        );
        return finding(Verdict::Limit, reserved, evidence);
    }
    None
}

fn not_shortage(facts: &Facts) -> Option<Finding> {
    if facts.kind == Some(Kind::SingleAllocationLimit) {
        let asked = facts.request.map_or("More than that".to_owned(), bytes);
        let evidence = format!(
            "{asked} were asked for in one block, and this device gives no block above 4 GiB, whatever is free."
        );
        return finding(Verdict::NotShortage, facts.request, evidence);
    }
    let (free, segment) = (facts.device_free?, facts.segment?);
    let spare = free.checked_sub(segment).filter(|&spare| spare >= SPARE)?;
    let evidence = format!("{} were asked for and {} were free: the device had enough.", bytes(segment), bytes(free));
    finding(Verdict::NotShortage, spare, evidence)
}

fn counters_exceed(facts: &Facts) -> Option<Finding> {
    let reserved = facts.reserved?;
    if let Some(card) = facts.card
        && reserved > card + 2 * facts.tolerance
    {
        let evidence = format!(
            "PyTorch counts {}, {} more than the card's {}: memory that was moved to the host is still counted (sleep mode, an offloading pool, or a driver that spills).",
            bytes(reserved),
            bytes(reserved - card),
            bytes(card)
        );
        return finding(Verdict::Counters, reserved - card, evidence);
    }
    let used = facts.process_use.bytes()?;
    if reserved <= used.saturating_add(COUNTER_SLACK + 2 * facts.tolerance) {
        return None;
    }
    let evidence = format!(
        "PyTorch counts {}, but the driver sees only {} of this process on the card.",
        bytes(reserved),
        bytes(used)
    );
    finding(Verdict::Counters, reserved - used, evidence)
}

fn use_unknown(facts: &Facts) -> Option<Finding> {
    (facts.process_use == ProcessUse::Unknown).then(|| Finding {
        verdict: Verdict::Counters,
        bytes: None,
        evidence: "The driver does not tell what this process uses (WSL or Windows): memory may lie on the host, so nothing is said about pieces.".to_owned(),
    })
}

fn pieces_cover_request(facts: &Facts) -> bool {
    let (Some(stranded), Some(request), Some(card)) = (facts.stranded, facts.request, facts.card) else { return false };
    stranded >= request && share(stranded, card) >= PIECES_FIRST_SHARE
}

fn outside(facts: &Facts) -> Option<Finding> {
    let (outside, needed, card) = (facts.outside()?, facts.needed()?, facts.card?);
    if outside < needed {
        return None;
    }
    let named = facts.others.unwrap_or(0);
    let is_much = outside > OUTSIDE.max(part_of(card, OUTSIDE_SHARE));
    if !is_much && (named < NAMED_OTHERS || named < needed) {
        return None;
    }
    let of_which = match named {
        0 => String::new(),
        named => format!(", {} of it in other processes that the text names", bytes(named)),
    };
    let evidence = format!(
        "{} of the card's {} are neither free nor reserved by PyTorch here{of_which}; {}.",
        bytes(outside),
        bytes(card),
        missing(facts)
    );
    finding(Verdict::Outside, outside, evidence)
}

/// What the device lacked. A few MiB more than a request may be free, and yet not be given.
fn missing(facts: &Facts) -> String {
    match (facts.needed(), facts.segment, facts.device_free) {
        (Some(0), Some(segment), Some(free)) => {
            format!("the device refused {} with {} free", bytes(segment), bytes(free))
        }
        (needed, ..) => format!("{} were missing", bytes(needed.unwrap_or(0))),
    }
}

fn giant(facts: &Facts) -> Option<Finding> {
    if facts.kind == Some(Kind::MoreThan1Eb) {
        return finding(
            Verdict::Giant,
            None,
            "More than 1 EB was asked for: a size is wrong, no card has that.".to_owned(),
        );
    }
    let request = facts.request?;
    // Without the card's size, what the process could have had is the best measure there is.
    let (whole, name) = match (facts.card, facts.capacity()) {
        (Some(card), _) => (card, "the card has"),
        (None, Some(capacity)) => (capacity, "the process could have had"),
        (None, None) => (0, ""),
    };
    if whole == 0 {
        let is_huge = request > LARGEST_CARD;
        let evidence =
            format!("{} were asked for at once: more than any card has, so a shape is wrong.", bytes(request));
        return is_huge.then_some(Finding { verdict: Verdict::Giant, bytes: Some(request), evidence });
    }
    if share(request, whole) <= GIANT_SHARE {
        return None;
    }
    let evidence = format!(
        "{} were asked for at once, {} of the {} that {name}.",
        bytes(request),
        percent(request, whole),
        bytes(whole)
    );
    finding(Verdict::Giant, request, evidence)
}
