//! `oomscope sql`: runs the plug-in that has the SQL engine.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::{Status, output};

/// Name of the plug-in.
const PLUGIN: &str = "oomscope-sql";

/// SQL over the tables of many snapshots (needs the plug-in oomscope-sql).
#[derive(clap::Args)]
#[command(
    disable_help_flag = true,
    after_help = "Examples:
  oomscope sql --help
  oomscope sql --list
  oomscope sql --query peak-by-rank dumps/"
)]
pub struct Args {
    /// Handed on to the plug-in; --help is answered by it
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "ARGUMENTS")]
    arguments: Vec<OsString>,
}

/// What the plug-in does, for whoever does not have it.
const ABOUT: &str = "\
SQL over the snapshots of a job's ranks, or over the tables made from them.

With the plug-in oomscope-sql:
  oomscope sql --list                               the queries that have a name: peaks by rank, odd lines, leaks …
  oomscope sql --query peak-by-rank dumps/          runs one of them
  oomscope sql 'SELECT rank, peak_allocated FROM devices ORDER BY 2 DESC' dumps/
  oomscope sql --query imbalance db --cluster df://scheduler:50050     on a Ballista cluster

Tables: devices, segments, blocks, events, stacks, frames, sites, steps, ooms, moments, leaks, timeline.

";

pub fn run(args: &Args) -> Result<Status> {
    let Some(plugin) = find() else {
        if args.arguments.iter().any(|argument| argument == "--help" || argument == "-h") {
            output::print(ABOUT)?;
        }
        bail!(
            "the plug-in {PLUGIN} is neither beside oomscope nor on PATH. It has the SQL engine, which takes many minutes to \
             build and is therefore apart: `cargo install --path sql` in the source tree installs it. Without it, \
             `oomscope export --format parquet --tables DIR` writes the tables for DuckDB, Spark or Polars"
        );
    };
    let status = Command::new(&plugin)
        .args(&args.arguments)
        .status()
        .with_context(|| format!("{} cannot be run", plugin.display()))?;
    // The plug-in has said what is wrong.
    Ok(if status.success() { Status::Done } else { Status::Partial })
}

/// The plug-in beside this program, else on PATH.
fn find() -> Option<PathBuf> {
    let name = format!("{PLUGIN}{}", std::env::consts::EXE_SUFFIX);
    let beside = std::env::current_exe().ok().and_then(|program| Some(program.parent()?.join(&name)));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|directory| directory.join(&name));
    beside.into_iter().chain(on_path).find(|candidate| candidate.is_file())
}
