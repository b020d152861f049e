//! A job of many ranks: pictures of who holds what at the peaks and of each rank's memory over time, and Markdown.
//!
//! All are bounded whatever the number of ranks.

mod heat_map;
mod markdown;
mod timelines;

pub use heat_map::heat_map;
pub use markdown::markdown;
pub use timelines::timelines;
