//! `oomscope timeline`

use std::ops::Range;
use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use rayon::prelude::*;
use serde::Serialize;

use super::args::InputArgs;
use super::input::Loaded;
use super::{Status, input, output};
use crate::analysis::categories::{Classifier, Rules};
use crate::analysis::ranking::{LifeGroups, annotations, pools, streams};
use crate::analysis::series::{Series, SeriesOptions, Unit, What, by_size, grouped};
use crate::analysis::sites::{By, Sites};
use crate::analysis::window::WindowSpec;
use crate::history::History;
use crate::render::timeline::{MAX_COLUMNS, TimelineOptions, timeline_svg, timeline_text};

/// Memory over time as an SVG picture: live memory by line, reserved above it, OOMs, steps and the peak marked.
///
/// Each column of the picture shows the highest moment of the events that it covers, so no peak is lost; what is only
/// reached at times within a column is paler.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  oomscope timeline oom.pickle -o memory.svg                  by line
  oomscope timeline oom.pickle --text                         in characters, for a terminal
  oomscope timeline oom.pickle --stack-by category -o kinds.svg
  oomscope timeline oom.pickle --window 12000..oom -o end.svg  a part of the trace
  oomscope timeline oom.pickle --window step:3 -o step.svg    one step
  oomscope timeline oom.pickle --what blocks -o blocks.svg    every large block on its own
  oomscope timeline oom.pickle --what segments -o reserved.svg")]
pub struct Args {
    #[command(flatten)]
    input: InputArgs,
    /// Write the picture here instead of to standard output
    #[arg(short, long, value_name = "FILE.svg")]
    output: Option<PathBuf>,
    /// Draw it in characters instead, as wide as the terminal (else 100 columns)
    #[arg(long, conflicts_with_all = ["json", "output"])]
    text: bool,
    /// What to draw
    #[arg(long, value_enum, default_value_t = Subject::Live)]
    what: Subject,
    /// What live memory is stacked by [default: site]
    #[arg(long, value_enum, value_name = "GROUP")]
    stack_by: Option<Group>,
    /// Rules for categories (TOML) that come before the built-in ones
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// Part of the trace, both ends included: A..B, A.. or ..B, where A and B are event numbers, @MICROSECONDS, step:N,
    /// oom, oom:K or peak; step:N alone is that step
    #[arg(long, value_name = "A..B")]
    window: Option<WindowSpec>,
    /// What the horizontal axis counts
    #[arg(long, value_enum, default_value_t = Axis::Event)]
    x: Axis,
    /// Sites with a band of their own, or blocks or segments with a ribbon of their own [default: 12, or 400]
    #[arg(long, value_name = "N")]
    bands: Option<usize>,
    /// Width of the picture in pixels, or of the text in columns [default: 1200]
    #[arg(long, value_name = "PIXELS")]
    width: Option<u32>,
    /// Height of each device's plot in pixels, or in lines of text [default: 420, with several devices 240; 20]
    #[arg(long, value_name = "PIXELS")]
    height: Option<u32>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Subject {
    /// Live memory, grouped
    Live,
    /// Live memory, every large block a ribbon
    Blocks,
    /// Reserved memory, every large segment a ribbon
    Segments,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum Group {
    /// The line that allocated it
    Site,
    /// What it is for: parameters, activations and so on
    Category,
    /// The size of its blocks
    Size,
    /// The stream of its blocks
    Stream,
    /// The private pool that it lies in, or the default one
    Pool,
    /// The annotated region that it was allocated in
    Annotation,
}

#[derive(Clone, Copy, ValueEnum)]
enum Axis {
    /// Events
    Event,
    /// Time
    Time,
}

#[derive(Serialize)]
struct Document<'a> {
    series: &'a [Series],
}

/// Columns of a chart in characters, where the terminal does not tell.
const TEXT_WIDTH: usize = 100;
/// Lines of its plot.
const TEXT_HEIGHT: usize = 20;
/// Bands where each is a site.
const BANDS: usize = 12;
/// Bands where each is a block or a segment.
const RIBBONS: usize = 400;

pub fn run(args: &Args) -> Result<Status> {
    let what = match args.what {
        Subject::Live => What::Live,
        Subject::Blocks => What::Blocks,
        Subject::Segments => What::Segments,
    };
    ensure!(
        args.stack_by.is_none() || what == What::Live,
        "--stack-by groups live memory: it goes with --what live, the default"
    );
    ensure!(
        args.rules.is_none() || args.stack_by == Some(Group::Category),
        "--rules defines categories: add --stack-by category"
    );
    let loaded = input::open(&args.input)?;
    loaded.warn();
    let histories = loaded.histories(args.input.device)?;
    let sites = Sites::new(&loaded.snapshot, By::Line);
    let unit = match args.x {
        Axis::Event => Unit::Event,
        Axis::Time => Unit::Microseconds,
    };
    let bands = args.bands.unwrap_or(if what == What::Live { BANDS } else { RIBBONS });
    let mut options = SeriesOptions { bands, unit, capacity: args.input.capacity, what, ..Default::default() };
    options.columns = options.columns.min(MAX_COLUMNS / histories.len().max(1)).max(1);
    let groups = Grouping::new(args, &loaded)?;
    let all: Vec<Result<Option<Series>>> = histories
        .par_iter()
        .map(|history| {
            let window = args.window.map(|window| events(window, history)).transpose()?;
            let options = SeriesOptions { window, ..options.clone() };
            Ok(grouped(history, &sites, groups.of(history).as_ref(), &options))
        })
        .collect();
    let all = with_window(all).with_context(|| loaded.path.clone())?;
    ensure!(
        !all.is_empty(),
        "{}: there is no history to draw: record with {}; `oomscope segments` shows the state at the dump",
        loaded.path,
        loaded.snapshot.format.recording()
    );
    let text = match (args.input.json, args.text) {
        (true, _) => output::json("timeline", &loaded, &Document { series: &all })?,
        (_, true) => characters(&loaded, &all, args),
        _ => {
            let title = loaded.title();
            timeline_svg(&all, &TimelineOptions { title, width: args.width.unwrap_or(1200), height: args.height })
        }
    };
    match &args.output {
        Some(path) => output::write(path, &text)?,
        None => output::print(&text)?,
    }
    Ok(loaded.status())
}

/// The events of `window`.
fn events(window: WindowSpec, history: &History) -> Result<Range<u32>> {
    let window = window.resolve(history)?;
    Ok(window.first..window.last + 1)
}

/// The series there are. A window may lie outside the trace of one of several devices, of which there is then no series.
fn with_window(all: Vec<Result<Option<Series>>>) -> Result<Vec<Series>> {
    let mut found = Vec::new();
    let mut failed = None;
    for series in all {
        match series {
            Ok(series) => found.extend(series),
            Err(error) => failed = failed.or(Some(error)),
        }
    }
    match failed {
        Some(error) if found.is_empty() => Err(error),
        Some(error) => {
            eprintln!("oomscope: warning: {error}");
            Ok(found)
        }
        None => Ok(found),
    }
}

/// What live memory is stacked by, where it is not by site.
struct Grouping {
    by: Group,
    classifier: Option<Classifier>,
}

impl Grouping {
    fn new(args: &Args, loaded: &Loaded) -> Result<Self> {
        let by = args.stack_by.unwrap_or(Group::Site);
        let rules = args.rules.as_deref().map_or_else(|| Ok(Rules::default()), input::rules)?;
        let classifier = (by == Group::Category).then(|| Classifier::new(&loaded.snapshot, rules));
        Ok(Self { by, classifier })
    }

    fn of(&self, history: &History) -> Option<LifeGroups> {
        match self.by {
            Group::Site => None,
            Group::Category => self.classifier.as_ref().map(|classifier| classifier.classify(history).groups()),
            Group::Size => Some(by_size(history)),
            Group::Stream => Some(streams(history)),
            Group::Pool => Some(pools(history)),
            Group::Annotation => Some(annotations(history)),
        }
    }
}

/// The timeline of `series` under the name of the file.
pub fn picture(loaded: &Loaded, series: &[Series], width: u32) -> String {
    timeline_svg(series, &TimelineOptions { title: loaded.title(), width, ..Default::default() })
}

fn characters(loaded: &Loaded, all: &[Series], args: &Args) -> String {
    let width = args.width.map(|width| width as usize).or_else(output::width).unwrap_or(TEXT_WIDTH);
    let height = args.height.map_or(TEXT_HEIGHT, |height| height as usize);
    let charts = all.iter().map(|series| {
        let title = format!("{} · device {}", loaded.title(), series.device);
        timeline_text(series, &title, width, height)
    });
    charts.collect::<Vec<_>>().join("\n")
}
