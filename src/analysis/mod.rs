//! One file a question. Results are plain structs: text, JSON and pictures are views of them.

pub mod failures;
pub mod fragmentation;
pub mod info;
pub mod ranking;
pub mod report;
pub mod series;
pub mod sites;
pub mod totals;
pub mod whatif;
