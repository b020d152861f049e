//! `oomscope timeline`

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::ValueEnum;
use rayon::prelude::*;
use serde::Serialize;

use super::args::InputArgs;
use super::input::Loaded;
use super::{Status, input, output};
use crate::analysis::series::{Series, SeriesOptions, Unit, series};
use crate::analysis::sites::{By, Sites};
use crate::render::timeline::{TimelineOptions, timeline_svg};

/// Memory over time as an SVG picture: live memory by line, reserved above it, OOMs and the peak marked.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  oomscope timeline oom.pickle -o memory.svg
  oomscope timeline oom.pickle --x time > memory.svg")]
pub struct Args {
    #[command(flatten)]
    input: InputArgs,
    /// Write the picture here instead of to standard output
    #[arg(short, long, value_name = "FILE.svg")]
    output: Option<PathBuf>,
    /// What the horizontal axis counts
    #[arg(long, value_enum, default_value_t = Axis::Event)]
    x: Axis,
    /// Sites with a band of their own
    #[arg(long, value_name = "N", default_value_t = 12)]
    bands: usize,
    /// Width of the picture in pixels
    #[arg(long, value_name = "PIXELS", default_value_t = 1200)]
    width: u32,
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

pub fn run(args: &Args) -> Result<Status> {
    let loaded = input::open(&args.input)?;
    loaded.warn();
    let histories = loaded.histories(args.input.device)?;
    let sites = Sites::new(&loaded.snapshot, By::Line);
    let unit = match args.x {
        Axis::Event => Unit::Event,
        Axis::Time => Unit::Microseconds,
    };
    let options = SeriesOptions { bands: args.bands, unit, capacity: args.input.capacity, ..Default::default() };
    let all: Vec<Series> = histories.par_iter().filter_map(|history| series(history, &sites, &options)).collect();
    ensure!(
        !all.is_empty(),
        "{}: there is no history to draw: record with torch.cuda.memory._record_memory_history(max_entries=100000); \
         `oomscope segments` shows the state at the dump",
        loaded.path
    );
    let text = match args.input.json {
        true => output::json("timeline", &loaded, &Document { series: &all })?,
        false => picture(&loaded, &all, args.width),
    };
    match &args.output {
        Some(path) => output::write(path, &text)?,
        None => output::print(&text)?,
    }
    Ok(loaded.status())
}

/// The timeline of `series` under the name of the file.
pub fn picture(loaded: &Loaded, series: &[Series], width: u32) -> String {
    let part = if loaded.status() == Status::Partial { " (salvaged: a part only)" } else { "" };
    let title = format!("{}{part}", loaded.name);
    timeline_svg(series, &TimelineOptions { title, width, ..Default::default() })
}
