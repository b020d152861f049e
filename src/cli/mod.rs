//! The command line: flags become checked options, options an analysis, its result text, JSON or a picture.
//!
//! One file a subcommand. What several share is in `args` (flags), `input` (reading, with progress) and
//! `output` (writing).

mod args;
mod atomic;
mod check;
mod completions;
mod diff;
mod directory;
mod estimate;
mod evidence;
mod export;
pub mod files;
mod flame;
mod fleet;
mod help;
mod howto;
mod info;
mod input;
mod leaks;
mod man;
mod map;
mod meant;
mod oom;
mod output;
mod progress;
mod report;
mod segments;
mod sources;
mod sql;
mod tables;
mod timeline;
mod top;
mod version;
mod whatif;
mod workers;

use std::ffi::OsString;
use std::process::ExitCode;

use anyhow::bail;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

/// How a command ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Status {
    /// Everything was done.
    Done,
    /// Only a part could be done; results were printed all the same.
    Partial,
    /// A gate failed.
    Failed,
}

impl Status {
    /// The worse of two.
    pub fn and(self, other: Self) -> Self {
        self.max(other)
    }
}

impl From<Status> for ExitCode {
    fn from(status: Status) -> Self {
        match status {
            Status::Done => ExitCode::SUCCESS,
            Status::Partial => ExitCode::from(2),
            Status::Failed => ExitCode::from(1),
        }
    }
}

/// Says what happened to a PyTorch job that died with "CUDA out of memory".
///
/// Reads the pickle written by torch.cuda.memory._dump_snapshot, on any machine: no GPU, Python or network is needed.
/// `oomscope FILE` is short for `oomscope report FILE`; a directory gives one line a file.
#[derive(Parser)]
#[command(name = "oomscope", version, long_version = version::long(), max_term_width = 100, after_help = EXAMPLES)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  oomscope oom.pickle                           what happened, on one screen or two
  oomscope report oom.pickle -o out             the same, with pictures and JSON in out/
  oomscope top oom.pickle --at peak --by file   which files hold memory at the peak
  oomscope segments oom.pickle                  where free memory is stuck
  oomscope leaks oom.pickle                     which lines hold more after each step
  oomscope diff before.pickle after.pickle      what a change of settings or code came to
  oomscope check before.pickle after.pickle     a gate for CI: fails when memory has grown
  oomscope map oom.pickle -o map.svg            every segment, and what lies in it
  oomscope timeline oom.pickle -o memory.svg    memory over time, by line
  oomscope flame oom.pickle -o flame.svg        which calls lead to it
  oomscope oom job.log                          the verdict from the error text alone
  oomscope estimate --params 8B --dtype bf16    what a model needs at least
  oomscope export oom.pickle -f json            the file for other programs
  oomscope howto hook                           code that takes a snapshot when it fails
  oomscope whatif oom.pickle                    would another allocator setting have passed?
  oomscope fleet dumps/                         many ranks: who failed first, who is the odd one

Sizes have a unit: 80GiB (powers of 1024), 80GB (powers of 1000), 512B.
Exit status: 0 done; 1 a gate of `check` failed; 2 the input or the call was wrong, or only a part could be done.";

#[derive(Subcommand)]
enum Command {
    Report(report::Args),
    Info(info::Args),
    Top(top::Args),
    Segments(segments::Args),
    Leaks(leaks::Args),
    Diff(diff::Args),
    Check(check::Args),
    Map(map::Args),
    Timeline(timeline::Args),
    Flame(flame::Args),
    Oom(oom::Args),
    Estimate(estimate::Args),
    Howto(howto::Args),
    Whatif(whatif::Args),
    Fleet(fleet::Args),
    Sql(sql::Args),
    Export(export::Args),
    Completions(completions::Args),
    Man(man::Args),
}

/// The command line with its help.
fn command() -> clap::Command {
    help::grouped(Cli::command())
}

/// Runs the command that `arguments` (program name first) ask for.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> anyhow::Result<Status> {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    let command = command();
    let names: Vec<&str> = command.get_subcommands().map(|command| command.get_name()).collect();
    let arguments = with_default_command(arguments, &names)?;
    let matches = command.get_matches_from(arguments);
    let cli = Cli::from_arg_matches(&matches)?;
    match cli.command {
        Command::Report(args) => report::run(&args),
        Command::Info(args) => info::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Segments(args) => segments::run(&args),
        Command::Leaks(args) => leaks::run(&args),
        Command::Diff(args) => diff::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Map(args) => map::run(&args),
        Command::Timeline(args) => timeline::run(&args),
        Command::Flame(args) => flame::run(&args),
        Command::Oom(args) => oom::run(&args),
        Command::Estimate(args) => estimate::run(&args),
        Command::Howto(args) => howto::run(&args),
        Command::Whatif(args) => whatif::run(&args),
        Command::Fleet(args) => fleet::run(&args),
        Command::Sql(args) => sql::run(&args),
        Command::Export(args) => export::run(&args),
        Command::Completions(args) => completions::run(&args),
        Command::Man(args) => man::run(&args),
    }
}

/// Puts `report` in front of arguments that name none of the commands `names` but something to read.
fn with_default_command(mut arguments: Vec<OsString>, names: &[&str]) -> anyhow::Result<Vec<OsString>> {
    let rest = arguments.get(1..).unwrap_or_default();
    let is_option = |argument: &OsString| argument != "-" && argument.to_string_lossy().starts_with('-');
    let names_command = rest.iter().any(|argument| argument == "help" || names.iter().any(|name| argument == name));
    if !names_command && rest.iter().any(|argument| !is_option(argument)) {
        if let Some(message) = meant::no_such_command(&arguments, names) {
            bail!(message);
        }
        arguments.insert(1, "report".into());
    }
    Ok(arguments)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expand(arguments: &[&str]) -> Vec<String> {
        let arguments = arguments.iter().map(OsString::from).collect();
        let arguments = with_default_command(arguments, &["report", "top"]).unwrap();
        arguments.into_iter().map(|argument| argument.into_string().unwrap()).collect()
    }

    #[test]
    fn flags_are_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn a_file_alone_is_reported() {
        assert_eq!(expand(&["oomscope", "a.pickle"]), ["oomscope", "report", "a.pickle"]);
        assert_eq!(expand(&["oomscope", "-"]), ["oomscope", "report", "-"]);
        assert_eq!(expand(&["oomscope", "--json", "a"]), ["oomscope", "report", "--json", "a"]);
        assert_eq!(expand(&["oomscope", "top", "a"]), ["oomscope", "top", "a"]);
        assert_eq!(expand(&["oomscope", "--help"]), ["oomscope", "--help"]);
        assert_eq!(expand(&["oomscope"]), ["oomscope"]);
    }
}
