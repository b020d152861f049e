//! `oomscope map`

use std::path::PathBuf;

use anyhow::Result;
use clap::ValueEnum;
use rayon::prelude::*;

use super::args::{InputArgs, MomentArgs};
use super::{Status, input, output};
use crate::analysis::categories::{Classifier, Rules};
use crate::analysis::layout::{Document, Layout, LayoutOptions, layout, layout_by};
use crate::analysis::sites::{By, Sites};
use crate::render::map::{ColourBy, MapOptions, map_svg};

/// Every segment as a row of an SVG picture: live blocks, and the free memory that they pin hatched.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  oomscope map oom.pickle -o map.svg                at the OOM
  oomscope map oom.pickle -o map.svg --color site   blocks by the line that allocated them
  oomscope map oom.pickle -o map.svg --color category
  oomscope map oom.pickle -o map.svg --at 12000     after event 12 000")]
pub struct Args {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    at: MomentArgs,
    /// Write the picture here instead of to standard output
    #[arg(short, long, value_name = "FILE.svg")]
    output: Option<PathBuf>,
    /// What blocks are coloured by
    #[arg(long, value_enum, default_value_t = Colour::State, alias = "colour")]
    color: Colour,
    /// Categories of your own, with --color category: a TOML file with [[rule]] match = 'PATTERN', label = "NAME"
    #[arg(long, value_name = "FILE")]
    rules: Option<PathBuf>,
    /// Rows, about: where there are more segments, those with least pinned memory are folded by size
    #[arg(long, value_name = "N", default_value_t = 100)]
    rows: usize,
    /// Width of the picture in pixels
    #[arg(long, value_name = "PIXELS", default_value_t = 1200)]
    width: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Colour {
    /// Live, waiting, free in one way or another
    State,
    /// The line that allocated them
    Site,
    /// What they are for: parameters, gradients, activations …
    Category,
}

pub fn run(args: &Args) -> Result<Status> {
    let loaded = input::open(&args.input)?;
    loaded.warn();
    let histories = loaded.histories(args.input.device)?;
    let sites = Sites::new(&loaded.snapshot, By::Line);
    let rules = args.rules.as_deref().map_or_else(|| Ok(Rules::default()), input::rules)?;
    let by_category = args.color == Colour::Category;
    anyhow::ensure!(by_category || args.rules.is_none(), "--rules defines categories: add --color category");
    let classifier = by_category.then(|| Classifier::new(&loaded.snapshot, rules));
    let share = |total: usize| (total / histories.len().max(1)).max(1);
    // 400 rows are as many as a picture of bounded size holds.
    let options = LayoutOptions { rows: share(args.rows.min(400)), cells: share(LayoutOptions::default().cells) };
    let layouts = histories
        .par_iter()
        .map(|history| {
            let moment = history.moment(args.at.moment())?;
            Ok(match &classifier {
                Some(classifier) => layout_by(history, moment, &classifier.classify(history).groups(), &options),
                None => layout(history, moment, &sites, &options),
            })
        })
        .collect::<Result<Vec<Layout>>>()?;
    let text = match args.input.json {
        true => output::json("map", &loaded, &Document::new(&layouts))?,
        false => {
            let colour = match args.color {
                Colour::State => ColourBy::State,
                Colour::Site => ColourBy::Site,
                Colour::Category => ColourBy::Category,
            };
            map_svg(&layouts, &MapOptions { title: loaded.name.clone(), width: args.width, colour })
        }
    };
    match &args.output {
        Some(path) => output::write(path, &text)?,
        None => output::print(&text)?,
    }
    Ok(loaded.status())
}
