//! `oomscope check`

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use rayon::prelude::*;

use super::args::{InputArgs, RuleArgs};
use super::input::Loaded;
use super::{Status, input, output, sources};
use crate::analysis::check::{
    Check, DeviceFigures, Growth, Limits, Optional, Size, Verdict, baseline, check, figures, is_baseline, new_figures,
    parse_share,
};
use crate::analysis::sites::{By, Sites};
use crate::render::junit::{junit, junit_unreadable};
use crate::render::terminal;
use crate::units::parse_size;

/// A gate for continuous integration: fails when memory has grown, leaks, or ran out.
///
/// Without flags: the peak of live memory at most 5 % above BASE's (when there is a BASE), no leak of 1 MiB a step or
/// more, and no more recorded failures than in BASE (none without). Every device is held against the limits.
///
/// Exit status: 0 every gate passed; 1 a gate failed; 2 no gate failed, but one cannot be judged (no history, a damaged
/// file, a trace that may lack the peak).
#[derive(clap::Args)]
#[command(after_help = "Examples:
  oomscope check base.pickle new.pickle                  peak +5 %, no leak of 1 MiB a step
  oomscope check base.pickle new.pickle --max-peak-growth 200MiB --max-reserved-growth 10%
  oomscope check new.pickle --max-peak 70GiB --max-fragmentation 10%
  oomscope check base.json new.pickle --json > new.json  BASE as JSON: no pickle need be kept
  oomscope check base.json new.pickle --junit memory.xml")]
pub struct Args {
    /// The file before, unless NEW is the only one: a snapshot, or the JSON of `check`, `report` or `info`
    #[arg(value_name = "BASE")]
    first: PathBuf,
    /// The file to judge
    #[arg(value_name = "NEW")]
    second: Option<PathBuf>,
    /// How much the peak of live memory may grow over BASE: 5%, 200MiB, none [default: 5%]
    #[arg(long, value_name = "GROWTH")]
    max_peak_growth: Option<Optional<Growth>>,
    /// How much the peak of reserved memory may grow over BASE
    #[arg(long, value_name = "GROWTH")]
    max_reserved_growth: Option<Growth>,
    /// Fail when the leaks together add this much in a step, or more; or none
    #[arg(long, value_name = "SIZE", default_value = "1MiB")]
    max_leak_per_step: Optional<Size>,
    /// Largest share of the reserved memory, at its peak, that may be free next to live blocks: 10%
    #[arg(long, value_name = "SHARE", value_parser = parse_share)]
    max_fragmentation: Option<f64>,
    /// Largest peak of live memory
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    max_peak: Option<u64>,
    /// Largest peak of reserved memory
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    max_reserved: Option<u64>,
    /// Let a job that ran out of memory pass
    #[arg(long)]
    allow_oom: bool,
    /// Judge by what was recorded where the trace began with memory in use, so that an earlier peak would be lost
    #[arg(long)]
    partial: bool,
    /// Write the gates as JUnit XML to this file
    #[arg(long, value_name = "FILE")]
    junit: Option<PathBuf>,
    /// Use what is complete of a file that breaks off
    #[arg(long)]
    salvage: bool,
    /// Look at this device only
    #[arg(long, value_name = "N")]
    device: Option<i64>,
    /// Print JSON with stable keys; sizes are integers in bytes
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    rules: RuleArgs,
}

/// What is judged.
struct Judged {
    new: Loaded,
    base: Option<String>,
    check: Check,
    status: Status,
}

pub fn run(args: &Args) -> Result<Status> {
    let new = args.second.as_ref().unwrap_or(&args.first);
    // The gates are also written when a file cannot be read.
    [&args.first, new].into_iter().for_each(|path| sources::note(path));
    let judged = match judge(args, new) {
        Ok(judged) => judged,
        Err(error) => {
            if let Some(path) = &args.junit {
                output::write(path, &junit_unreadable(&new.display().to_string(), &format!("{error:#}")))?;
            }
            return Err(error);
        }
    };
    if let Some(path) = &args.junit {
        output::write(path, &junit(&judged.new.path, &judged.check))?;
    }
    let text = match args.json {
        true => output::json("check", &judged.new, &judged.check)?,
        false => {
            let base = judged.base.as_deref();
            judged.new.preface() + &terminal::check(&judged.new.name, base, &judged.check, output::width())
        }
    };
    output::print(&text)?;
    Ok(match judged.check.verdict {
        Verdict::Failed => Status::Failed,
        Verdict::Unknown => Status::Partial,
        Verdict::Passed => judged.status,
    })
}

fn judge(args: &Args, new: &Path) -> Result<Judged> {
    let limits = limits(args)?;
    let base = args.second.is_some().then(|| base(args)).transpose()?;
    let new = input::open(&input_of(args, new))?;
    new.warn();
    let histories = new.histories(args.device)?;
    let sites = Sites::new(&new.snapshot, By::Line);
    let with_leaks = limits.leak_per_step.is_some();
    let of_devices: Vec<_> =
        histories.par_iter().map(|history| (figures(history), new_figures(history, &sites, with_leaks))).collect();
    let check = check(&of_devices, base.as_ref().map(|(_, figures, _)| figures.as_slice()), &limits);
    let status = base.as_ref().map_or(Status::Done, |(_, _, status)| *status).and(new.status());
    drop(histories);
    Ok(Judged { base: base.map(|(name, ..)| name), check, status, new })
}

fn limits(args: &Args) -> Result<Limits> {
    let has_base = args.second.is_some();
    ensure!(
        has_base || (args.max_peak_growth.is_none() && args.max_reserved_growth.is_none()),
        "growth needs two files: oomscope check BASE NEW; --max-peak and --max-reserved judge one alone"
    );
    let peak_growth = match args.max_peak_growth {
        Some(Optional(growth)) => growth,
        None => has_base.then_some(Growth::Share(0.05)),
    };
    let limits = Limits {
        peak_growth,
        reserved_growth: args.max_reserved_growth,
        peak: args.max_peak,
        reserved: args.max_reserved,
        leak_per_step: args.max_leak_per_step.0.map(|Size(bytes)| bytes),
        fragmentation: args.max_fragmentation,
        allow_oom: args.allow_oom,
        partial: args.partial,
    };
    let nothing = Limits { allow_oom: true, partial: limits.partial, ..Limits::default() };
    ensure!(limits != nothing, "every gate is left out: nothing would be judged");
    Ok(limits)
}

/// The file before: its name, its figures, and whether all of it was read.
fn base(args: &Args) -> Result<(String, Vec<DeviceFigures>, Status)> {
    let path = &args.first;
    if let Some(text) = written_by_us(path)? {
        let figures = baseline(&text).with_context(|| path.display().to_string())?;
        let figures = figures.into_iter().filter(|one| args.device.is_none_or(|device| device == one.device));
        return Ok((path.display().to_string(), figures.collect(), Status::Done));
    }
    let loaded = input::open(&input_of(args, path))?;
    loaded.warn();
    let figures = loaded.histories(args.device)?.par_iter().map(figures).collect();
    Ok((loaded.name.clone(), figures, loaded.status()))
}

/// The content of `path`, when it is JSON that an earlier run printed.
fn written_by_us(path: &Path) -> Result<Option<Vec<u8>>> {
    use std::io::Read;
    /// More than what comes before the first key.
    const START: u64 = 256;
    if !path.is_file() {
        return Ok(None);
    }
    let mut file = fs::File::open(path).with_context(|| path.display().to_string())?;
    let mut text = Vec::new();
    file.by_ref().take(START).read_to_end(&mut text).with_context(|| path.display().to_string())?;
    if !is_baseline(&text) {
        return Ok(None);
    }
    file.read_to_end(&mut text).with_context(|| path.display().to_string())?;
    Ok(Some(text))
}

fn input_of(args: &Args, file: &Path) -> InputArgs {
    InputArgs {
        file: file.to_owned(),
        salvage: args.salvage,
        device: args.device,
        capacity: None,
        json: args.json,
        rules: args.rules.clone(),
    }
}
