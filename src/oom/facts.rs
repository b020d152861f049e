//! What is known about one failure, from the text, a snapshot, `nvidia-smi`, or several of them together.

use super::message::{Kind, Message, ProcessUse};

/// Memory that lines have been adding to, as a snapshot shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Growth {
    /// Bytes that surely stayed: the least that the growing lines have held in the last part of the trace.
    pub bytes: u64,
    /// Their names, the largest first.
    pub sites: Vec<String>,
    /// Who keeps them, where the growth from step to step tells.
    pub keeper: Option<Keeper>,
}

/// The cause of a growth.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Keeper {
    /// The program's own line, or its call below which the growing lines allocate.
    pub line: String,
    /// Other such lines.
    pub others: usize,
    /// Bytes that all of them hold.
    pub live: u64,
    /// What is kept, in a few words.
    pub kind: &'static str,
    /// What usually ends it.
    pub remedy: &'static str,
}

impl Keeper {
    /// What to do, and where.
    pub fn advice(&self) -> String {
        // What stands for an unknown line is in brackets.
        let at = if self.line.starts_with('(') { "" } else { "at " };
        format!("{at}{}: {}", self.line, self.remedy)
    }
}

impl Growth {
    /// Bytes that the growing lines hold, or hold at least.
    pub fn held(&self) -> u64 {
        self.keeper.as_ref().map_or(self.bytes, |keeper| keeper.live)
    }
}

/// The figures that the verdict follows from. Bytes; `None` is not known.
///
/// Built by [`Facts::of_message`], by `analysis::verdict` from a snapshot, or field by field.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// Which message it was; `None` without a text.
    pub kind: Option<Kind>,
    /// The whole card.
    pub card: Option<u64>,
    /// Free on the card at the failure.
    pub device_free: Option<u64>,
    /// The request, rounded. A text has only the segment, which is at least that.
    pub request: Option<u64>,
    /// What the allocator had to ask the device for.
    pub segment: Option<u64>,
    /// Taken from the device by PyTorch.
    pub reserved: Option<u64>,
    /// In live blocks and such as wait for another stream.
    pub active: Option<u64>,
    /// Freed by the program, but waiting for another stream.
    pub pending: Option<u64>,
    /// Idle in private pools.
    pub pool_idle: Option<u64>,
    /// Free next to live blocks. From a text: all that is reserved but not allocated.
    pub stranded: Option<u64>,
    /// The largest free block.
    pub largest_free: Option<u64>,
    /// What `empty_cache()` would give back.
    pub releasable: Option<u64>,
    /// Limit for this process: a memory fraction, or MPS's watermark.
    pub limit: Option<u64>,
    /// Whether the text had room for a limit, but has none: releases from 2.5 on print it.
    pub says_no_limit: bool,
    /// What the driver counts for this process.
    pub process_use: ProcessUse,
    /// Held by other processes that are named.
    pub others: Option<u64>,
    /// MPS: held by others and by the system.
    pub other_allocations: Option<u64>,
    /// What lines have been adding to; `None` when nobody could look.
    pub growth: Option<Growth>,
    /// The line whose live blocks pin most free memory, and how much.
    pub pin: Option<(String, u64)>,
    /// Whether a snapshot was looked into.
    pub from_snapshot: bool,
    /// How far a figure may be off by its decimals.
    pub tolerance: u64,
}

impl Facts {
    /// What `message` alone tells.
    pub fn of_message(message: &Message) -> Self {
        let reserved = message.reserved_in_total();
        let live = message.live();
        let active = message.active.or(live);
        // MPS's "allocated" is what Metal gave, in use or not.
        let active = if message.kind == Kind::Mps { None } else { active };
        Self {
            kind: Some(message.kind),
            card: message.total,
            device_free: message.free,
            request: message.tried,
            segment: message.tried,
            reserved,
            active,
            pending: match (message.active, live) {
                (Some(active), Some(live)) => Some(active.saturating_sub(live)),
                _ => None,
            },
            pool_idle: message.private_pools,
            stranded: match (message.kind, reserved, message.allocated) {
                (Kind::CudaMallocAsync, ..) => None,
                (_, Some(reserved), Some(allocated)) => Some(reserved.saturating_sub(allocated)),
                _ => None,
            },
            largest_free: None,
            releasable: None,
            limit: message.allowed,
            says_no_limit: message.allowed.is_none() && !message.dropped.contains(&"allowed") && prints_limits(message),
            process_use: message.process_in_use,
            others: (!message.other_processes.is_empty()).then(|| message.others_in_use()),
            other_allocations: message.other_allocations,
            growth: None,
            pin: None,
            from_snapshot: false,
            tolerance: message.tolerance,
        }
    }

    /// What the process could have had: reserved and what was free.
    pub fn capacity(&self) -> Option<u64> {
        Some(self.reserved?.saturating_add(self.device_free?))
    }

    /// What the device lacked; 0 when it had enough.
    pub fn needed(&self) -> Option<u64> {
        Some(self.segment?.saturating_sub(self.device_free?))
    }

    /// What would have been left if all memory were in one piece; negative when even that would not have done.
    pub fn headroom(&self) -> Option<i64> {
        let signed = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        let used = signed(self.active?).saturating_add(signed(self.request?));
        Some(signed(self.capacity()?).saturating_sub(used))
    }

    /// Held on the card by anything but PyTorch's allocator in this process; the CUDA context is in it.
    pub fn outside(&self) -> Option<u64> {
        let inside = self.device_free?.saturating_add(self.reserved?);
        Some(self.card?.saturating_sub(inside))
    }
}

/// Whether this wording names a limit when there is one. PyTorch 2.1 to 2.4 do not; 2.5 and later, and 1.8 to 2.0, do.
fn prints_limits(message: &Message) -> bool {
    // The pool clause came with the same release as the limit; nothing else in the text tells 2.4 from 2.5.
    message.private_pools.is_some() || message.reserved.is_some()
}
