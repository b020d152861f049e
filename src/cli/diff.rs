//! `oomscope diff`

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow, ensure};
use rayon::prelude::*;
use serde::Serialize;

use super::args::InputArgs;
use super::input::Loaded;
use super::{Status, input, output};
use crate::analysis::diff::{Diff, MAX_FILES, Options, Renamed, Sides, diff, letter};
use crate::analysis::folded::{Folded, Frames, fold};
use crate::analysis::ranking::Measure;
use crate::analysis::series::{Series, SeriesOptions, series};
use crate::analysis::sites::{By, Sites};
use crate::history::{At, History};
use crate::render::flame::{FlameOptions, difference_svg};
use crate::render::terminal::{self, DiffFile};
use crate::render::timeline::{TimelineOptions, titled_svg};
use crate::snapshot::Settings;

/// Two or more snapshots beside each other: what a change of settings, code or version came to.
///
/// Without --at, files that all failed are compared at their last failures. When only some failed, and the others asked
/// for the same memory up to there, all are compared before that request; else at their peaks, else at the end.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  oomscope diff before.pickle after.pickle
  oomscope diff before.pickle after.pickle -o out          also out/timeline.svg, out/flame.svg and out/diff.json
  oomscope diff before.pickle after.pickle -o both.svg     the timelines on one scale
  oomscope diff old.pickle new.pickle --ignore-lines       when the code moved: by function
  oomscope diff old.pickle new.pickle --map /home/a=/home/b
  oomscope diff monday.pickle tuesday.pickle wednesday.pickle --at peak")]
pub struct Args {
    #[command(flatten)]
    input: InputArgs,
    /// The snapshots to compare with the first
    #[arg(value_name = "AFTER", required = true)]
    others: Vec<PathBuf>,
    /// Moment in each file: end, peak, peak:COUNTER, oom, oom:K, an event number, @MICROSECONDS or step:S
    #[arg(long, value_name = "MOMENT")]
    at: Option<At>,
    /// Compare functions instead of lines, for code in which lines have moved
    #[arg(long)]
    ignore_lines: bool,
    /// A path that was renamed, or the end of one; may be repeated
    #[arg(long = "map", value_name = "OLD=NEW")]
    renamed: Vec<Renamed>,
    /// Write pictures and JSON into this directory, which is made if needed; with .svg, only the timelines to this file
    #[arg(short, long, value_name = "DIR|FILE.svg")]
    output: Option<PathBuf>,
    /// Rows of each table; JSON has all
    #[arg(long, value_name = "N", default_value_t = 8)]
    limit: usize,
}

/// The JSON of a comparison.
#[derive(Serialize)]
struct Document<'a> {
    #[serde(flatten)]
    files: Sides<FileDocument<'a>>,
    devices: &'a [Diff],
    /// Devices that not every file has.
    left_out: &'a [i64],
}

/// One of the files.
#[derive(Serialize)]
struct FileDocument<'a> {
    file: &'a str,
    torch: String,
    settings: &'a Settings,
    warnings: Vec<String>,
}

pub fn run(args: &Args) -> Result<Status> {
    ensure!(args.others.len() < MAX_FILES, "at most {MAX_FILES} files can be compared");
    let mut all = vec![input::open(&args.input)?];
    for path in &args.others {
        all.push(input::open(&InputArgs { file: path.clone(), ..args.input.clone() })?);
    }
    all.iter().for_each(Loaded::warn);
    let by = if args.ignore_lines { By::Function } else { By::Line };
    let histories: Vec<Vec<History>> =
        all.iter().map(|loaded| loaded.histories(args.input.device)).collect::<Result<_>>()?;
    let sites: Vec<Sites> = all.iter().map(|loaded| Sites::new(&loaded.snapshot, by)).collect();
    let (groups, left_out) = common_devices(&histories);
    ensure!(
        !groups.is_empty(),
        "these snapshots have no device in common: {}",
        all.iter().zip(&histories).map(|(loaded, list)| devices_of(loaded, list)).collect::<Vec<_>>().join("; ")
    );
    let options = Options { at: args.at, renamed: args.renamed.clone() };
    let compared = groups.par_iter().map(|group| {
        let files: Vec<(&History, &Sites)> = group.iter().copied().zip(&sites).collect();
        diff(&files, &options).map_err(|(file, error)| anyhow!("{} ({}): {error}", letter(file), all[file].path))
    });
    let devices = compared.collect::<Result<Vec<Diff>>>()?;
    if let Some(path) = &args.output {
        let pictures = Pictures { all: &all, groups: &groups, devices: &devices, capacity: args.input.capacity };
        write(path, &pictures, || json(&all, &devices, &left_out))?;
    }
    let text = match args.input.json {
        true => json(&all, &devices, &left_out)?,
        false => text(args, &all, &groups, &devices, &left_out),
    };
    output::print(&text)?;
    Ok(all.iter().fold(Status::Done, |status, loaded| status.and(loaded.status())))
}

/// The devices that every file has, each with its history in every file, and those that are left out. When each file
/// has one device, these are compared whatever their numbers.
fn common_devices<'h, 'a>(histories: &'h [Vec<History<'a>>]) -> (Vec<Vec<&'h History<'a>>>, Vec<i64>) {
    if histories.iter().all(|list| list.len() == 1) {
        return (vec![histories.iter().flatten().collect()], Vec::new());
    }
    let ordinals: BTreeSet<i64> = histories.iter().flatten().map(|history| history.device.ordinal).collect();
    // The order of the first file: the device that failed comes first.
    let mut groups = Vec::new();
    for first in &histories[0] {
        let of = |list: &'h Vec<History<'a>>| list.iter().find(|other| other.device.ordinal == first.device.ordinal);
        groups.extend(histories.iter().map(of).collect::<Option<Vec<_>>>());
    }
    let is_compared = |ordinal: &i64| groups.iter().any(|group| group[0].device.ordinal == *ordinal);
    let left_out = ordinals.into_iter().filter(|ordinal| !is_compared(ordinal)).collect();
    (groups, left_out)
}

fn devices_of(loaded: &Loaded, histories: &[History]) -> String {
    let ordinals: Vec<String> = histories.iter().map(|history| history.device.ordinal.to_string()).collect();
    let list = if ordinals.is_empty() { "none".to_owned() } else { ordinals.join(", ") };
    format!("{} has {list}", loaded.name)
}

fn json(all: &[Loaded], devices: &[Diff], left_out: &[i64]) -> Result<String> {
    let file = |loaded: &'_ Loaded| loaded.snapshot.warnings.iter().map(ToString::to_string).collect();
    let files = all.iter().map(|loaded| FileDocument {
        file: &loaded.path,
        torch: loaded.snapshot.format.torch(),
        settings: &loaded.snapshot.settings,
        warnings: file(loaded),
    });
    output::json("diff", &all[0], &Document { files: files.collect(), devices, left_out })
}

fn text(args: &Args, all: &[Loaded], groups: &[Vec<&History>], devices: &[Diff], left_out: &[i64]) -> String {
    let mut text: String = all.iter().map(Loaded::preface).collect();
    for (group, device) in groups.iter().zip(devices) {
        let files: Vec<DiffFile> =
            all.iter().zip(group).map(|(loaded, history)| DiffFile { name: &loaded.name, history }).collect();
        text += &terminal::diff(&files, device, args.limit, output::width());
    }
    for ordinal in left_out {
        text += &format!("device {ordinal} is not in every file and is left out\n");
    }
    text
}

/// What pictures are made of.
struct Pictures<'p, 'a> {
    all: &'p [Loaded],
    groups: &'p [Vec<&'p History<'a>>],
    devices: &'p [Diff],
    capacity: Option<u64>,
}

fn write(path: &Path, pictures: &Pictures, json: impl Fn() -> Result<String>) -> Result<()> {
    if path.extension().is_some_and(|ending| ending == "svg") {
        let timelines = pictures.timelines().context("no file has a history to draw")?;
        return output::write(path, &timelines);
    }
    output::make_directory(path)?;
    output::write(&path.join("diff.json"), &json()?)?;
    if let Some(timelines) = pictures.timelines() {
        output::write(&path.join("timeline.svg"), &timelines)?;
    }
    if let Some(flame) = pictures.flame() {
        output::write(&path.join("flame.svg"), &flame)?;
    }
    Ok(())
}

impl Pictures<'_, '_> {
    /// The timelines of all files, those of one device below each other; `None` without history.
    fn timelines(&self) -> Option<String> {
        let options = SeriesOptions { capacity: self.capacity, ..SeriesOptions::default() };
        let sites: Vec<Sites> = self.all.iter().map(|loaded| Sites::new(&loaded.snapshot, By::Line)).collect();
        let titles: Vec<String> =
            self.all.iter().enumerate().map(|(at, loaded)| format!("{}  {}", letter(at), loaded.title())).collect();
        let mut drawn: Vec<(&str, Series)> = Vec::new();
        for group in self.groups {
            for ((history, sites), title) in group.iter().zip(&sites).zip(&titles) {
                drawn.extend(series(history, sites, &options).map(|series| (title.as_str(), series)));
            }
        }
        let (titles, series): (Vec<&str>, Vec<Series>) = drawn.into_iter().unzip();
        let names: Vec<&str> = self.all.iter().map(|loaded| loaded.name.as_str()).collect();
        let options = TimelineOptions { title: names.join(", "), ..TimelineOptions::default() };
        (!series.is_empty()).then(|| titled_svg(&series, &titles, &options))
    }

    /// What differs between the first file and the last; `None` when nothing is live in either.
    fn flame(&self) -> Option<String> {
        let last = self.all.len() - 1;
        let folded = |file: usize| {
            let sites = Sites::new(&self.all[file].snapshot, By::Stack);
            let mut parts: Vec<(String, Folded)> = Vec::new();
            for (group, device) in self.groups.iter().zip(self.devices) {
                let live = Measure::Live(device.at.0[file]);
                parts.push((format!("device {}", device.device), fold(group[file], &sites, live, Frames::Python)));
            }
            if parts.len() == 1 { parts.pop().map(|(_, folded)| folded) } else { Folded::below(parts) }
        };
        let (before, after) = (&self.all[0], &self.all[last]);
        let options = FlameOptions {
            title: format!("{} → {}", before.title(), after.title()),
            subtitle: "bytes live, at the moments that were compared".to_owned(),
            width: 1200,
        };
        difference_svg(&folded(0)?, &folded(last)?, (&before.title(), &after.title()), &options)
    }
}
