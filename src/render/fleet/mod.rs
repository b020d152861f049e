//! Pictures of a job of many ranks: who holds what at the peaks, and each rank's memory over time.
//!
//! Both are bounded whatever the number of ranks.

mod heat_map;
mod timelines;

pub use heat_map::heat_map;
pub use timelines::timelines;
