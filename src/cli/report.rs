//! `oomscope report`

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;

use super::args::{InputArgs, MomentArgs};
use super::evidence::EvidenceArgs;
use super::input::Loaded;
use super::{Status, directory, input, output, sources, timeline};
use crate::analysis::closeup::close_ups;
use crate::analysis::report::{Document, Report, report};
use crate::analysis::series::Series;
use crate::analysis::sites::{By, Sites};
use crate::analysis::verdict::Evidence;
use crate::analysis::{leaks, ranking, segments};
use crate::history::{At, History};
use crate::render::{html, markdown, terminal};

/// The whole post-mortem: what happened, who holds the memory, where the free memory is.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  oomscope report oom.pickle             at the last OOM, else at the peak
  oomscope report oom.pickle -o out      also writes out/report.html, out/report.json and out/timeline.svg
  oomscope report oom.pickle --format md for a ticket or a chat
  oomscope report oom.pickle --oom 1     at the first of several OOMs
  oomscope report oom.pickle --log job.log --nvidia-smi smi.txt
  oomscope report dumps/                 one line a file")]
pub struct Args {
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    at: MomentArgs,
    /// Describe the K-th recorded OOM instead of the last
    #[arg(long, value_name = "K", conflicts_with = "at")]
    oom: Option<usize>,
    /// The job's log, or its error text: joins what only the text tells (the card, limits, other processes, the phase)
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    #[command(flatten)]
    evidence: EvidenceArgs,
    /// Also write report.html, report.json and timeline.svg into this directory, which is made if needed
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// How to print it
    #[arg(long, value_enum, default_value_t = Format::Text, conflicts_with = "json")]
    format: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    /// For a terminal
    Text,
    /// Markdown of at most 60 lines
    Md,
    /// The same as --json
    Json,
}

pub fn run(args: &Args) -> Result<Status> {
    if args.input.file.is_dir() {
        let directory = args.input.file.display();
        ensure!(args.format == Format::Text, "{directory}: --format describes one file: name it");
        ensure!(
            args.output.is_none(),
            "{directory}: -o describes one file: name it, or try `oomscope fleet {directory} -o DIR` for a page of all"
        );
        let is_plain = args.at.at.is_none() && args.oom.is_none() && args.log.is_none();
        ensure!(is_plain, "{directory}: --at, --oom and --log describe one file: name it");
        return directory::run(&args.input);
    }
    let loaded = input::open(&args.input)?;
    loaded.warn();
    let histories = loaded.histories(args.input.device)?;
    let sites = Sites::new(&loaded.snapshot, By::Line);
    let at = args.oom.map_or_else(|| args.at.moment(), |number| At::Oom(Some(number)));
    let beside = args.evidence.load()?;
    let log = args.log.as_ref().map(|path| {
        let bytes = sources::read(path).with_context(|| path.display().to_string())?;
        args.evidence.read_log(&bytes)
    });
    let log = log.transpose()?;
    if log.as_ref().is_some_and(|log| log.messages.is_empty()) {
        eprintln!("oomscope: warning: no out-of-memory message was found in the log");
    }
    let account = |message: Option<&_>, reserved, free, device| beside.account(message, reserved, free, device);
    let evidence = Evidence { log: log.as_ref(), account: Some(&account) };
    let result = report(&loaded.snapshot, &histories, &sites, at, args.input.capacity, &evidence)
        .with_context(|| loaded.path.clone())?;
    let diagnoses = result.diagnoses();
    let headline = diagnoses.first().map(|device| device.diagnosis);
    let document = Document {
        verdict: headline.map(|diagnosis| diagnosis.verdict),
        evidence: headline.map_or(&[], |diagnosis| &diagnosis.evidence),
        remedies: headline.map_or(&[], |diagnosis| &diagnosis.remedies),
        next: result.devices.first().map_or(&[], |device| &device.next),
        diagnoses,
        info: &result.info,
        segments: segments::Document {
            rules: &loaded.rules,
            at: result.devices.first().map(|device| device.at),
            devices: result.devices.iter().map(|device| &device.segments).collect(),
        },
        top: ranking::Document::new(result.devices.iter().map(|device| &device.top)),
        leaks: leaks::Document::new(result.devices.iter().map(|device| &device.leaks)),
        whatif: result.whatif.as_ref(),
    };
    let json = || output::json("report", &loaded, &document);
    if let Some(directory) = &args.output {
        output::make_directory(directory)?;
        output::write(&directory.join("report.json"), &json()?)?;
        let series: Vec<Series> = result.devices.iter().filter_map(|device| device.series.clone()).collect();
        if !series.is_empty() {
            let picture = timeline::picture(&loaded, &series, 1200);
            output::write(&directory.join("timeline.svg"), &picture)?;
        }
        output::write(&directory.join("report.html"), &page(&loaded, &histories, &sites, &result))?;
    }
    let text = match args.format {
        _ if args.input.json => json()?,
        Format::Json => json()?,
        Format::Md => markdown::report(&loaded.name, loaded.salvaged().map(ToString::to_string).as_deref(), &result),
        Format::Text => loaded.preface() + &terminal::report(&loaded.name, &result, output::width()),
    };
    output::print(&text)?;
    Ok(loaded.status())
}

/// The report as a page.
fn page(loaded: &Loaded, histories: &[History], sites: &Sites, report: &Report) -> String {
    let salvaged = loaded.salvaged();
    let others = loaded.snapshot.warnings.iter().filter(|warning| Some(*warning) != salvaged);
    html::page(&html::Input {
        name: &loaded.name,
        salvaged: salvaged.map(ToString::to_string),
        warnings: others.map(ToString::to_string).collect(),
        report,
        close_ups: &close_ups(histories, sites, report, html::DEVICES),
    })
}
