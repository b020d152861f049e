//! Error texts, job logs and `nvidia-smi` output: what they say, what the cause is, and what to change first.
//!
//! Knows nothing of snapshots; [`analysis::verdict`](crate::analysis) joins both.

pub mod budget;
mod clauses;
mod clues;
pub mod diagnosis;
pub mod estimate;
pub mod facts;
pub mod figure;
pub mod howto;
pub mod log;
pub mod lookalike;
pub mod marks;
pub mod message;
pub mod phases;
pub mod reconcile;
pub mod remedies;
mod scan;
pub mod smi;
mod squash;
pub mod tag;
mod time;
pub mod verdict;

pub use diagnosis::{Diagnosis, Inputs, diagnose};
pub use facts::{Facts, Growth, Keeper};
pub use log::{Log, read};
pub use marks::Marks;
pub use message::{Kind, Message, NamedProcess, ProcessUse};
pub use phases::{Chronology, Phase};
pub use remedies::{Advice, Class};
pub use scan::scan;
pub use verdict::{Finding, Judgement, Verdict, judge};
