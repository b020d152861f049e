//! Errors that look like an out-of-memory of PyTorch's allocator, but are something else.

use super::figure;
use super::message::{Kind, Message};
use super::squash::Squashed;

/// One kind of look-alike: where it begins in the log, and what else must be in its line, squashed.
pub struct Lookalike {
    /// Text of the log.
    pub anchor: &'static str,
    /// Squashed text that must follow, or be the anchor itself; empty for none.
    pub with: &'static str,
    /// What it is.
    pub kind: Kind,
}

const fn row(anchor: &'static str, with: &'static str, kind: Kind) -> Lookalike {
    Lookalike { anchor, with, kind }
}

/// All look-alikes. The first row that fits counts.
pub const LOOKALIKES: &[Lookalike] = &[
    row("NVML_SUCCESS == r", "", Kind::NvmlAssert),
    row("Failed to CUDA calloc", "", Kind::NcclCalloc),
    row("Failed to CUDA malloc", "", Kind::NcclCalloc),
    row("Failed to CUDA host alloc", "", Kind::NcclCalloc),
    row("CUBLAS_STATUS_ALLOC_FAILED", "", Kind::CublasAlloc),
    row("CUDNN_STATUS_ALLOC_FAILED", "", Kind::CudnnAlloc),
    row("No available memory for the cache blocks", "", Kind::VllmKvCache),
    row("max seq len (", "kvcache", Kind::VllmKvCache),
    row("Free memory on device", "gpumemoryutilization", Kind::VllmStartupMemory),
    row("Not enough memory. Please try", "mem-fraction-static", Kind::SglangStartupMemory),
    row("Out of memory: Kill", "process", Kind::HostMemory),
    row("oom-kill:", "", Kind::HostMemory),
];

/// The message that begins at `offset` with the row's anchor, when `text` fits the row.
pub fn read(row: &Lookalike, text: &Squashed, offset: usize) -> Option<Message> {
    if !row.with.is_empty() {
        text.find(row.with.as_bytes())?;
    }
    let mut message = Message::new(row.kind, offset, offset + row.anchor.len());
    let after = |words: &[u8]| figure::read(text.after(words)?.0)?.0.bytes;
    match row.kind {
        Kind::NcclCalloc => {
            let plain = |words: &[u8]| figure::read_plain(text.after(words)?.0)?.0.bytes;
            message.tried = plain(b"cudacalloc").or_else(|| plain(b"cudamalloc")).or_else(|| plain(b"hostalloc"));
        }
        Kind::VllmKvCache => {
            message.kv_needed = text.before(b"kvcacheisneeded").and_then(|(rest, _)| figure::read_back(rest)?.bytes);
            message.kv_available = after(b"availablekvcachememory(");
            message.kv_tokens_needed = tokens(text, b"maxseqlen(");
            message.kv_tokens_available =
                tokens(text, b"storedinkvcache(").or_else(|| tokens(text, b"maximummodellengthis"));
        }
        Kind::VllmStartupMemory => {
            // `Free memory on device (12.3/44.5 GiB)` or `… device cuda:0 (12.3/44.5 GiB)`.
            let (rest, _) = text.after(b"(")?;
            let slash = rest.iter().take(16).position(|c| *c == b'/')?;
            let (total, length) = figure::read(&rest[slash + 1..])?;
            let unit: &[u8] = &rest[slash + 1..slash + 1 + length];
            let unit = &unit[unit.iter().take_while(|c| c.is_ascii_digit() || **c == b'.').count()..];
            let free = [&rest[..slash], unit].concat();
            message.free = figure::read(&free).and_then(|(figure, _)| figure.bytes);
            message.total = total.bytes;
        }
        _ => {}
    }
    Some(message)
}

/// A count of tokens behind `words`.
fn tokens(text: &Squashed, words: &[u8]) -> Option<u64> {
    figure::read_plain(text.after(words)?.0)?.0.bytes
}
