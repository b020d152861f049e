//! `oomscope whatif`

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};

use super::args::{InputArgs, RuleArgs};
use super::{Status, input, output, sources};
use crate::allocator::{RunOptions, TorchVersion, Workload, WorkloadRun};
use crate::analysis::whatif::{Options, whatif};
use crate::history::History;
use crate::render::terminal;
use crate::units::parse_size;

/// Replays the recorded requests through an exact simulator of the allocator, under other settings.
///
/// First the recorded settings are replayed and compared with the record, entry by entry. Every replay ends at the
/// recorded failure: what would have followed is not in the file.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  oomscope whatif oom.pickle                                  the usual settings
  oomscope whatif oom.pickle --set expandable_segments:True   this one
  oomscope whatif oom.pickle --capacity 24GiB                 on another card
  oomscope whatif oom.pickle --min-capacity                   how much memory each setting needs
  oomscope whatif --requests ops.json --capacity 4GiB --state out.jsonl   without a snapshot")]
pub struct Args {
    /// Snapshot: a pickle (.gz, .zst, .zip too), an HTML page of _memory_viz.py, JSON; `-` reads standard input
    #[arg(value_name = "FILE", required_unless_present = "requests")]
    file: Option<PathBuf>,
    /// Configuration string to try instead of the usual ones, with or without the name of its variable; may be repeated
    #[arg(long = "set", value_name = "CONF", value_parser = configuration)]
    settings: Vec<String>,
    /// Memory that PyTorch can have [default: what the recorded failure shows]
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    capacity: Option<u64>,
    /// Release to simulate [default: the one that fits the file]
    #[arg(long, value_name = "VERSION")]
    torch: Option<TorchVersion>,
    /// Compare up to the K-th recorded OOM instead of the last
    #[arg(long, value_name = "K")]
    oom: Option<usize>,
    /// Search the smallest capacity that runs the trace, for each setting
    #[arg(long)]
    min_capacity: bool,
    /// Use what is complete of a file that breaks off; every output says so, and the exit status is 2
    #[arg(long)]
    salvage: bool,
    /// Look at this device only [default: the one with the latest OOM]
    #[arg(long, value_name = "N")]
    device: Option<i64>,
    /// Print JSON with stable keys; sizes are integers in bytes
    #[arg(long)]
    json: bool,
    /// Run this list of requests (JSON) instead of a snapshot
    #[arg(long, value_name = "FILE", conflicts_with_all = ["file", "oom", "min_capacity", "salvage", "device", "json"])]
    requests: Option<PathBuf>,
    /// Write the state of the allocator to this file, one JSON object a line; `-` is standard output
    #[arg(long, value_name = "FILE", requires = "requests")]
    state: Option<PathBuf>,
    /// Write the state each N requests, not only at the end
    #[arg(long, value_name = "N", requires = "state", default_value_t = 0)]
    every: u64,
    #[command(flatten)]
    rules: RuleArgs,
}

/// Variables that PyTorch reads its allocator's configuration from.
const VARIABLES: [&str; 3] = ["PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF"];

/// The configuration in `text`, which may be a line for a shell: `export PYTORCH_CUDA_ALLOC_CONF="…"`.
fn configuration(text: &str) -> Result<String, String> {
    let unquoted = |text: &'_ str| text.trim().trim_matches(['"', '\'']).trim().to_owned();
    let line = unquoted(text);
    let line = line.strip_prefix("export ").map_or(line.as_str(), str::trim_start);
    match line.split_once('=') {
        None => Ok(unquoted(line)),
        Some((name, value)) if VARIABLES.contains(&name.trim()) => Ok(unquoted(value)),
        Some((name, _)) => {
            Err(format!("{} is not where PyTorch reads its settings: that is {}", name.trim(), VARIABLES.join(", ")))
        }
    }
}

pub fn run(args: &Args) -> Result<Status> {
    match (&args.requests, &args.file) {
        (Some(list), _) => requests(args, list),
        (None, Some(file)) => snapshot(args, file),
        (None, None) => bail!("name a snapshot, or a list of requests with --requests"),
    }
}

fn snapshot(args: &Args, file: &Path) -> Result<Status> {
    let loaded = input::open(&InputArgs {
        file: file.to_owned(),
        salvage: args.salvage,
        device: args.device,
        capacity: args.capacity,
        json: args.json,
        rules: args.rules.clone(),
    })?;
    loaded.warn();
    let histories = loaded.histories(args.device)?;
    // Devices without a trace have nothing to replay.
    let history = histories.iter().find(|history| history.health.recorded).or(histories.first());
    let history =
        history.with_context(|| format!("{}: no memory is reserved and nothing was recorded", loaded.path))?;
    let options = Options {
        few: false,
        settings: args.settings.clone(),
        capacity: args.capacity,
        torch: args.torch,
        oom: args.oom.map(|number| oom(history, number)).transpose()?,
        min_capacity: args.min_capacity,
        only_if_exact: false,
    };
    let result = {
        let _step = super::progress::Step::new("replaying the requests");
        whatif(history, &options).with_context(|| loaded.path.clone())?
    };
    let text = match args.json {
        true => output::json("whatif", &loaded, &result)?,
        false => {
            let torch = loaded.snapshot.format.torch();
            loaded.preface() + &terminal::whatif(&loaded.name, &torch, &result, output::width())
        }
    };
    output::print(&text)?;
    Ok(loaded.status())
}

/// The event of the `number`-th recorded failure, counted from 1.
fn oom(history: &History, number: usize) -> Result<u32> {
    let found = number.checked_sub(1).and_then(|at| history.ooms.get(at));
    let count = history.ooms.len();
    found.map(|oom| oom.event).with_context(|| format!("there is no OOM number {number}: the trace records {count}"))
}

fn requests(args: &Args, list: &Path) -> Result<Status> {
    let name = || list.display().to_string();
    let json = sources::read(list).with_context(name)?;
    let workload = Workload::from_json(&json).with_context(name)?;
    ensure!(args.settings.len() <= 1, "--requests takes one --set: run the command again for another setting");
    let options = RunOptions {
        version: args.torch.unwrap_or(TorchVersion::NEWEST),
        settings: args.settings.first().cloned(),
        total: args.capacity.filter(|_| workload.total.is_none()),
        capacity: args.capacity,
        every: args.every,
        trace: args.state.is_some(),
    };
    let mut run = WorkloadRun::new(&workload, &options);
    let problems: Vec<String> = run.settings().problems.iter().map(ToString::to_string).collect();
    ensure!(problems.is_empty(), "PyTorch {} does not accept the settings: {}", options.version, problems.join("; "));
    ensure!(
        run.settings().is_native(),
        "only PyTorch's own allocator is simulated, not the driver's: leave backend out"
    );
    let mut lines = Vec::new();
    run.run(&mut lines)?;
    let lines = String::from_utf8(lines)?;
    match &args.state {
        Some(path) if path.as_os_str() == "-" => output::print(&lines)?,
        state => {
            if let Some(path) = state {
                output::write(path, &lines)?;
            }
            output::print(&terminal::requests(&run, workload.operations.len() as u64))?;
        }
    }
    Ok(Status::Done)
}
