//! The verdict on a recorded failure: the figures of the snapshot, joined with those of the error text.

use super::failures::Failure;
use super::growth::{growing, growth};
use super::leaks::{LeakSteps, Leaks};
use super::pin::Pin;
use super::pinning::Pinning;
use super::segments::Segments;
use super::sites::Sites;
use super::totals::Totals;
use crate::history::History;
use crate::oom::log::Programs;
use crate::oom::reconcile::Reconciliation;
use crate::oom::remedies::{Settings, TorchRange};
use crate::oom::{Diagnosis, Facts, Inputs, Log, Message, Verdict, diagnose};
use crate::snapshot::Snapshot;
use crate::text::base_name;
use crate::units::{bytes, count};

/// Figures of a text and of a snapshot of the same failure may differ by one step of the segment sizes.
const STEP: u64 = 2 << 20;

/// Blocks live long that live through so many steps.
const STEPS: u64 = 2;
/// A site's part in pinning counts from this part of it on ...
const PINNED_SHARE: u64 = 10;
/// ... and its blocks came among others if one of them was allocated after this part of the trace.
const FIRST_PART: u32 = 10;

/// The facts of `failure`. `card` is the card's size, when the caller knows it.
pub fn facts(history: &History, failure: &Failure, sites: &Sites, card: Option<u64>) -> Facts {
    facts_with(history, failure, sites, card, None)
}

/// [`facts`], with what grows from step to step.
fn facts_with(history: &History, failure: &Failure, sites: &Sites, card: Option<u64>, leaks: Option<&Leaks>) -> Facts {
    let same_moment = |steps: &LeakSteps| steps.at.state == failure.event + 1;
    let leaks = leaks.filter(|leaks| leaks.steps.as_ref().is_some_and(same_moment));
    let growth = growing(history, sites, failure.event + 1).map(|found| growth(&found, leaks));
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

/// What lies beside a snapshot.
#[derive(Default)]
pub struct Evidence<'a> {
    /// The job's log.
    pub log: Option<&'a Log>,
    /// Makes the account of a card from a message, the reserved and the free bytes, and the device.
    #[allow(clippy::type_complexity)]
    pub account: Option<&'a (dyn Fn(Option<&Message>, Option<u64>, Option<u64>, u32) -> Option<Reconciliation> + Sync)>,
}

/// The diagnosis of `failure`, or of a moment without one, with the segments at it and the evidence beside it.
///
/// `None` when nothing failed and nothing contradicts the card: there is nothing to judge.
pub fn diagnosis(
    history: &History,
    sites: &Sites,
    failure: Option<&Failure>,
    segments: &Segments,
    leaks: &Leaks,
    card: Option<u64>,
    evidence: &Evidence,
) -> Option<Diagnosis> {
    let device = history.device.ordinal;
    let mut messages = evidence.log.iter().flat_map(|log| &log.messages);
    let message = match failure {
        Some(failure) => messages.find(|message| is_about(message, failure, device)),
        // The job died, but this file has no failure of it: the text decides alone.
        None => messages.find(|message| message.device.is_some_and(|found| i64::from(found) == device)),
    };
    let (mut facts, contradictions) = match (failure, message) {
        (Some(failure), Some(message)) => join(facts_with(history, failure, sites, card, Some(leaks)), message),
        (Some(failure), None) => {
            let note = evidence.log.and_then(|log| unrelated(log, failure, device));
            (facts_with(history, failure, sites, card, Some(leaks)), note.into_iter().collect())
        }
        (None, Some(message)) => {
            let note = "the snapshot has no failure at this moment: the verdict is that of the text".to_owned();
            (evidence.log.map_or_else(|| Facts::of_message(message), |log| log.facts(message)), vec![note])
        }
        (None, None) => (of_totals(&segments.fragmentation.totals, card), Vec::new()),
    };
    let pin = failure.and_then(|failure| long_lived(&segments.pinning, leaks, failure.event + 1));
    facts.pin = pin.map(|pin| (base_name(&pin.site).to_owned(), pin.pinned));
    let (reserved, free) = match failure {
        Some(failure) => (Some(failure.totals.reserved), Some(failure.device_free)),
        None => (None, None),
    };
    let account = evidence.account.and_then(|account| account(message, reserved, free, u32::try_from(device).ok()?));
    let found = diagnose(Inputs {
        facts,
        log: evidence.log,
        message,
        programs: programs(history.snapshot),
        settings: settings(history),
        torch: torch(history),
        account,
        contradictions,
    });
    let says_nothing = failure.is_none() && message.is_none() && found.verdict == Verdict::Undecidable;
    (!says_nothing).then_some(found)
}

/// Says that no message of `log` is about `failure`, if there are messages.
fn unrelated(log: &Log, failure: &Failure, device: i64) -> Option<String> {
    let is_here = |message: &&Message| message.device.is_none_or(|found| i64::from(found) == device);
    let nearest = log.messages.iter().find(|message| is_here(message) && message.tried.is_some());
    let nearest = nearest.or(log.messages.iter().find(is_here)).or(log.messages.first())?;
    let differs = match (nearest.device, nearest.tried) {
        (Some(other), _) if !is_here(&nearest) => format!("is of device {other}, not {device}"),
        (_, Some(tried)) => {
            format!("asks for {}, this failure for {} of the device", bytes(tried), bytes(failure.segment_size))
        }
        _ => format!("is of {}", nearest.kind.describe()),
    };
    let which = match log.messages.len() {
        1 => format!("the log's message (line {}) is of another failure: it", count(nearest.line)),
        n => format!("none of the log's {n} messages is of this failure: that of line {}", count(nearest.line)),
    };
    Some(format!("{which} {differs}; no figure of the log is used"))
}

/// The settings in force, as far as the file tells.
fn settings(history: &History) -> Settings {
    let recorded = &history.snapshot.settings;
    let is_expandable = history.snapshot.segments_of(history.device).iter().any(|segment| segment.expandable);
    if !recorded.recorded {
        return Settings { expandable: is_expandable.then_some(true), ..Settings::default() };
    }
    let rules = &recorded.rules;
    Settings {
        expandable: Some(rules.expandable || is_expandable),
        max_split: Some(rules.max_split_size.is_some()),
        roundup: Some(rules.roundup_power2_divisions.iter().any(|&divisions| divisions > 1)),
        gc_threshold: Some(rules.gc_threshold > 0.0),
        // set_per_process_memory_fraction leaves no trace in the file.
        memory_fraction: rules.memory_fraction.map(|_| true),
    }
}

fn torch(history: &History) -> TorchRange {
    let format = &history.snapshot.format;
    let pair = |version: crate::allocator::TorchVersion| (u32::from(version.major), u32::from(version.minor));
    TorchRange { at_least: format.torch_at_least.map(pair), below: format.torch_below.map(pair) }
}

/// Programs that the frames of a snapshot belong to.
fn programs(snapshot: &Snapshot) -> Programs {
    let mut programs = Programs::default();
    for frame in &snapshot.frames {
        let (name, file) = (snapshot.text(frame.name), snapshot.text(frame.filename));
        programs.vllm |= file.contains("/vllm/");
        programs.sglang |= file.contains("/sglang/");
        programs.trainer |= file.ends_with("transformers/trainer.py");
        programs.diffusers |= file.contains("/diffusers/");
        programs.lightning |= file.contains("/lightning/pytorch/") || file.contains("/pytorch_lightning/");
        programs.deepspeed |= file.contains("/deepspeed/");
        programs.training |= name.contains("torch::autograd::Engine") || file.contains("/torch/optim/");
        programs.evaluation |= matches!(name, "evaluation_loop" | "prediction_step");
    }
    programs
}

/// The site that pins most among those whose blocks live on while others come and go: for several steps, or where no
/// steps are known for half of the trace up to `state`. What was there before all else cannot be allocated earlier.
fn long_lived<'p>(pinning: &'p Pinning, leaks: &Leaks, state: u32) -> Option<&'p Pin> {
    let steps = leaks.steps.as_ref().filter(|steps| steps.source.is_program()).map(|steps| steps.count as u64);
    let long = steps.map_or(u64::from(state / 2), |steps| STEPS * u64::from(state) / steps.max(1));
    let is_long_lived = |pin: &&Pin| {
        pin.pinned >= pinning.pinned / PINNED_SHARE
            && pin.lifetimes.as_ref().is_some_and(|lifetimes| {
                let came_later = lifetimes.last_event.is_some_and(|event| event >= state / FIRST_PART);
                u64::from(lifetimes.median_age) >= long && came_later
            })
    };
    pinning.pins.iter().find(is_long_lived)
}
