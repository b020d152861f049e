//! Error texts, job logs and `nvidia-smi` output: what they say, what the cause is, and what to change first.
//!
//! Knows nothing of snapshots; [`analysis::verdict`](crate::analysis) joins both.

mod clauses;
pub mod facts;
pub mod figure;
pub mod lookalike;
pub mod message;
mod scan;
mod squash;
pub mod tag;
pub mod verdict;

pub use facts::{Facts, Growth};
pub use message::{Kind, Message, NamedProcess, ProcessUse};
pub use scan::scan;
pub use verdict::{Finding, Judgement, Verdict, judge};
