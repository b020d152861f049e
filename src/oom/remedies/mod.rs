//! What to change first: a table of remedies, and the choice from it.
//!
//! A remedy is data: its cost, when it applies, what it must not be combined with, since which release it exists, and
//! where it is documented. Advice is given only with evidence: a remedy whose condition is not met by the figures at
//! hand does not appear, and none appears together with what it conflicts with.

mod allocator;
mod case;
mod code;
mod inference;
mod operations;
mod training;

use serde::Serialize;

use super::facts::Facts;
use super::message::Message;
use super::verdict::{Judgement, Verdict};

pub use case::{Case, Settings, TorchRange};

/// What a remedy costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Same result, same speed.
    Free,
    /// Same result, slower.
    Slower,
    /// Another result, or less service.
    Result,
    /// Does not help here, although it is often advised.
    No,
}

impl Class {
    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Free => "free",
            Self::Slower => "slower",
            Self::Result => "result",
            Self::No => "no",
        }
    }
}

/// A row of the table.
pub struct Remedy {
    /// A short name that never changes.
    pub id: &'static str,
    /// What it costs.
    pub class: Class,
    /// What to do. `{conf}` and the like are filled from the case.
    pub what: &'static str,
    /// Why it helps, or why not.
    pub why: &'static str,
    /// Whether it applies.
    pub applies: fn(&Case) -> bool,
    /// The bytes that it can win at most, as computed from the figures; `None` where nobody can compute them.
    pub bytes: fn(&Case) -> Option<u64>,
    /// What it must not be combined with.
    pub conflicts: &'static [&'static str],
    /// Oldest release that has it, as PyTorch's or the named program's version.
    pub since: &'static str,
    /// Official documentation.
    pub link: &'static str,
}

/// A remedy chosen for a case.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Advice {
    /// See [`Remedy::id`].
    pub id: &'static str,
    /// See [`Remedy::class`].
    pub class: Class,
    /// What to do.
    #[serde(rename = "do")]
    pub what: String,
    /// Why.
    pub why: String,
    /// See [`Remedy::bytes`].
    pub expected_bytes: Option<u64>,
    /// What a replay of the failed run under this setting came to, where there was one.
    pub replayed: Option<String>,
    /// See [`Remedy::conflicts`].
    pub conflicts: &'static [&'static str],
    /// See [`Remedy::since`].
    pub since: &'static str,
    /// See [`Remedy::link`].
    pub link: &'static str,
}

/// All rows, in the order of preference within a class.
pub fn table() -> impl Iterator<Item = &'static Remedy> {
    let rooms = [operations::ROWS, allocator::ROWS, training::ROWS, inference::ROWS, code::ROWS];
    rooms.into_iter().flatten()
}

/// The remedies for `case`, cheapest first, then what does not help.
pub fn choose(case: &Case) -> Vec<Advice> {
    let mut chosen: Vec<Advice> = table().filter(|row| (row.applies)(case)).map(|row| advice(row, case)).collect();
    chosen.sort_by_key(|advice| advice.class);
    chosen
}

fn advice(row: &Remedy, case: &Case) -> Advice {
    Advice {
        id: row.id,
        class: row.class,
        what: case.fill(row.what),
        why: case.fill(row.why),
        expected_bytes: (row.bytes)(case).filter(|&bytes| bytes > 0),
        replayed: None,
        conflicts: row.conflicts,
        since: row.since,
        link: row.link,
    }
}

/// The remedy of that `id`, whatever the figures say of it; `message` tells the backend that it is for.
pub fn by_id(id: &str, message: Option<&Message>) -> Option<Advice> {
    let facts = Facts::default();
    let judgement = Judgement { verdict: Verdict::Undecidable, findings: Vec::new(), wanted: Vec::new() };
    let case = Case { message, ..Case::new(&facts, &judgement) };
    table().find(|row| row.id == id).map(|row| advice(row, &case))
}

/// Nobody can compute what it wins.
fn unknown(_: &Case) -> Option<u64> {
    None
}

const CUDA_NOTES: &str = "https://docs.pytorch.org/docs/stable/notes/cuda.html#memory-management";
const HF_GPU: &str = "https://huggingface.co/docs/transformers/perf_train_gpu_one";
const VLLM_MEMORY: &str = "https://docs.vllm.ai/en/latest/configuration/conserving_memory.html";
const SGLANG_TUNING: &str = "https://docs.sglang.ai/advanced_features/hyperparameter_tuning.html";
const DIFFUSERS_MEMORY: &str = "https://huggingface.co/docs/diffusers/optimization/memory";
