//! `oomscope leaks`

use std::collections::BTreeSet;
use std::path::PathBuf;

use anyhow::{Result, ensure};
use rayon::prelude::*;
use serde::Serialize;

use super::args::InputArgs;
use super::input::Loaded;
use super::{Status, input, output};
use crate::analysis::leaks::{Compared, Document, compare, leaks};
use crate::analysis::sites::{By, Sites};
use crate::history::History;
use crate::render::terminal::{self, LeakOptions};

/// Which lines hold more memory after each step, how much more, and since when.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  oomscope leaks job.pickle                      what grows from step to step
  oomscope leaks job.pickle --capacity 80GiB     and when the card will be full
  oomscope leaks job.pickle --stack              with whole stacks
  oomscope leaks 1h.pickle 2h.pickle 3h.pickle   what grows from one snapshot of a job to the next")]
pub struct Args {
    #[command(flatten)]
    input: InputArgs,
    /// Further snapshots of the same job, in the order in which they were taken
    #[arg(value_name = "FILE")]
    later: Vec<PathBuf>,
    /// Print whole stacks, torch's frames included
    #[arg(long)]
    stack: bool,
    /// Causes to print; JSON has all
    #[arg(long, value_name = "N", default_value_t = 5)]
    limit: usize,
}

pub fn run(args: &Args) -> Result<Status> {
    let loaded = input::open(&args.input)?;
    loaded.warn();
    if !args.later.is_empty() {
        return several(args, loaded);
    }
    let histories = loaded.histories(args.input.device)?;
    let sites = Sites::new(&loaded.snapshot, By::Line);
    let results: Vec<_> = histories.par_iter().map(|history| leaks(history, &sites, args.input.capacity)).collect();
    let text = match args.input.json {
        true => output::json("leaks", &loaded, &Document::new(&results))?,
        false => {
            let options = LeakOptions { whole_stacks: args.stack, limit: args.limit };
            let texts = results.iter().map(|result| terminal::leaks(&loaded.name, result, options, output::width()));
            loaded.preface() + &texts.collect::<Vec<_>>().join("\n")
        }
    };
    output::print(&text)?;
    Ok(loaded.status())
}

/// The JSON of a comparison.
#[derive(Serialize)]
struct Comparison {
    /// All files, in their order.
    files: Vec<String>,
    devices: Vec<Compared>,
}

/// Compares several snapshots of one job, device by device.
fn several(args: &Args, first: Loaded) -> Result<Status> {
    let mut all = vec![first];
    for path in &args.later {
        let loaded = input::open(&InputArgs { file: path.clone(), ..args.input.clone() })?;
        loaded.warn();
        all.push(loaded);
    }
    let histories: Vec<Vec<History>> =
        all.iter().map(|loaded| loaded.histories(args.input.device)).collect::<Result<_>>()?;
    let sites: Vec<Sites> = all.iter().map(|loaded| Sites::new(&loaded.snapshot, By::Line)).collect();
    let ordinals: BTreeSet<i64> = histories[0].iter().map(|history| history.device.ordinal).collect();
    let devices: Vec<Compared> = ordinals
        .into_iter()
        .filter_map(|ordinal| {
            let of_device = |list: &'_ Vec<History>| list.iter().position(|history| history.device.ordinal == ordinal);
            let found: Option<Vec<_>> =
                histories.iter().zip(&sites).map(|(list, sites)| Some((&list[of_device(list)?], sites))).collect();
            Some(compare(ordinal, &found?))
        })
        .collect();
    ensure!(
        !devices.is_empty(),
        "these snapshots have no device in common, so they are not of one process; `oomscope leaks FILE` looks at one"
    );
    let text = match args.input.json {
        true => {
            let files = all.iter().map(|loaded| loaded.path.clone()).collect();
            output::json("leaks", &all[0], &Comparison { files, devices })?
        }
        false => {
            let names: Vec<&str> = all.iter().map(|loaded| loaded.name.as_str()).collect();
            let texts = devices.iter().map(|device| terminal::compared(&names, device, output::width()));
            let preface: String = all.iter().map(Loaded::preface).collect();
            preface + &texts.collect::<Vec<_>>().join("\n")
        }
    };
    output::print(&text)?;
    Ok(all.iter().fold(Status::Done, |status, loaded| status.and(loaded.status())))
}
