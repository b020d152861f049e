//! `oomscope report`

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};

use super::args::{InputArgs, MomentArgs};
use super::{Status, directory, input, output, timeline};
use crate::analysis::report::{Document, report};
use crate::analysis::series::Series;
use crate::analysis::sites::{By, Sites};
use crate::analysis::{fragmentation, ranking};
use crate::history::At;
use crate::render::terminal;

/// The whole post-mortem: what happened, who holds the memory, where the free memory is.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  oomscope report oom.pickle             at the last OOM, else at the peak
  oomscope report oom.pickle -o out      also writes out/report.json and out/timeline.svg
  oomscope report oom.pickle --oom 1     at the first of several OOMs
  oomscope report dumps/                 one line a file")]
pub struct Args {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    at: MomentArgs,
    /// Describe the K-th recorded OOM instead of the last
    #[arg(long, value_name = "K", conflicts_with = "at")]
    oom: Option<usize>,
    /// Also write report.json and timeline.svg into this directory, which is made if needed
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
}

pub fn run(args: &Args) -> Result<Status> {
    if args.input.file.is_dir() {
        return directory::run(&args.input);
    }
    let loaded = input::open(&args.input)?;
    loaded.warn();
    let histories = loaded.histories(args.input.device)?;
    let sites = Sites::new(&loaded.snapshot, By::Line);
    let at = args.oom.map_or_else(|| args.at.moment(), |number| At::Oom(Some(number)));
    let result =
        report(&loaded.snapshot, &histories, &sites, at, args.input.capacity).with_context(|| loaded.path.clone())?;
    let document = Document {
        info: &result.info,
        segments: fragmentation::Document {
            rules: &loaded.rules,
            at: result.devices.first().map(|device| device.at),
            devices: result.devices.iter().map(|device| &device.fragmentation).collect(),
        },
        top: ranking::Document::new(result.devices.iter().map(|device| &device.top)),
        whatif: result.whatif.as_ref(),
    };
    let json = || output::json("report", &loaded, &document);
    if let Some(directory) = &args.output {
        fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
        output::write(&directory.join("report.json"), &json()?)?;
        let series: Vec<Series> = result.devices.iter().filter_map(|device| device.series.clone()).collect();
        if !series.is_empty() {
            let picture = timeline::picture(&loaded, &series, 1200);
            output::write(&directory.join("timeline.svg"), &picture)?;
        }
    }
    let text = match args.input.json {
        true => json()?,
        false => loaded.preface() + &terminal::report(&loaded.name, &result, output::width()),
    };
    output::print(&text)?;
    Ok(loaded.status())
}
