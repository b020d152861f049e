//! Flags that several commands share.

use std::path::PathBuf;

use clap::Args;

use crate::allocator::AllocatorRules;
use crate::history::At;
use crate::units::parse_size;

/// Which snapshot to read, and how.
#[derive(Args, Clone, Debug)]
pub struct InputArgs {
    /// Snapshot: a pickle (.gz, .zst, .zip too), an HTML page of _memory_viz.py, JSON; `-` reads standard input
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Use what is complete of a file that breaks off; every output says so, and the exit status is 2
    #[arg(long)]
    pub salvage: bool,
    /// Look at this device only
    #[arg(long, value_name = "N")]
    pub device: Option<i64>,
    /// The card's or the process's memory, where the file cannot tell (80GiB)
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    pub capacity: Option<u64>,
    /// Print JSON with stable keys; sizes are integers in bytes
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub rules: RuleArgs,
}

impl InputArgs {
    /// All of the snapshot `file`, by its own rules.
    pub fn file(file: PathBuf, salvage: bool) -> Self {
        Self { file, salvage, device: None, capacity: None, json: false, rules: RuleArgs::default() }
    }
}

/// Which moment to look at.
#[derive(Args, Clone, Copy, Debug)]
pub struct MomentArgs {
    /// Moment: end, peak, peak:requested|allocated|active|reserved, oom, oom:K, an event number, @MICROSECONDS or
    /// step:S [default: the last OOM, else the peak, else the end]
    #[arg(long, value_name = "MOMENT")]
    pub at: Option<At>,
}

impl MomentArgs {
    /// The moment asked for.
    pub fn moment(&self) -> At {
        self.at.unwrap_or_default()
    }
}

/// The allocator's rules, where they differ from those recorded in the file.
#[derive(Args, Clone, Debug, Default, PartialEq)]
#[command(next_help_heading = "Allocator rules (default: the snapshot's settings, else PyTorch's constants)")]
pub struct RuleArgs {
    /// Rounding unit of requests [512]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    min_block: Option<u64>,
    /// Largest request of the small pool [1MiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    small_limit: Option<u64>,
    /// Segment of the small pool [2MiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    small_segment: Option<u64>,
    /// Segment for requests below --large-limit [20MiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    large_segment: Option<u64>,
    /// Requests from here on get a segment of their own [10MiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    large_limit: Option<u64>,
    /// Rounding unit of such segments [2MiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    round_large: Option<u64>,
    /// roundup_power2_divisions, for all sizes [0: off]
    #[arg(long, value_name = "N")]
    roundup_power2_divisions: Option<u64>,
    /// max_split_size [unlimited]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    max_split_size: Option<u64>,
}

impl RuleArgs {
    /// Whether no rule is replaced.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// `base` with the flags applied.
    pub fn apply(&self, base: &AllocatorRules) -> anyhow::Result<AllocatorRules> {
        let mut rules = base.clone();
        let sizes = [
            (&mut rules.min_block, self.min_block, "--min-block"),
            (&mut rules.small_limit, self.small_limit, "--small-limit"),
            (&mut rules.small_segment, self.small_segment, "--small-segment"),
            (&mut rules.large_segment, self.large_segment, "--large-segment"),
            (&mut rules.large_limit, self.large_limit, "--large-limit"),
            (&mut rules.round_large, self.round_large, "--round-large"),
        ];
        for (rule, flag, name) in sizes {
            if let Some(size) = flag {
                anyhow::ensure!(size > 0, "{name} must be at least 1 byte");
                *rule = size;
            }
        }
        if let Some(divisions) = self.roundup_power2_divisions {
            anyhow::ensure!(
                divisions == 0 || divisions.is_power_of_two(),
                "--roundup-power2-divisions must be 0 or a power of two, not {divisions}"
            );
            rules.roundup_power2_divisions = [divisions; 16];
        }
        rules.max_split_size = self.max_split_size.or(rules.max_split_size);
        Ok(rules)
    }
}
