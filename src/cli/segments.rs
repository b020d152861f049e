//! `oomscope segments`

use std::cmp::Reverse;

use anyhow::Result;
use clap::ValueEnum;
use rayon::prelude::*;

use super::args::{InputArgs, MomentArgs};
use super::{Status, input, output};
use crate::analysis::fragmentation::{Document, Fragmentation, SegmentRow, fragmentation};
use crate::render::terminal;

/// Fragmentation, segment by segment: what is free, what of it could be given back, what is stuck.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  oomscope segments oom.pickle                       at the OOM, most stranded memory first
  oomscope segments oom.pickle --at end --sort total
  oomscope segments oom.pickle --large-segment 64MiB under other rules")]
pub struct Args {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    at: MomentArgs,
    /// Order of the table
    #[arg(long, value_enum, default_value_t = Sort::Stranded)]
    sort: Sort,
    /// Rows to print; JSON has all
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
    /// By address
    Address,
}

pub fn run(args: &Args) -> Result<Status> {
    let loaded = input::open(&args.input)?;
    loaded.warn();
    let histories = loaded.histories(args.input.device)?;
    let results = histories
        .par_iter()
        .map(|history| Ok(fragmentation(history, history.moment(args.at.moment())?)))
        .collect::<Result<Vec<Fragmentation>>>()?;
    let text = match args.input.json {
        true => {
            let at = results.first().map(|result| result.at);
            let document = Document { rules: &loaded.rules, at, devices: results.iter().collect() };
            output::json("segments", &loaded, &document)?
        }
        false => {
            let width = output::width();
            let tables = results
                .iter()
                .map(|result| terminal::segments(result, &sorted(&result.segments, args.sort), args.limit, width));
            loaded.preface() + &tables.collect::<Vec<_>>().join("\n")
        }
    };
    output::print(&text)?;
    Ok(loaded.status())
}

fn sorted(rows: &[SegmentRow], sort: Sort) -> Vec<&SegmentRow> {
    let mut rows: Vec<&SegmentRow> = rows.iter().collect();
    rows.sort_by_key(|row| {
        let first = match sort {
            Sort::Stranded => row.stranded,
            Sort::Free => row.free,
            Sort::Total => row.total,
            Sort::Active => row.active,
            Sort::Address => 0,
        };
        (Reverse(first), row.address)
    });
    rows
}
