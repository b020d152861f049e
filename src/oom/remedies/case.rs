//! What the choice of remedies depends on.

use crate::oom::budget::Budget;
use crate::oom::facts::{Facts, Keeper};
use crate::oom::log::Programs;
use crate::oom::marks::Phase;
use crate::oom::message::{Kind, Message, ProcessUse};
use crate::oom::tag::Tag;
use crate::oom::verdict::{Judgement, Verdict};
use crate::units::bytes;

/// Which releases of PyTorch a text or file can be of; each bound `None` when open. `(major, minor)`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TorchRange {
    /// The oldest.
    pub at_least: Option<(u32, u32)>,
    /// The first that it cannot be.
    pub below: Option<(u32, u32)>,
}

impl TorchRange {
    /// What the wording of `message` tells.
    pub fn of_message(message: &Message) -> Self {
        let is_old = message.reserved.is_some();
        let is_cached =
            message.kind == Kind::Allocator && !is_old && message.allocated.is_some() && !message.is_new_wording;
        match message.kind {
            Kind::CudaRuntimeError => Self { at_least: None, below: Some((0, 5)) },
            Kind::AllocationWarning => Self { at_least: Some((2, 13)), below: None },
            Kind::PreemptiveRejection => Self { at_least: Some((2, 12)), below: None },
            Kind::Allocator if is_cached => Self { at_least: None, below: Some((1, 5)) },
            Kind::Allocator if is_old => Self { at_least: Some((1, 4)), below: Some((2, 1)) },
            Kind::Allocator if message.is_new_wording => Self { at_least: Some((2, 1)), below: None },
            _ => Self::default(),
        }
    }

    /// Whether it is surely older than `(major, minor)`.
    pub fn is_below(&self, version: (u32, u32)) -> bool {
        self.below.is_some_and(|below| below <= version)
    }
}

/// The allocator's settings, as far as they are known: `None` is not known.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Settings {
    /// `expandable_segments`.
    pub expandable: Option<bool>,
    /// Whether `max_split_size_mb` is set.
    pub max_split: Option<bool>,
    /// Whether `roundup_power2_divisions` is set.
    pub roundup: Option<bool>,
    /// Whether `garbage_collection_threshold` is set.
    pub gc_threshold: Option<bool>,
    /// Whether a memory fraction is set.
    pub memory_fraction: Option<bool>,
}

/// One failure with everything that decides what helps.
#[derive(Clone, Debug)]
pub struct Case<'a> {
    /// Its figures.
    pub facts: &'a Facts,
    /// Its verdict.
    pub judgement: &'a Judgement,
    /// The error text.
    pub message: Option<&'a Message>,
    /// The phase before it.
    pub phase: Option<Phase>,
    /// Whether the job had been ready.
    pub was_ready: bool,
    /// Programs that take part.
    pub programs: Programs,
    /// A server's budget.
    pub budget: Budget,
    /// Settings in force.
    pub settings: Settings,
    /// Releases.
    pub torch: TorchRange,
    /// Held on this card by other ranks that have no business there.
    pub sibling_contexts: u64,
    /// Processes that draw on this card.
    pub has_desktop: bool,
}

impl<'a> Case<'a> {
    /// A case of which only the figures are known.
    pub fn new(facts: &'a Facts, judgement: &'a Judgement) -> Self {
        Self {
            facts,
            judgement,
            message: None,
            phase: None,
            was_ready: false,
            programs: Programs::default(),
            budget: Budget::default(),
            settings: Settings::default(),
            torch: TorchRange::default(),
            sibling_contexts: 0,
            has_desktop: false,
        }
    }

    /// Whether `verdict` is the headline.
    pub fn is(&self, verdict: Verdict) -> bool {
        self.judgement.verdict == verdict
    }

    /// Whether live tensors need too much: by headline, or because a giant request or growth comes to the same.
    pub fn is_capacity(&self) -> bool {
        self.is(Verdict::Capacity)
    }

    /// Whether memory is in pieces and nothing before that explains the failure.
    pub fn is_fragmented(&self) -> bool {
        self.is(Verdict::Fragmentation)
    }

    /// Whether the message is a look-alike of that kind.
    pub fn is_kind(&self, kind: Kind) -> bool {
        self.facts.kind == Some(kind)
    }

    /// Whether the native allocator of CUDA or HIP is at work, which alone has the options advised here.
    pub fn is_native(&self) -> bool {
        let backend = self.message.and_then(|message| message.backend.as_deref());
        let other_kind = !matches!(
            self.facts.kind,
            None | Some(Kind::Allocator | Kind::PreemptiveRejection | Kind::AllocationWarning)
        );
        !other_kind && backend.is_none_or(|backend| matches!(backend, "CUDA" | "HIP"))
    }

    /// AMD.
    pub fn is_hip(&self) -> bool {
        self.message.is_some_and(|message| message.backend.as_deref() == Some("HIP"))
    }

    /// Expandable segments can be switched on: the release has them, they are off, and nothing that they must not be
    /// combined with is in use.
    pub fn may_expand(&self) -> bool {
        self.is_native()
            && !self.torch.is_below((2, 1))
            && self.settings.expandable != Some(true)
            && self.settings.max_split != Some(true)
            && !self.programs.sleep_mode
            && !self.judgement.has(Verdict::Counters)
    }

    /// An inference server or pipeline, and no training in the same log.
    pub fn is_inference(&self) -> bool {
        let programs = &self.programs;
        (programs.vllm || programs.sglang || programs.diffusers) && !programs.training && !programs.trainer
    }

    /// Training, or nothing says that it is not.
    pub fn may_train(&self) -> bool {
        let only_evaluates = self.programs.evaluation && !self.programs.training;
        !(self.is_inference() || self.is_loading() || only_evaluates)
    }

    /// Surely training.
    pub fn is_training(&self) -> bool {
        let programs = &self.programs;
        // Trainers evaluate as well; a backward pass does not.
        let trains = programs.training || ((programs.trainer || programs.lightning) && !programs.evaluation);
        !self.is_inference() && trains
    }

    /// Weights are being read, converted or placed: no batch and no prompt is involved yet.
    pub fn is_loading(&self) -> bool {
        matches!(self.phase, Some(Phase::Weights | Phase::Convert | Phase::Place))
    }

    /// In this phase.
    pub fn in_phase(&self, phase: &Phase) -> bool {
        self.phase.as_ref() == Some(phase)
    }

    /// A driver that moves memory to the host (Windows, WSL): it does not tell the process's use, and nothing says that
    /// a server moves its own pools.
    pub fn may_spill(&self) -> bool {
        let hides_use = match self.facts.process_use {
            ProcessUse::Unknown => true,
            ProcessUse::NotSaid => self.facts.device_free == Some(0),
            ProcessUse::Known(_) => false,
        };
        hides_use && !self.programs.sleep_mode && !self.programs.vllm && !self.programs.sglang
    }

    /// Contexts of other ranks are all that others hold here.
    pub fn only_siblings(&self) -> bool {
        self.sibling_contexts > 0 && self.facts.others.is_some_and(|others| others <= self.sibling_contexts)
    }

    /// Several ranks take part.
    pub fn is_distributed(&self) -> bool {
        self.message.is_some_and(|message| matches!(message.source, Some(Tag::Rank(_)))) || self.sibling_contexts > 0
    }

    /// The request is large enough that one tensor is worth looking at.
    pub fn has_large_request(&self) -> bool {
        let whole = self.facts.card.or(self.facts.capacity());
        self.facts.request.zip(whole).is_some_and(|(request, whole)| request as f64 >= 0.05 * whole as f64)
    }

    /// Why no setting can help, when that is so: the weights, or the weights and one sequence, need more than the card.
    pub fn beyond_settings(&self) -> Option<String> {
        if self.is_loading() && self.is_capacity() {
            return Some("it failed while the weights were loaded, before any input: no setting of batch, length or allocator makes them smaller; another precision, a larger card or a second one does".to_owned());
        }
        let needed = self.message?.kv_needed?;
        let (total, weights) = (self.budget.total.or(self.facts.card)?, self.budget.weights?);
        let all = weights + self.budget.activations.unwrap_or(0) + needed;
        (all > total).then(|| {
            format!(
                "the weights ({}) and one sequence of full length ({}) need more than the card's {}",
                bytes(weights),
                bytes(needed),
                bytes(total)
            )
        })
    }

    /// Who keeps what grows, where that is known.
    pub fn keeper(&self) -> Option<&Keeper> {
        self.facts.growth.as_ref()?.keeper.as_ref()
    }

    /// `text` with its placeholders filled.
    pub fn fill(&self, text: &str) -> String {
        let conf = if self.is_hip() { "PYTORCH_HIP_ALLOC_CONF" } else { "PYTORCH_CUDA_ALLOC_CONF" };
        let tokens = self.message.and_then(|message| message.kv_tokens_available);
        let utilization = match self.budget.utilization {
            Some(found) => format!("{found} (the log's value)"),
            None => "the value in the log".to_owned(),
        };
        let pins = match &self.facts.pin {
            Some((site, _)) => format!("what {site} keeps"),
            None => "what lives long".to_owned(),
        };
        let keeper = self.keeper().map_or_else(String::new, Keeper::advice);
        let not_in_pieces = match self.facts.headroom().and_then(|left| u64::try_from(left).ok()) {
            Some(left) if self.is_capacity() => {
                format!("even with all memory in one piece only {} would be left", bytes(left))
            }
            _ => "the memory is not in pieces of PyTorch's cache".to_owned(),
        };
        text.replace("{conf}", conf)
            .replace("{keeper}", &keeper)
            .replace("{not_in_pieces}", &not_in_pieces)
            .replace("{pins}", &pins)
            .replace("{kv_tokens}", &tokens.map_or_else(|| "a smaller length".to_owned(), |tokens| tokens.to_string()))
            .replace("{utilization}", &utilization)
    }
}
