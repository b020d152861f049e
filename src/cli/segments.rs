//! `oomscope segments`

use anyhow::{Result, ensure};
use clap::ValueEnum;
use rayon::prelude::*;

use super::args::{InputArgs, MomentArgs};
use super::{Status, input, output};
use crate::analysis::segments::{Document, Questions, SegmentOrder, Segments, segments};
use crate::analysis::sites::{By, Sites};
use crate::render::terminal;
use crate::units::parse_size;

/// Fragmentation, segment by segment: what is free, what of it could be given back, which lines are in the way of the
/// rest, and what still fits.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  oomscope segments oom.pickle                       at the OOM, most stranded memory first
  oomscope segments oom.pickle --fit 530MiB          which hole would serve a request of 530 MiB
  oomscope segments oom.pickle --free 2GiB           which lines would have to go to free 2 GiB
  oomscope segments oom.pickle --segment 0x7f3a00000000
                                                     what is live in that segment
  oomscope segments oom.pickle --at end --sort total
  oomscope segments oom.pickle --large-segment 64MiB under other rules")]
pub struct Args {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    at: MomentArgs,
    /// Would a request of this size be served, in each pool and stream? May be repeated [default: the request of the
    /// OOM]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    fit: Vec<u64>,
    /// Which few lines would have to give up their memory so that this much could be given back to the device
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    free: Option<u64>,
    /// What is live in the segment at this address. May be repeated
    #[arg(long, value_name = "ADDRESS", value_parser = address)]
    segment: Vec<u64>,
    /// Order of the table
    #[arg(long, value_enum, default_value_t = Sort::Stranded)]
    sort: Sort,
    /// Rows to print of each table; JSON has all
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
}

#[derive(Clone, Copy, ValueEnum)]
enum Sort {
    /// Most stranded memory first
    Stranded,
    /// Most free memory first
    Free,
    /// Largest first
    Total,
    /// Most live memory first
    Active,
    /// Largest free block first
    Largest,
    /// Most broken up first
    Fragmentation,
    /// Most that could be given back first
    Releasable,
    /// Most bytes that were never used first
    NeverUsed,
    /// By address
    Address,
}

impl From<Sort> for SegmentOrder {
    fn from(sort: Sort) -> Self {
        match sort {
            Sort::Stranded => Self::Stranded,
            Sort::Free => Self::Free,
            Sort::Total => Self::Total,
            Sort::Active => Self::Active,
            Sort::Largest => Self::LargestFree,
            Sort::Fragmentation => Self::Fragmentation,
            Sort::Releasable => Self::Releasable,
            Sort::NeverUsed => Self::NeverUsed,
            Sort::Address => Self::Address,
        }
    }
}

/// An address as the tables print it, or in decimal digits.
fn address(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x").or_else(|| text.strip_prefix("0X")) {
        Some(digits) => u64::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| "write the address as the table prints it, like 0x7f3a00000000".to_owned())
}

pub fn run(args: &Args) -> Result<Status> {
    let loaded = input::open(&args.input)?;
    loaded.warn();
    let histories = loaded.histories(args.input.device)?;
    let sites = Sites::new(&loaded.snapshot, By::Line);
    let questions = Questions {
        requests: args.fit.clone(),
        free: args.free,
        segments: args.segment.clone(),
        capacity: args.input.capacity,
    };
    let results = histories
        .par_iter()
        .map(|history| Ok(segments(history, history.moment(args.at.moment())?, &sites, &questions)))
        .collect::<Result<Vec<Segments>>>()?;
    for &wanted in &args.segment {
        let is_there = |result: &Segments| {
            result.holders.iter().any(|held| held.address <= wanted && wanted - held.address < held.total)
        };
        ensure!(
            results.iter().any(is_there),
            "{}: no segment holds the address {wanted:#x} at that moment; `oomscope segments --sort address` lists them",
            loaded.path
        );
    }
    let text = match args.input.json {
        true => {
            let at = results.first().map(|result| result.fragmentation.at);
            let document = Document { rules: &loaded.rules, at, devices: results.iter().collect() };
            output::json("segments", &loaded, &document)?
        }
        false => {
            let width = output::width();
            let texts = results.iter().map(|result| terminal::segments(result, args.sort.into(), args.limit, width));
            loaded.preface() + &texts.collect::<Vec<_>>().join("\n")
        }
    };
    output::print(&text)?;
    Ok(loaded.status())
}
