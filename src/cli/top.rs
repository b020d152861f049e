//! `oomscope top`

use anyhow::{Result, ensure};
use clap::ValueEnum;
use rayon::prelude::*;

use super::args::{InputArgs, MomentArgs};
use super::{Status, input, output};
use crate::analysis::ranking::{Attribution, Document, Ranking, is_sensible, live};
use crate::analysis::sites::{By, Sites};
use crate::render::terminal;

/// Which code holds the memory: live blocks by line, function, file or whole stack.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  oomscope top oom.pickle                       lines, at the OOM
  oomscope top oom.pickle --at peak --by file
  oomscope top oom.pickle --inclusive           each block counts for every user frame on its stack")]
pub struct Args {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    at: MomentArgs,
    /// What a row stands for
    #[arg(long, value_enum, default_value_t = Group::Line)]
    by: Group,
    /// Count a block for every user frame on its stack, not only for the innermost
    #[arg(long)]
    inclusive: bool,
    /// Rows to print; JSON has all
    #[arg(long, value_name = "N", default_value_t = 20)]
    limit: usize,
}

#[derive(Clone, Copy, ValueEnum)]
enum Group {
    /// The innermost line that is neither torch's nor an installed package's
    Line,
    /// Its function
    Function,
    /// Its file
    File,
    /// The whole stack
    Stack,
}

impl From<Group> for By {
    fn from(group: Group) -> Self {
        match group {
            Group::Line => Self::Line,
            Group::Function => Self::Function,
            Group::File => Self::File,
            Group::Stack => Self::Stack,
        }
    }
}

pub fn run(args: &Args) -> Result<Status> {
    let attribution = if args.inclusive { Attribution::Inclusive } else { Attribution::Own };
    ensure!(
        is_sensible(args.by.into(), attribution),
        "--inclusive counts a block for every frame on its stack, so it goes with --by line, function or file"
    );
    let loaded = input::open(&args.input)?;
    loaded.warn();
    let histories = loaded.histories(args.input.device)?;
    let sites = Sites::new(&loaded.snapshot, args.by.into());
    let rankings = histories
        .par_iter()
        .map(|history| Ok(live(history, history.moment(args.at.moment())?, &sites, attribution)))
        .collect::<Result<Vec<Ranking>>>()?;
    let text = match args.input.json {
        true => output::json("top", &loaded, &Document::new(&rankings))?,
        false => {
            let width = output::width();
            let tables = rankings
                .iter()
                .map(|ranking| terminal::heading(ranking) + &terminal::top(ranking, "site", args.limit, width));
            loaded.preface() + &tables.collect::<Vec<_>>().join("\n")
        }
    };
    output::print(&text)?;
    Ok(loaded.status())
}
