//! What memory is for: parameters, gradients, optimiser state, activations and so on.
//!
//! A snapshot does not say it. It follows from the frames of the allocation (who calls `torch/optim`, a module's
//! `forward`, the engine of the backward pass), from when the block was freed (within the pass that made it, or after),
//! from sizes (a gradient is as large as its parameter) and from the pool. Each block comes with the reason; where no
//! rule fits it is [`Category::Unknown`], with the reason too. Rules of the user come first.

mod growth;
mod origin;
mod rules;
mod spans;

use std::collections::BTreeMap;

use serde::Serialize;

pub use rules::{Rules, RulesError};

use super::ranking::{Groups, LifeGroups, Question, Ranking, Reason, rank};
use crate::history::{History, LifeId};
use crate::snapshot::Snapshot;
use growth::grown_stacks;
use origin::{Origin, origins};
use spans::Spans;

/// What a block is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Category {
    /// A model's parameters and buffers.
    Parameters,
    /// Gradients of parameters.
    Gradients,
    /// What an optimiser keeps from step to step.
    OptimizerState,
    /// Made in a forward pass and held for the backward pass.
    Activations,
    /// Made in a backward pass and freed in it.
    AutogradTemporaries,
    /// Freed within the construction, the forward pass or the optimiser's step that made it.
    OtherTemporaries,
    /// Keys and values of earlier tokens.
    KvCache,
    /// Buffers of collectives.
    Communication,
    /// Scratch memory of cuBLAS and cuDNN.
    Workspaces,
    /// In the private pool of a CUDA graph or a `MemPool`.
    GraphPools,
    /// Batches copied to the device.
    DataCopies,
    /// No rule fits.
    Unknown,
}

impl Category {
    /// Every category, in the order of declaration.
    pub const ALL: [Self; 12] = [
        Self::Parameters,
        Self::Gradients,
        Self::OptimizerState,
        Self::Activations,
        Self::AutogradTemporaries,
        Self::OtherTemporaries,
        Self::KvCache,
        Self::Communication,
        Self::Workspaces,
        Self::GraphPools,
        Self::DataCopies,
        Self::Unknown,
    ];

    /// The name in tables and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Parameters => "parameters",
            Self::Gradients => "gradients",
            Self::OptimizerState => "optimizer state",
            Self::Activations => "activations",
            Self::AutogradTemporaries => "autograd temporaries",
            Self::OtherTemporaries => "other temporaries",
            Self::KvCache => "KV cache",
            Self::Communication => "communication buffers",
            Self::Workspaces => "cuBLAS and cuDNN workspaces",
            Self::GraphPools => "CUDA-graph pools",
            Self::DataCopies => "dataloader copies",
            Self::Unknown => "unknown",
        }
    }
}

/// What the stacks of a snapshot tell; the same for all its devices.
pub struct Classifier {
    /// By stack.
    origins: Vec<Origin>,
    /// The user's label of each stack; empty without rules.
    labels: Vec<Option<u16>>,
    rules: Rules,
    has_stacks: bool,
}

/// The category of every block of one device, as one small number each.
///
/// ```
/// use oomscope::analysis::categories::{Category, Classifier, Rules};
/// use oomscope::history::{At, History};
/// use oomscope::snapshot::{LoadOptions, Source, load};
///
/// let snapshot = load(&Source::Path("testdata/rig/2.6.0/oom_train.pickle".into()), &LoadOptions::default())?;
/// let history = History::new(&snapshot, &snapshot.devices[0], &snapshot.settings.rules);
/// let categories = Classifier::new(&snapshot, Rules::default()).classify(&history);
/// let state = history.state(history.moment(At::Default)?.state);
/// let held_for_backward: u64 = state
///     .blocks
///     .iter()
///     .filter(|block| categories.of_life(block.life) == Category::Activations as usize)
///     .map(|block| block.bytes)
///     .sum();
/// assert!(held_for_backward > 1 << 30);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Categories {
    /// Number in `verdicts` of each life.
    of_life: Vec<u16>,
    verdicts: Vec<Verdict>,
    names: Vec<String>,
    /// That categories cannot be told, and why.
    pub note: Option<String>,
}

/// A category with the reason.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Verdict {
    /// Number in [`Categories::names`].
    category: u16,
    why: String,
}

impl Classifier {
    /// Looks at every stack of `snapshot`; `rules` come before the built-in ones.
    pub fn new(snapshot: &Snapshot, rules: Rules) -> Self {
        let origins = origins(snapshot);
        let labels = rules.labels(snapshot);
        // The first stack is the empty one.
        let has_stacks = snapshot.stacks.len() > 1;
        Self { origins, labels, rules, has_stacks }
    }

    /// The category of each block of `history`'s device.
    pub fn classify(&self, history: &History) -> Categories {
        let spans = Spans { history, origins: &self.origins, grown: grown_stacks(history, &self.origins) };
        let found = spans.categories();
        let pools = history.pools_of_lives();
        let mut names: Vec<String> = Category::ALL.iter().map(|category| category.name().to_owned()).collect();
        names.extend(self.rules.names().map(str::to_owned));
        let mut numbers: BTreeMap<(u16, &str), u16> = BTreeMap::new();
        let mut verdicts = Vec::new();
        let of_life = history.lives.ids().map(|life| {
            let stack = history.lives.stack(life).index();
            let label = self.labels.get(stack).copied().flatten();
            let (category, why) = match label {
                Some(rule) => self.rules.verdict(rule),
                None => {
                    let (category, why) = found[life as usize].in_pool(pools[life as usize]);
                    (category as u16, why)
                }
            };
            *numbers.entry((category, why)).or_insert_with(|| {
                verdicts.push(Verdict { category, why: why.to_owned() });
                verdicts.len() as u16 - 1
            })
        });
        let of_life = of_life.collect();
        let note = (!self.has_stacks).then(|| {
            "the file has no stacks, so what memory is for cannot be told: record with context=\"all\" and \
             stacks=\"python\""
                .to_owned()
        });
        Categories { of_life, verdicts, names, note }
    }
}

impl Categories {
    /// Number of the category of `life`: an index of [`Categories::names`], and for built-in ones that of
    /// [`Category::ALL`].
    pub fn of_life(&self, life: LifeId) -> usize {
        self.verdict(life).category.into()
    }

    /// Names of the built-in categories, then those of the user's rules.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Why `life` is in its category.
    pub fn why(&self, life: LifeId) -> &str {
        &self.verdict(life).why
    }

    fn verdict(&self, life: LifeId) -> &Verdict {
        &self.verdicts[self.of_life[life as usize] as usize]
    }

    /// As groups of a ranking.
    pub fn groups(&self) -> LifeGroups {
        let of_life = self.of_life.iter().map(|&verdict| self.verdicts[verdict as usize].category.into()).collect();
        LifeGroups { by: "category", of_life, names: self.names.clone(), note: self.note.clone() }
    }

    /// As groups of a ranking, one for each reason.
    fn reasons(&self) -> LifeGroups {
        let of_life = self.of_life.iter().map(|&verdict| verdict.into()).collect();
        let names = (0..self.verdicts.len()).map(|number| number.to_string()).collect();
        LifeGroups { by: "reason", of_life, names, note: None }
    }
}

/// The ranking of categories for `question`; `why` adds to each row the reasons, which sum to it.
pub fn ranking(history: &History, categories: &Categories, question: &Question, why: bool) -> Ranking {
    let mut ranking = rank(history, &Groups::Lives(categories.groups()), question);
    if !why {
        return ranking;
    }
    for reason in rank(history, &Groups::Lives(categories.reasons()), question).rows {
        let verdict = reason.site.parse().ok().and_then(|number: usize| categories.verdicts.get(number));
        let Some(verdict) = verdict else { continue };
        let name = &categories.names[verdict.category as usize];
        if let Some(row) = ranking.rows.iter_mut().find(|row| row.site == *name) {
            row.why.push(Reason { reason: verdict.why.clone(), value: reason.value, blocks: reason.blocks });
        }
    }
    ranking
}
