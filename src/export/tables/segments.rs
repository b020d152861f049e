//! One row a segment of the dump.

use super::record::record;
use super::source::{Source, stack_number};
use crate::allocator::PoolKind;
use crate::analysis::fragmentation::fragmentation;
use crate::history::At;

record! {
    /// Segments at the dump: cudaMalloc'd ones, and the contiguous mapped ranges of expandable ones. Sizes are bytes.
    struct SegmentRow in "segments" {
        /// Number of the segment in this file.
        segment: u64,
        /// Device ordinal; −1 for pinned host memory.
        device: i64,
        /// Start address.
        address: u64,
        /// Its size.
        total_size: u64,
        /// Stream pointer; 0 is the default stream.
        stream: u64,
        /// Private pool, first half of its id; null for the default pool.
        pool_owner: Option<u64>,
        /// Private pool, second half of its id.
        pool_number: Option<u64>,
        /// `small` or `large`.
        kind: String,
        /// Whether it is mapped memory of an expandable segment.
        expandable: bool,
        /// Number of the stack of the cudaMalloc; null when it was not recorded.
        stack: Option<u64>,
        /// In live and pending blocks. Null for pinned host memory and where the file contradicts itself, as all that
        /// follow.
        active: Option<u64>,
        /// In pending blocks.
        pending: Option<u64>,
        /// Live and pending blocks.
        active_blocks: Option<u64>,
        /// In free blocks.
        free: Option<u64>,
        /// Free blocks.
        free_blocks: Option<u64>,
        /// The largest free block.
        largest_free: Option<u64>,
        /// 1 − largest_free / free; 0 when nothing is free.
        external_fragmentation: Option<f64>,
        /// Lost inside active blocks.
        rounding: Option<u64>,
        /// What `torch.cuda.empty_cache()` would give back of it.
        releasable: Option<u64>,
        /// Free next to a live block, or in less than a granule.
        stranded: Option<u64>,
        /// Free in a private pool.
        pool_idle: Option<u64>,
        /// Segment size less the rounded request that caused it; null for expandable memory, and where its birth is not
        /// in the trace.
        birth_slack: Option<u64>,
        /// Bytes that were never active since its birth; null likewise.
        never_used: Option<u64>,
    }
}

/// The rows.
pub(super) fn rows(source: &Source) -> Vec<SegmentRow> {
    // At the dump the ranges of a state are the segments of the file, in their order.
    let measured = source.parts.iter().flat_map(|part| {
        let measured = part.history.and_then(|history| Some(fragmentation(history, history.moment(At::End).ok()?)));
        let measured = measured.filter(|measured| measured.totals.free.is_some());
        let mut rows = measured.map_or_else(Vec::new, |measured| measured.segments).into_iter();
        let segments: Vec<_> = part.segments.clone().map(|_| rows.next()).collect();
        segments
    });
    let segments = source.segments().zip(measured);
    segments
        .map(|((number, part, segment), measured)| {
            let measured = measured.as_ref();
            let pool = source.pool(segment.pool);
            SegmentRow {
                segment: number as u64,
                device: part.device,
                address: segment.address,
                total_size: segment.total_size,
                stream: source.snapshot.streams[segment.stream.index()],
                pool_owner: pool.map(|pool| pool.0),
                pool_number: pool.map(|pool| pool.1),
                kind: match segment.kind {
                    PoolKind::Small => "small".to_owned(),
                    PoolKind::Large => "large".to_owned(),
                },
                expandable: segment.expandable,
                stack: stack_number(segment.stack),
                active: measured.map(|row| row.active),
                pending: measured.map(|row| row.pending),
                active_blocks: measured.map(|row| row.blocks as u64),
                free: measured.map(|row| row.free),
                free_blocks: measured.map(|row| row.free_blocks as u64),
                largest_free: measured.map(|row| row.largest_free),
                external_fragmentation: measured.map(|row| row.external_fragmentation),
                rounding: measured.map(|row| row.rounding),
                releasable: measured.map(|row| row.releasable),
                stranded: measured.map(|row| row.stranded),
                pool_idle: measured.map(|row| row.pool_idle),
                birth_slack: measured.and_then(|row| row.birth_slack),
                never_used: measured.and_then(|row| row.never_used),
            }
        })
        .collect()
}
