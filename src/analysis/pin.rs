//! What pins free memory, site by site and unit by unit.

use serde::Serialize;

use super::sites::Site;

/// What one site's blocks pin.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pin {
    /// Name of the site.
    pub site: String,
    /// Function, where the site is a line.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// Its share of the pinned bytes. In each unit the live blocks share equally; what does not divide goes byte by byte
    /// to the lowest addresses.
    pub pinned: u64,
    /// Bytes of its own live and pending blocks in the default pools.
    pub own: u64,
    /// The part of `own` that is freed, but waits for another stream.
    pub pending: u64,
    /// Number of those blocks.
    pub blocks: u64,
    /// Segments with free memory that it has a block in.
    pub segments: u64,
    /// The same for granules of expandable memory.
    pub granules: u64,
    /// When its blocks were allocated, and how they compare with their neighbours.
    pub lifetimes: Option<Lifetimes>,
    /// What the row stands for.
    #[serde(skip)]
    pub key: Site,
}

/// A segment or granule with at least one live block, or a run of granules that a single block fills.
#[derive(Clone, Debug, PartialEq)]
pub struct Unit {
    /// Start address.
    pub addr: u64,
    /// Bytes.
    pub bytes: u64,
    /// Free bytes in it.
    pub pinned: u64,
    /// Number of granules; 0 for a segment.
    pub granules: u64,
    /// Event that mapped it.
    pub born: Option<u32>,
    /// The sites with a block in it, ascending: numbers for [`Pinning::site`](super::pinning::Pinning::site).
    pub sites: Vec<u32>,
}

/// When a site's pinning blocks were allocated, and what their neighbours did. Ages and lifetimes in events.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Lifetimes {
    /// Event of the first allocation; `None` when all were there before the recording.
    pub first_event: Option<u32>,
    /// Of the last.
    pub last_event: Option<u32>,
    /// Blocks from before the recording: at least as old as the trace.
    pub before_recording: u64,
    /// Median age of its blocks.
    pub median_age: u32,
    /// Median size of its blocks, in bytes.
    pub median_bytes: u64,
    /// Blocks that lay in the same units and are freed.
    pub neighbours: u64,
    /// Their median lifetime, weighted by size: half of the neighbours' bytes lived no longer.
    pub neighbours_median_life: Option<u32>,
    /// Their median size in bytes, weighted likewise: half of the neighbours' bytes lay in blocks of at least this size.
    pub neighbours_median_bytes: Option<u64>,
    /// Whether this is the classic cause of fragmentation: small blocks that live long, allocated in the middle of
    /// large ones that do not.
    pub is_classic: bool,
}
