//! Everything that is said about one failure: verdict, phase, account, remedies.

use serde::Serialize;

use super::facts::Facts;
use super::log::{Log, Programs};
use super::marks::Phase;
use super::message::Message;
use super::phases::Entry;
use super::reconcile::Reconciliation;
use super::remedies::{self, Advice, Case, Settings, TorchRange};
use super::verdict::{Judgement, Verdict, judge};

/// What there is to diagnose a failure with.
#[derive(Clone, Debug, Default)]
pub struct Inputs<'a> {
    /// Its figures.
    pub facts: Facts,
    /// The job's log.
    pub log: Option<&'a Log>,
    /// The error text, from that log or not.
    pub message: Option<&'a Message>,
    /// Programs that take part, besides those that the log names.
    pub programs: Programs,
    /// Settings in force.
    pub settings: Settings,
    /// Releases, where the text does not tell.
    pub torch: TorchRange,
    /// The account of the card.
    pub account: Option<Reconciliation>,
    /// Where text and snapshot contradict each other.
    pub contradictions: Vec<String>,
}

/// In which phase the failure came.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PhaseNote {
    /// The phase.
    pub phase: Phase,
    /// The program whose line tells it.
    pub program: String,
    /// That line's mark.
    pub mark: String,
    /// A number in it, as of a step.
    pub number: Option<u64>,
    /// Whether the job had been ready before.
    pub was_ready: bool,
}

/// What is said about one failure.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Diagnosis {
    /// The error text's figures.
    #[serde(flatten)]
    pub message: Option<Message>,
    /// Bytes of live tensors.
    pub live: Option<u64>,
    /// Bytes on the card outside PyTorch's allocator.
    pub outside_pytorch: Option<u64>,
    /// The headline.
    pub verdict: Verdict,
    /// The figures behind it, in sentences.
    pub evidence: Vec<String>,
    /// All rules that hold.
    pub findings: Vec<super::verdict::Finding>,
    /// What would decide what is open.
    pub wanted: Vec<String>,
    /// Where text and snapshot contradict each other.
    pub contradictions: Vec<String>,
    /// The phase.
    pub phase: Option<PhaseNote>,
    /// The account of the card.
    pub account: Option<Reconciliation>,
    /// Why no setting can help, when that is so.
    pub beyond_settings: Option<String>,
    /// What to change first.
    pub remedies: Vec<Advice>,
}

/// Diagnoses one failure.
pub fn diagnose(inputs: Inputs) -> Diagnosis {
    let mut facts = inputs.facts;
    if let Some(account) = &inputs.account {
        facts.card = facts.card.or(account.lines.first().and_then(|card| card.bytes));
        facts.others = facts.others.filter(|&others| others > 0).or(account.others);
    }
    let judgement = judge(&facts);
    let entry = inputs.log.zip(inputs.message).and_then(|(log, message)| log.chronology.before(message));
    let phase = entry.zip(inputs.log.zip(inputs.message)).map(|(entry, (log, message))| note(entry, log, message));
    let siblings = inputs.account.as_ref().map_or(0, |account| account.sibling_contexts);
    let mut settings = inputs.settings;
    let mut torch = inputs.torch;
    if let Some(message) = inputs.message {
        settings.expandable = settings.expandable.or(message.says_expandable.then_some(true));
        if torch == TorchRange::default() {
            torch = TorchRange::of_message(message);
        }
    }
    let case = Case {
        message: inputs.message,
        phase: phase.as_ref().map(|phase| phase.phase.clone()),
        was_ready: phase.as_ref().is_some_and(|phase| phase.was_ready),
        programs: inputs.programs.and(inputs.log.map_or_else(Default::default, |log| log.programs)),
        budget: inputs.log.map_or_else(Default::default, |log| log.budget.clone()),
        settings,
        torch,
        sibling_contexts: siblings,
        has_desktop: inputs.account.as_ref().is_some_and(|account| account.has_desktop),
        ..Case::new(&facts, &judgement)
    };
    let beyond_settings = case.beyond_settings();
    let remedies = remedies::choose(&case);
    let Judgement { verdict, findings, wanted } = judgement.clone();
    Diagnosis {
        live: facts.active.map(|active| active.saturating_sub(facts.pending.unwrap_or(0))),
        outside_pytorch: facts.outside(),
        verdict,
        evidence: judgement.evidence(),
        findings,
        wanted,
        contradictions: inputs.contradictions,
        phase,
        account: inputs.account,
        beyond_settings,
        remedies,
        message: inputs.message.cloned(),
    }
}

fn note(entry: &Entry, log: &Log, message: &Message) -> PhaseNote {
    PhaseNote {
        phase: entry.phase.clone(),
        program: entry.program.clone(),
        mark: entry.text.clone(),
        number: entry.number,
        was_ready: log.chronology.was_ready(message),
    }
}
