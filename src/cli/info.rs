//! `oomscope info`

use anyhow::Result;

use super::args::InputArgs;
use super::{Status, input, output};
use crate::analysis::info;
use crate::render::terminal;

/// What is in the file: torch releases, settings, devices, events, peaks, trace health.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  oomscope info oom.pickle --json")]
pub struct Args {
    #[command(flatten)]
    input: InputArgs,
}

pub fn run(args: &Args) -> Result<Status> {
    let loaded = input::open(&args.input)?;
    loaded.warn();
    let histories = loaded.histories(args.input.device)?;
    let result = info::info(&loaded.snapshot, &histories);
    let text = match args.input.json {
        true => output::json("info", &loaded, &result)?,
        false => loaded.preface() + &terminal::info(&loaded.name, &result, output::width()),
    };
    output::print(&text)?;
    Ok(loaded.status())
}
