//! The `oomscope-sql` command, which `oomscope sql` runs.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use ballista::prelude::SessionContextExt;
use clap::Parser;
use datafusion::execution::SessionStateBuilder;
use datafusion::prelude::SessionContext;
use oomscope::analysis::fleet::{RankFile, RankPattern};
use oomscope::cli::files;
use oomscope::export::dataset::Dataset;
use oomscope_sql::queries::{QUERIES, Query};
use oomscope_sql::results::{Format, write};
use oomscope_sql::{config, dataset, embedded, snapshots};

/// SQL over the snapshots of a job's ranks, or over the tables made from them.
///
/// Tables: devices, segments, blocks, events, stacks, frames, sites, steps, ooms, moments, leaks, timeline;
/// docs/tables.md describes their columns. Each has two more: job and rank.
#[derive(Parser)]
#[command(
    name = "oomscope sql",
    version,
    max_term_width = 100,
    after_help = "Examples:
  oomscope sql 'SELECT rank, peak_allocated FROM devices ORDER BY 2 DESC' dumps/
  oomscope sql --query odd-sites dumps/
  oomscope sql --query peak-by-rank --show          the query's text
  oomscope sql --list                               the queries that have a name
  oomscope sql --query imbalance tables/ --cluster df://scheduler:50050

Exit status: 0 done; 2 the input, the query or the call was wrong."
)]
struct Args {
    /// The query (unless --query names one), then what to read: snapshots (directories, files, patterns, @LIST) or one
    /// directory of tables
    #[arg(value_name = "SQL|DIR|FILE")]
    inputs: Vec<String>,
    /// A query by name
    #[arg(short, long, value_name = "NAME")]
    query: Option<String>,
    /// Print the text of the query instead of running it
    #[arg(long)]
    show: bool,
    /// List the queries that have a name
    #[arg(long)]
    list: bool,
    /// How to print the result
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    format: Format,
    /// Write the result here instead of to standard output
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Name of the job, for snapshots
    #[arg(long, default_value = "job")]
    job: String,
    /// Regular expression for the path, with a group for the rank, or groups named `rank`, `node` and `step`
    #[arg(long, value_name = "REGEX", value_parser = RankPattern::new)]
    rank_pattern: Option<RankPattern>,
    /// Run the query on a Ballista cluster, whose executors see the tables under the same path
    #[arg(long, value_name = "df://HOST:PORT")]
    cluster: Option<String>,
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(io::stderr(), "oomscope sql: {}", oomscope::text::printable(&message(&error)));
            ExitCode::from(2)
        }
    }
}

/// What went wrong, on one line. The engine's errors repeat their causes.
fn message(error: &anyhow::Error) -> String {
    let mut message = String::new();
    for cause in error.chain().map(|cause| cause.to_string().replace('\n', " ")) {
        if !message.contains(&cause) {
            if !message.is_empty() {
                message += ": ";
            }
            message += &cause;
        }
    }
    message
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io_errors = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    io_errors.map(io::Error::kind).any(|kind| kind == io::ErrorKind::BrokenPipe)
}

fn run(args: &Args) -> Result<()> {
    if args.list {
        let mut out = BufWriter::new(io::stdout());
        for query in QUERIES {
            writeln!(out, "{:16} {}", query.name, query.about())?;
        }
        return Ok(out.flush()?);
    }
    let (sql, inputs) = match &args.query {
        Some(name) => {
            let known = || QUERIES.map(|query| query.name).join(", ");
            let query =
                Query::named(name).with_context(|| format!("there is no query `{name}`: there are {}", known()))?;
            (query.sql, args.inputs.as_slice())
        }
        None => {
            let (sql, inputs) = args.inputs.split_first().context("give a query, or name one with --query (--list)")?;
            (sql.as_str(), inputs)
        }
    };
    if args.show {
        return Ok(writeln!(io::stdout(), "{}", sql.trim_end())?);
    }
    ensure!(!inputs.is_empty(), "name the snapshots to read, or a directory of tables");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(answer(args, sql, inputs))
}

async fn answer(args: &Args, sql: &str, inputs: &[String]) -> Result<()> {
    let context = match &args.cluster {
        Some(url) => {
            let state = SessionStateBuilder::new().with_config(config()).with_default_features().build();
            SessionContext::remote_with_state(url, state).await.with_context(|| format!("{url}: no cluster answers"))?
        }
        None => embedded(),
    };
    match inputs {
        [root] if Dataset::is_at(Path::new(root)) => dataset::register(&context, Path::new(root))?,
        _ if args.cluster.is_some() => bail!(
            "a cluster reads tables, not snapshots: make them with `oomscope fleet {} --tables DIR`, on a file system \
             that all executors see",
            inputs.join(" ")
        ),
        _ => snapshots::register(&context, &args.job, &rank_files(args, inputs)?)?,
    }
    let frame = context.sql(sql).await?;
    let schema = frame.schema().as_arrow().clone().into();
    let batches = frame.collect().await?;
    match &args.output {
        Some(path) => {
            let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
            let mut out = BufWriter::new(file);
            write(args.format, &schema, &batches, &mut out)?;
            out.flush()?;
        }
        None => {
            let mut out = BufWriter::new(io::stdout());
            write(args.format, &schema, &batches, &mut out)?;
            out.flush()?;
        }
    }
    Ok(())
}

/// The files that `inputs` name, with their ranks.
fn rank_files(args: &Args, inputs: &[String]) -> Result<Vec<RankFile>> {
    let inputs: Vec<PathBuf> = inputs.iter().map(PathBuf::from).collect();
    let (files, notes) = files::rank_files(&inputs, args.rank_pattern.as_ref())?;
    for note in &notes {
        eprintln!("oomscope sql: note: {note}");
    }
    Ok(files)
}
