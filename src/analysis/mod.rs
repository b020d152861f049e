//! One file a question. Results are plain structs: text, JSON and pictures are views of them.

pub mod failed_fits;
pub mod failures;
pub mod fit;
pub mod fleet;
pub mod fragmentation;
pub mod freeing;
pub mod growth;
pub mod holes;
pub mod info;
pub mod layout;
pub mod lifetimes;
pub mod pin;
pub mod pinning;
pub mod pool_key;
pub mod pools;
pub mod ranking;
pub mod report;
pub mod search;
pub mod segments;
pub mod series;
pub mod settle;
pub mod sites;
pub mod totals;
pub mod verdict;
pub mod whatif;
