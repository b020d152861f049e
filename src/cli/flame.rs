//! `oomscope flame`

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use rayon::prelude::*;
use serde::Serialize;

use super::args::{InputArgs, MomentArgs};
use super::input::Loaded;
use super::{Status, input, output};
use crate::analysis::folded::{Folded, Frames, fold};
use crate::analysis::ranking::{Measure, Metric};
use crate::analysis::sites::{By, Sites};
use crate::analysis::window::WindowSpec;
use crate::history::{History, Moment};
use crate::render::flame::{FlameOptions, difference_svg, flame_svg};
use crate::units::count;

/// A flame graph as an SVG picture: which calls lead to the memory that is live, or that was allocated.
///
/// The width of a frame is the memory below it; the program's entry is at the top. Point at a frame for its figures.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  oomscope flame oom.pickle -o flame.svg                   live at the OOM, else at the peak
  oomscope flame oom.pickle --at end -o flame.svg
  oomscope flame oom.pickle --metric allocated --window step:3 -o step.svg
  oomscope flame oom.pickle --metric bytes-time -o held.svg bytes × the time that they were held
  oomscope flame --diff before.pickle after.pickle -o diff.svg")]
pub struct Args {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    at: MomentArgs,
    /// Draw what differs in FILE from this snapshot before it
    #[arg(long, value_name = "BEFORE")]
    diff: Option<PathBuf>,
    /// What the width of a frame counts
    #[arg(long, value_enum, default_value_t = Quantity::Live)]
    metric: Quantity,
    /// Part of the trace over which a metric other than live is counted, both ends included: A..B, A.. or ..B, where A
    /// and B are event numbers, @MICROSECONDS, step:N, oom, oom:K or peak; step:N alone is that step
    #[arg(long, value_name = "A..B")]
    window: Option<WindowSpec>,
    /// Draw C++ frames too, where the file has any
    #[arg(long)]
    native: bool,
    /// Write the picture here instead of to standard output
    #[arg(short, long, value_name = "FILE.svg")]
    output: Option<PathBuf>,
    /// Width of the picture in pixels
    #[arg(long, value_name = "PIXELS", default_value_t = 1200)]
    width: u32,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Quantity {
    /// Bytes live at the moment of --at
    Live,
    /// Bytes handed out
    Allocated,
    /// Bytes both handed out and freed
    Churn,
    /// Number of allocations
    Count,
    /// Bytes × the time that they were held
    BytesTime,
}

impl Quantity {
    fn over_window(self) -> Option<Metric> {
        Some(match self {
            Self::Live => return None,
            Self::Allocated => Metric::Allocated,
            Self::Churn => Metric::Churn,
            Self::Count => Metric::Count,
            Self::BytesTime => Metric::BytesTime,
        })
    }

    fn words(self) -> &'static str {
        match self {
            Self::Live => "bytes live",
            Self::Allocated => "bytes allocated",
            Self::Churn => "bytes allocated and freed",
            Self::Count => "allocations",
            Self::BytesTime => "bytes × time held",
        }
    }
}

#[derive(Serialize)]
struct Document<'a> {
    metric: &'static str,
    #[serde(flatten)]
    folded: &'a Folded,
    #[serde(skip_serializing_if = "Option::is_none")]
    before: Option<&'a Folded>,
}

pub fn run(args: &Args) -> Result<Status> {
    ensure!(
        args.metric != Quantity::Live || args.window.is_none(),
        "--metric live is of one moment: choose it with --at, or another metric for the window"
    );
    ensure!(
        args.metric == Quantity::Live || args.at.at.is_none(),
        "--at chooses the moment for --metric live; other metrics are counted over --window A..B"
    );
    let loaded = input::open(&args.input)?;
    let (folded, when) = folded(&loaded, args)?;
    let Some(before) = &args.diff else {
        let text = match args.input.json {
            true => output::json("flame", &loaded, &document(args, &folded, None))?,
            false => {
                let options = options(args, loaded.title(), &format!("{}, {when}", args.metric.words()));
                flame_svg(&folded, &options).with_context(|| nothing(&loaded, args))?
            }
        };
        return finish(args, &text, loaded.status());
    };
    let before = input::open(&InputArgs { file: before.clone(), ..args.input.clone() })?;
    let (folded_before, when_before) = self::folded(&before, args)?;
    let text = match args.input.json {
        true => output::json("flame", &loaded, &document(args, &folded, Some(&folded_before)))?,
        false => {
            let title = format!("{} → {}", before.title(), loaded.title());
            let options = options(args, title, &format!("{}, {when_before}; then {when}", args.metric.words()));
            difference_svg(&folded_before, &folded, (&before.title(), &loaded.title()), &options)
                .with_context(|| nothing(&loaded, args))?
        }
    };
    finish(args, &text, loaded.status().and(before.status()))
}

fn finish(args: &Args, text: &str, status: Status) -> Result<Status> {
    match &args.output {
        Some(path) => output::write(path, text)?,
        None => output::print(text)?,
    }
    Ok(status)
}

fn document<'a>(args: &Args, folded: &'a Folded, before: Option<&'a Folded>) -> Document<'a> {
    let metric = args.metric.over_window().map_or("live", |metric| metric.name());
    Document { metric, folded, before }
}

fn options(args: &Args, title: String, subtitle: &str) -> FlameOptions {
    FlameOptions { title, subtitle: subtitle.to_owned(), width: args.width }
}

fn nothing(loaded: &Loaded, args: &Args) -> String {
    format!("{}: there is nothing to draw: no {} in it", loaded.path, args.metric.words())
}

/// The stacks of all devices, and when they are counted, in words.
fn folded(loaded: &Loaded, args: &Args) -> Result<(Folded, String)> {
    loaded.warn();
    let histories = loaded.histories(args.input.device)?;
    let sites = Sites::new(&loaded.snapshot, By::Stack);
    let frames = if args.native { Frames::All } else { Frames::Python };
    let counted = histories.par_iter().map(|history| {
        let (measure, when) = measure(history, args)?;
        Ok((format!("device {}", history.device.ordinal), fold(history, &sites, measure, frames), when))
    });
    let mut counted = counted.collect::<Result<Vec<_>>>().with_context(|| loaded.path.clone())?;
    if counted.len() == 1 {
        let (_, folded, when) = counted.remove(0);
        return Ok((folded, when));
    }
    let is_one = counted.iter().all(|(_, _, when)| *when == counted[0].2);
    let when = match is_one {
        true => counted.first().map_or_else(String::new, |(_, _, when)| when.clone()),
        false => {
            let each = counted.iter().map(|(name, _, when)| format!("{name} {when}"));
            each.collect::<Vec<_>>().join("; ")
        }
    };
    let all = Folded::below(counted.into_iter().map(|(name, folded, _)| (name, folded)));
    Ok((all.with_context(|| format!("{}: there is no device in the file", loaded.path))?, when))
}

fn measure(history: &History, args: &Args) -> Result<(Measure, String)> {
    let Some(metric) = args.metric.over_window() else {
        let moment = history.moment(args.at.moment())?;
        return Ok((Measure::Live(moment), words(moment)));
    };
    let window = args.window.unwrap_or_default().resolve(history)?;
    let when = format!("events {} to {}", count(window.first.into()), count(window.last.into()));
    Ok((Measure::Over(metric, window), when))
}

fn words(moment: Moment) -> String {
    let event = moment.event.map_or_else(String::new, |event| format!(", event {}", count(event.into())));
    match moment.what {
        "oom" => format!("at the OOM{event}"),
        "peak" => format!("at the peak{event}"),
        "end" => "at the end".to_owned(),
        _ => format!("after the event{event}"),
    }
}
