//! `oomscope oom`

use std::io::{self, Read};
use std::path::PathBuf;

use anyhow::{Context, Result};
use serde::Serialize;

use super::evidence::EvidenceArgs;
use super::{Status, meant, output, sources};
use crate::oom::budget::Budget;
use crate::oom::phases::Chronology;
use crate::oom::{Diagnosis, Inputs, Log, Message, diagnose};
use crate::render::terminal;

/// The verdict from error text alone: finds every out-of-memory message in a log, says the cause and what to change.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  oomscope oom job.log                          a log of any size, of one rank or many
  kubectl logs POD | oomscope oom               the same, from a pipe
  oomscope oom job.log --nvidia-smi smi.txt     with the other processes on the card
  oomscope oom job.log --message 2              another of its messages than the first
  oomscope oom job.log --marks phases.txt       with lines of your own that tell the phase

Exit status: 0 when a message was found; 2 when there is none, or the input was wrong.")]
pub struct Args {
    /// A log, or just the error text; `-` or nothing reads standard input
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,
    #[command(flatten)]
    evidence: EvidenceArgs,
    /// Tell of the N-th message, as the table of the others numbers them; JSON has all
    #[arg(long, value_name = "N", default_value_t = 1, hide_default_value = true, conflicts_with = "json")]
    message: usize,
    /// Print JSON with stable keys; sizes are integers in bytes
    #[arg(long)]
    json: bool,
}

/// Remedies shown.
const REMEDIES: usize = 6;

#[derive(Serialize)]
struct Document<'a> {
    oomscope: &'static str,
    command: &'static str,
    file: String,
    warnings: Vec<String>,
    messages: &'a [Diagnosis],
    chronology: &'a Chronology,
    budget: &'a Budget,
}

pub fn run(args: &Args) -> Result<Status> {
    let is_stdin = args.file.as_os_str() == "-";
    let name = if is_stdin { "standard input".to_owned() } else { args.file.display().to_string() };
    let bytes = if is_stdin {
        let mut bytes = Vec::new();
        io::stdin().lock().read_to_end(&mut bytes).context("cannot read standard input")?;
        bytes
    } else {
        sources::read(&args.file).with_context(|| name.clone())?
    };
    let log = args.evidence.read_log(&bytes)?;
    let evidence = args.evidence.load()?;
    let diagnoses: Vec<Diagnosis> =
        ordered(&log).into_iter().map(|message| diagnosis(&log, message, &evidence)).collect();
    let mut warnings = Vec::new();
    if diagnoses.is_empty() {
        let instead = meant::not_a_log(&bytes, &name).map_or_else(String::new, |instead| format!("; {instead}"));
        warnings.push(format!("{name}: no out-of-memory message was found{instead}"));
    }
    if args.json {
        let document = Document {
            oomscope: env!("CARGO_PKG_VERSION"),
            command: "oom",
            file: name,
            warnings,
            messages: &diagnoses,
            chronology: &log.chronology,
            budget: &log.budget,
        };
        let mut text = serde_json::to_string_pretty(&document)?;
        text.push('\n');
        output::print(&text)?;
    } else if diagnoses.is_empty() {
        eprintln!("oomscope: {}", warnings[0]);
    } else {
        let mut rest: Vec<(usize, &Diagnosis)> = (1..).zip(&diagnoses).collect();
        let chosen = rest.iter().position(|(number, _)| *number == args.message).with_context(|| {
            format!("{name}: there is no message {}: the messages are 1 to {}", args.message, diagnoses.len())
        })?;
        let (_, chosen) = rest.remove(chosen);
        output::print(&text(&log, chosen, &rest))?;
    }
    Ok(if diagnoses.is_empty() { Status::Partial } else { Status::Done })
}

/// Messages of the allocator with figures first, each kind in the order of the log: the first failure brings others.
fn ordered(log: &Log) -> Vec<&Message> {
    let mut messages: Vec<&Message> = log.messages.iter().collect();
    messages.sort_by_key(|message| (message.kind.is_lookalike(), !message.has_figures()));
    messages
}

fn diagnosis(log: &Log, message: &Message, evidence: &super::evidence::Evidence) -> Diagnosis {
    diagnose(Inputs {
        facts: log.facts(message),
        log: Some(log),
        message: Some(message),
        account: evidence.account(Some(message), None, None, message.device.unwrap_or(0)),
        ..Inputs::default()
    })
}

fn text(log: &Log, chosen: &Diagnosis, rest: &[(usize, &Diagnosis)]) -> String {
    let width = output::width();
    let mut out = String::new();
    if let Some(message) = &chosen.message {
        out += &format!("{}\n\n", terminal::message(message));
    }
    out += &terminal::verdict(chosen, width);
    if let Some(account) = &chosen.account {
        out += &format!("\n{}", terminal::account(account, width));
    }
    let until = chosen.message.as_ref().map_or(usize::MAX, |message| message.offset);
    let phases = terminal::chronology(&log.chronology, until, width);
    if !phases.is_empty() {
        out += &format!("\n{phases}");
    }
    let remedies = terminal::remedies(chosen, REMEDIES, true, width);
    if !remedies.is_empty() {
        out += &format!("\n{remedies}");
    }
    if !rest.is_empty() {
        out += &format!("\n{}", terminal::others(rest, width));
    }
    out
}
