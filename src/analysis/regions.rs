//! Annotated regions: the starts and ends in the file, joined.

use std::collections::HashMap;

use crate::snapshot::{Snapshot, StrId};

/// A region that the profiler, the optimizer or the program named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    /// Its name.
    pub name: StrId,
    /// Device ordinal.
    pub device: i64,
    /// Microseconds since 1970; `None` when the recording began within it.
    pub start_us: Option<u64>,
    /// Microseconds since 1970; `None` when the recording ended within it.
    pub end_us: Option<u64>,
}

/// The regions of `snapshot`, in the order in which they start, or end where no start is recorded. An end belongs to
/// the latest start of its name and device that has none.
pub fn regions(snapshot: &Snapshot) -> Vec<Region> {
    let mut regions: Vec<Region> = Vec::new();
    let mut open: HashMap<(i64, StrId), Vec<usize>> = HashMap::new();
    for mark in &snapshot.annotations {
        let (name, device) = (mark.name, mark.device);
        let waiting = open.entry((device, name)).or_default();
        if mark.starts {
            waiting.push(regions.len());
            regions.push(Region { name, device, start_us: Some(mark.time_us), end_us: None });
        } else if let Some(start) = waiting.pop() {
            regions[start].end_us = Some(mark.time_us);
        } else {
            regions.push(Region { name, device, start_us: None, end_us: Some(mark.time_us) });
        }
    }
    regions
}
