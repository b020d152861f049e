//! The cause of one failure, by rules over its figures.
//!
//! The first rule that holds is the headline; all that hold are listed. The thresholds were chosen on the collected
//! messages and on snapshots of known causes, and each is a named constant in [`rules`].

pub mod rules;

use serde::Serialize;

use super::facts::Facts;
use super::message::Kind;

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
    /// Every verdict.
    pub const ALL: [Self; 12] = [
        Self::Limit,
        Self::NotShortage,
        Self::Counters,
        Self::Outside,
        Self::Giant,
        Self::Pending,
        Self::Pools,
        Self::Accumulation,
        Self::Fragmentation,
        Self::Capacity,
        Self::Undecidable,
        Self::NotOom,
    ];

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

    /// The verdict of that [`name`](Self::name).
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|verdict| verdict.name() == name)
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
        _ => rules::holding(facts),
    };
    if findings.is_empty() {
        findings.push(undecidable(facts));
    }
    Judgement { verdict: findings[0].verdict, wanted: wanted(facts, &findings), findings }
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
    // With the card's size, memory outside PyTorch would have come first.
    let may_be_outside = matches!(findings[0].verdict, Verdict::Fragmentation | Verdict::Capacity);
    if facts.from_snapshot && facts.card.is_none() && may_be_outside {
        wanted.push(
            "card size is not in the file: --capacity, --nvidia-smi or `oomscope fleet` tells if others used it"
                .to_owned(),
        );
    }
    if has(Verdict::Undecidable) {
        wanted.push(format!("the whole error text, or {snapshot}, gives the figures"));
    }
    wanted
}
