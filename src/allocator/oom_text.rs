//! The text of `torch.OutOfMemoryError`, from the numbers that PyTorch puts into it.

use std::fmt::Write;

use serde::Serialize;

use super::{AllocatorRules, GIB, KIB, MIB, TorchVersion};

/// What the allocator knew when a request failed. All sizes in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OomReport {
    /// The request as the program made it.
    pub requested: u64,
    /// The request after rounding.
    pub size: u64,
    /// What the device was asked for; the "Tried to allocate" of the message.
    pub alloc_size: u64,
    /// Stream of the request.
    pub stream: u64,
    /// Free memory of the whole device.
    pub device_free: u64,
    /// Total memory of the device.
    pub device_total: u64,
    /// The limit of the memory fraction, where one is set.
    pub allowed: Option<u64>,
    /// Sum of the sizes of allocated blocks.
    pub allocated: u64,
    /// Sum of segments and mapped memory.
    pub reserved: u64,
    /// Sum of the free blocks of private pools.
    pub private_free: u64,
    /// Memory that the device reports for this process, PyTorch's own included; `None` leaves the sentence out.
    pub process_memory: Option<u64>,
}

/// Generations of the out-of-memory message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum OomStyle {
    /// Up to 2.0: one parenthesis with all numbers.
    Parenthesis,
    /// 2.1: sentences, with the spelling "capacty" and `max_split_size_mb` as advice.
    Sentences,
    /// 2.2 to 2.4: the device's number is written as a raw byte, which ends the text for device 0 (seen in 2.3).
    RawDevice,
    /// 2.5 to 2.10: with the limit of the memory fraction and the private pools.
    Limit,
    /// 2.11 to 2.13: a new address of the documentation.
    NewAddress,
    /// From 2.14 on: no advice to use expandable segments where they are in use.
    Conditional,
}

impl OomStyle {
    /// The style of `version`.
    pub fn of(version: TorchVersion) -> Self {
        match (version.major, version.minor) {
            (..=1, _) | (2, 0) => Self::Parenthesis,
            (2, 1) => Self::Sentences,
            (2, 2..=4) => Self::RawDevice,
            (2, 5..=10) => Self::Limit,
            (2, 11..=13) => Self::NewAddress,
            _ => Self::Conditional,
        }
    }
}

/// `n` bytes as PyTorch prints them; a unit begins just above its power of 1024, and there is nothing above GiB.
///
/// ```
/// use oomscope::allocator::format_size;
///
/// assert_eq!(format_size(1 << 20), "1024.00 KiB");
/// assert_eq!(format_size(20 << 20), "20.00 MiB");
/// ```
pub fn format_size(n: u64) -> String {
    let (unit, name) = match n {
        _ if n <= KIB => return format!("{n} bytes"),
        _ if n <= MIB => (KIB, "KiB"),
        _ if n <= GIB => (MIB, "MiB"),
        _ => (GIB, "GiB"),
    };
    format!("{:.2} {name}", n as f64 / unit as f64)
}

impl OomReport {
    /// The message of device `device` in the wording of `style`, as `str(error)` gives it in Python.
    pub fn text(&self, style: OomStyle, rules: &AllocatorRules, device: u32) -> String {
        let mut text = format!("CUDA out of memory. Tried to allocate {}", format_size(self.alloc_size));
        // Writing to a string cannot fail.
        let _ = match style {
            OomStyle::Parenthesis => self.parenthesis(&mut text, device),
            OomStyle::RawDevice if device == 0 => write!(text, ". GPU "),
            _ => self.sentences(&mut text, style, rules, device),
        };
        text
    }

    fn parenthesis(&self, text: &mut String, device: u32) -> std::fmt::Result {
        write!(
            text,
            " (GPU {device}; {} total capacity; {} already allocated; {} free; ",
            format_size(self.device_total),
            format_size(self.allocated),
            format_size(self.device_free)
        )?;
        if let Some(allowed) = self.allowed {
            write!(text, "{} allowed; ", format_size(allowed))?;
        }
        write!(
            text,
            "{} reserved in total by PyTorch) If reserved memory is >> allocated memory {ADVICE_SPLIT}",
            format_size(self.reserved)
        )
    }

    fn sentences(&self, text: &mut String, style: OomStyle, rules: &AllocatorRules, device: u32) -> std::fmt::Result {
        let capacity = if style == OomStyle::Sentences { "capacty" } else { "capacity" };
        write!(text, ". GPU ")?;
        match style {
            OomStyle::RawDevice => text.push(char::from_u32(device).unwrap_or('?')),
            _ => write!(text, "{device}")?,
        }
        write!(
            text,
            " has a total {capacity} of {} of which {} is free. ",
            format_size(self.device_total),
            format_size(self.device_free)
        )?;
        if let Some(memory) = self.process_memory {
            write!(text, "Including non-PyTorch memory, this process has {} memory in use. ", format_size(memory))?;
        }
        let private = if style < OomStyle::Limit { 0 } else { self.private_free };
        if let (Some(allowed), true) = (self.allowed, style >= OomStyle::Limit) {
            write!(text, "{} allowed; ", format_size(allowed))?;
        }
        write!(
            text,
            "Of the allocated memory {} is allocated by PyTorch, ",
            format_size(self.allocated.saturating_add(private))
        )?;
        if private > 0 {
            write!(text, "with {} allocated in private pools (e.g., CUDA Graphs), ", format_size(private))?;
        }
        let unallocated = self.reserved.saturating_sub(self.allocated).saturating_sub(private);
        write!(text, "and {} is reserved by PyTorch but unallocated.", format_size(unallocated))?;
        match style {
            OomStyle::Sentences => {
                write!(text, " If reserved but unallocated memory is large {ADVICE_SPLIT}")
            }
            OomStyle::Conditional if rules.expandable => write!(text, "{ADVICE_RESERVE}"),
            OomStyle::RawDevice | OomStyle::Limit => write!(text, "{ADVICE_EXPANDABLE}{ADDRESS_OLD}"),
            _ => write!(text, "{ADVICE_EXPANDABLE}{ADDRESS_NEW}"),
        }
    }
}

const ADVICE_SPLIT: &str = "try setting max_split_size_mb to avoid fragmentation.  See documentation for Memory \
                            Management and PYTORCH_CUDA_ALLOC_CONF";
const ADVICE_EXPANDABLE: &str = " If reserved but unallocated memory is large try setting \
                                 PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.  See \
                                 documentation for Memory Management  ";
const ADDRESS_OLD: &str = "(https://pytorch.org/docs/stable/notes/cuda.html#environment-variables)";
const ADDRESS_NEW: &str = "(https://docs.pytorch.org/docs/stable/notes/cuda.html\
                           #optimizing-memory-usage-with-pytorch-cuda-alloc-conf)";
const ADVICE_RESERVE: &str = " expandable_segments is enabled. If instead the process is running out of virtual \
                              address space (VSZ), expandable segments may be over-reserving VA (each segment reserves \
                              ~9/8 of device memory, times the number of streams); reduce it via \
                              PYTORCH_CUDA_ALLOC_CONF expandable_segments_reserve / expandable_segments_reserve_by_class.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_printed_with_inclusive_limits() {
        let cases = [
            (512, "512 bytes"),
            (1024, "1024 bytes"),
            (1025, "1.00 KiB"),
            (1 << 20, "1024.00 KiB"),
            (20 << 20, "20.00 MiB"),
            (1 << 30, "1024.00 MiB"),
            ((1 << 30) + 1, "1.00 GiB"),
            (5 << 40, "5120.00 GiB"),
        ];
        for (n, text) in cases {
            assert_eq!(format_size(n), text);
        }
    }

    #[test]
    fn private_pools_count_as_allocated_since_2_5() {
        let report = OomReport {
            requested: MIB,
            size: MIB,
            alloc_size: 2 * MIB,
            stream: 0,
            device_free: 0,
            device_total: GIB,
            allowed: Some(GIB),
            allocated: 600 * MIB,
            reserved: 1000 * MIB,
            private_free: 100 * MIB,
            process_memory: None,
        };
        let text = report.text(OomStyle::Limit, &AllocatorRules::default(), 1);
        assert!(text.starts_with(
            "CUDA out of memory. Tried to allocate 2.00 MiB. GPU 1 has a total capacity of 1024.00 MiB of which 0 bytes \
             is free. 1024.00 MiB allowed; Of the allocated memory 700.00 MiB is allocated by PyTorch, with 100.00 MiB \
             allocated in private pools (e.g., CUDA Graphs), and 300.00 MiB is reserved by PyTorch but unallocated. If"
        ));
        let old = report.text(OomStyle::Sentences, &AllocatorRules::default(), 0);
        assert!(
            old.contains("capacty of 1024.00 MiB")
                && old.contains("600.00 MiB is allocated")
                && !old.contains("allowed")
        );
    }
}
