//! The cause of one failure, by rules over its figures.
//!
//! The first rule that holds is the headline; all that hold are listed. The thresholds were chosen on the collected
//! messages and on snapshots of known causes, and each is a named constant here.

use serde::Serialize;

use super::facts::Facts;
use super::message::{Kind, ProcessUse};
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

/// What the cause is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// A limit set by the program or the system was hit, not the card's.
    Limit,
    /// The device had enough.
    NotShortage,
    /// The counters do not describe the card: they exceed it, or the process's use is not known.
    Counters,
    /// Memory outside PyTorch is missing.
    Outside,
    /// One request is out of proportion to the card.
    Giant,
    /// Freed memory waits for another stream.
    Pending,
    /// Memory idles in private pools.
    Pools,
    /// Some lines hold more and more.
    Accumulation,
    /// There was enough, in pieces.
    Fragmentation,
    /// Live tensors need what there is.
    Capacity,
    /// The figures are missing.
    Undecidable,
    /// Another kind of error.
    NotOom,
}

impl Verdict {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Limit => "limit",
            Self::NotShortage => "not_shortage",
            Self::Counters => "counters",
            Self::Outside => "outside",
            Self::Giant => "giant",
            Self::Pending => "pending",
            Self::Pools => "pools",
            Self::Accumulation => "accumulation",
            Self::Fragmentation => "fragmentation",
            Self::Capacity => "capacity",
            Self::Undecidable => "undecidable",
            Self::NotOom => "not_oom",
        }
    }

    /// Its name as a title.
    pub fn title(self) -> &'static str {
        match self {
            Self::Limit => "A limit",
            Self::NotShortage => "Not a shortage of memory",
            Self::Counters => "The counters do not describe the card",
            Self::Outside => "Memory outside PyTorch",
            Self::Giant => "One giant request",
            Self::Pending => "Freed memory that waits for another stream",
            Self::Pools => "Idle private pools",
            Self::Accumulation => "Accumulation",
            Self::Fragmentation => "Fragmentation",
            Self::Capacity => "Capacity",
            Self::Undecidable => "Cannot be decided",
            Self::NotOom => "Not PyTorch's allocator",
        }
    }
}

/// A rule that holds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// Which.
    pub verdict: Verdict,
    /// The bytes that it is about.
    pub bytes: Option<u64>,
    /// The figures, in a sentence.
    pub evidence: String,
}

/// The verdict on one failure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Judgement {
    /// The headline.
    pub verdict: Verdict,
    /// All rules that hold, the headline first.
    pub findings: Vec<Finding>,
    /// What would decide what these facts cannot, and how to get it.
    pub wanted: Vec<String>,
}

impl Judgement {
    /// Whether `verdict` is among the findings.
    pub fn has(&self, verdict: Verdict) -> bool {
        self.findings.iter().any(|finding| finding.verdict == verdict)
    }

    /// The evidence as sentences.
    pub fn evidence(&self) -> Vec<String> {
        self.findings.iter().map(|finding| finding.evidence.clone()).collect()
    }
}

/// Judges `facts`.
pub fn judge(facts: &Facts) -> Judgement {
    let mut findings: Vec<Finding> = match facts.kind {
        Some(kind) if kind.is_lookalike() => vec![lookalike(kind)],
        _ => rules(facts),
    };
    if findings.is_empty() {
        findings.push(undecidable(facts));
    }
    Judgement { verdict: findings[0].verdict, wanted: wanted(facts, &findings), findings }
}

fn rules(facts: &Facts) -> Vec<Finding> {
    let refused = limit(facts).or_else(|| not_shortage(facts));
    // What the device had, or was not asked for, was not missing.
    let pieces = if refused.is_none() { fragmentation(facts) } else { None };
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
        found.extend(pending(facts));
        found.extend(pools(facts));
        found.extend(accumulation(facts));
        if !pieces_first {
            found.extend(pieces);
        }
        found.extend(capacity(facts, found.is_empty()));
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
            if own.saturating_add(others).saturating_add(asked) + 2 * tolerance < limit {
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
        let would_exceed = reserved.saturating_add(segment) + tolerance > limit;
        let below_card = facts.card.is_none_or(|card| limit + tolerance < card);
        if !would_exceed || !below_card || reserved > limit + tolerance {
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

/// Whether `idle` bytes would have served, and are no trifle.
fn would_serve(facts: &Facts, idle: u64) -> bool {
    let (Some(needed), Some(capacity)) = (facts.needed(), facts.capacity()) else { return false };
    idle > 0 && idle >= needed && share(idle, capacity) >= IDLE_SHARE
}

fn pending(facts: &Facts) -> Option<Finding> {
    let pending = facts.pending.filter(|&pending| would_serve(facts, pending))?;
    let evidence = format!("{} are freed, but wait for another stream before they can be used again.", bytes(pending));
    finding(Verdict::Pending, pending, evidence)
}

fn pools(facts: &Facts) -> Option<Finding> {
    let idle = facts.pool_idle.filter(|&idle| would_serve(facts, idle))?;
    let evidence = format!(
        "{} idle inside private pools (CUDA graphs, MemPool), where nothing else can use them; {}.",
        bytes(idle),
        missing(facts)
    );
    finding(Verdict::Pools, idle, evidence)
}

fn accumulation(facts: &Facts) -> Option<Finding> {
    let growth = facts.growth.as_ref()?;
    let (headroom, capacity, active) = (facts.headroom()?, facts.capacity()?, facts.active?);
    let is_full = headroom < i64::try_from(part_of(capacity, FULL_SHARE)).unwrap_or(i64::MAX);
    if !is_full || share(growth.bytes, active) < GROWING_SHARE || growth.bytes == 0 {
        return None;
    }
    let who = growth.sites.first().map_or(String::new(), |site| match growth.sites.len() {
        1 => format!(": {site}"),
        n => format!(": {site} and {} more", n - 1),
    });
    let evidence = format!(
        "{} of the {} live, {}, are held by lines that kept adding to it{who}.",
        bytes(growth.bytes),
        bytes(active),
        percent(growth.bytes, active)
    );
    finding(Verdict::Accumulation, growth.bytes, evidence)
}

fn fragmentation(facts: &Facts) -> Option<Finding> {
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

fn capacity(facts: &Facts, is_alone: bool) -> Option<Finding> {
    let (headroom, capacity, active, request) = (facts.headroom()?, facts.capacity()?, facts.active?, facts.request?);
    if headroom >= 0 && !is_alone {
        return None;
    }
    let rest = match u64::try_from(headroom) {
        Ok(left) => format!("in one piece it would have left {}", bytes(left)),
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

fn undecidable(facts: &Facts) -> Finding {
    let mut missing = Vec::new();
    let mut note = |is_missing: bool, name| {
        if is_missing {
            missing.push(name);
        }
    };
    note(facts.request.is_none(), "what was asked for");
    note(facts.card.is_none(), "the card's size");
    note(facts.device_free.is_none(), "what was free");
    note(facts.active.is_none(), "what was allocated");
    note(facts.reserved.is_none(), "what was reserved");
    let evidence = format!("The text does not say {}.", missing.join(", "));
    Finding { verdict: Verdict::Undecidable, bytes: None, evidence }
}

fn lookalike(kind: Kind) -> Finding {
    Finding { verdict: Verdict::NotOom, bytes: None, evidence: format!("This comes from {}.", kind.describe()) }
}

/// What these facts leave open.
fn wanted(facts: &Facts, findings: &[Finding]) -> Vec<String> {
    let mut wanted = Vec::new();
    let has = |verdict| findings.iter().any(|finding| finding.verdict == verdict);
    let snapshot = "a snapshot taken at the failure (see `oomscope howto`)";
    if !facts.from_snapshot {
        if has(Verdict::Fragmentation) {
            wanted.push(format!(
                "{snapshot} tells pieces from frees that wait for another stream, and which lines pin them"
            ));
        } else if has(Verdict::Capacity) {
            wanted.push(format!("{snapshot} tells which lines hold the memory, and whether one grows with every step"));
        }
    }
    if has(Verdict::Outside) && facts.others.is_none_or(|others| others == 0) {
        wanted.push("`nvidia-smi` at that time tells which processes hold it: give it with --nvidia-smi".to_owned());
    }
    if has(Verdict::Undecidable) {
        wanted.push(format!("the whole error text, or {snapshot}, gives the figures"));
    }
    wanted
}
