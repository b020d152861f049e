//! Writes synthetic snapshots of any size, of a training run with a planted leak, and prints the truth about each as JSON.
//!
//! ```text
//! cargo run --release --example synth -- --events 1000000 --leak-bytes 65536 --depth 20 --out big.pickle
//! ```
//!
//! The run is simulated twice with one seed: once to learn the state at its end, which comes first in the file, and once to write the
//! trace. So memory holds what is live, and never the trace.

mod device;
mod model;
mod output;
mod rng;
mod stacks;
mod training;

use anyhow::{Context, bail};
use clap::Parser;
use device::{Block, Counters, Device, Oom, Peaks, Segment, Stop};
use model::Sites;
use oomscope::allocator::{GIB, KIB, MIB, TorchVersion};
use output::SnapshotWriter;
use rng::Rng;
use serde::Serialize;
use stacks::Stacks;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use training::{Outcome, Plan};

/// Write a synthetic memory snapshot and print the truth about it.
#[derive(Parser)]
#[command(name = "synth")]
struct Args {
    /// File to write.
    #[arg(long)]
    out: PathBuf,
    /// Trace entries for each device, within a few.
    #[arg(long)]
    events: Option<u64>,
    /// Stop at about this size of the trace instead (bytes, or a number with KB, MB, GB, KiB, MiB or GiB), for each device.
    #[arg(long, value_parser = parse_bytes)]
    size: Option<u64>,
    /// Stop after so many steps.
    #[arg(long)]
    steps: Option<u64>,
    /// Release whose file format and tie-breaks to follow, 2.6 or newer.
    #[arg(long, default_value = "2.6", value_parser = parse_version)]
    torch: TorchVersion,
    /// Python frames in a stack.
    #[arg(long, default_value_t = 15, value_parser = clap::value_parser!(u16).range(4..))]
    depth: u16,
    /// Put C++ frames into the stacks, as `stacks="all"` does.
    #[arg(long)]
    cpp_frames: bool,
    /// Bytes that the program forgets in each step; 0 for none.
    #[arg(long, default_value = "65536", value_parser = parse_bytes)]
    leak_bytes: u64,
    /// Blocks that they come in.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..))]
    leak_blocks: u64,
    /// The first step that forgets.
    #[arg(long, default_value_t = 3)]
    leak_from: u64,
    /// File and line that forget.
    #[arg(long, default_value = "metrics.py:41")]
    leak_site: String,
    /// Layers of the model.
    #[arg(long, default_value_t = 12)]
    layers: u64,
    /// Width of the model.
    #[arg(long, default_value_t = 1024)]
    hidden: u64,
    /// Sequences in a batch.
    #[arg(long, default_value_t = 8)]
    batch: u64,
    /// Tokens in the longest sequence.
    #[arg(long, default_value_t = 512)]
    sequence: u64,
    /// Give all batches the same length, rather than a random one.
    #[arg(long)]
    fixed_shapes: bool,
    /// Memory that the allocator may take from a device; the run ends where it does not suffice.
    #[arg(long, default_value = "80GiB", value_parser = parse_bytes)]
    capacity: u64,
    /// Devices, each running the same program with another seed.
    #[arg(long, default_value_t = 1)]
    devices: usize,
    /// Seed of the random lengths.
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// What an analysis of the file should find; sizes in bytes.
#[derive(Serialize)]
struct Truth {
    device: usize,
    events: u64,
    steps: u64,
    leak: Option<Leak>,
    peaks: Peaks,
    end: Counters,
    segments: usize,
    blocks: usize,
    live_blocks: usize,
    oom: Option<Oom>,
}

#[derive(Serialize)]
struct Leak {
    site: String,
    function: &'static str,
    bytes_per_step: u64,
    blocks_per_step: u64,
    first_step: u64,
    leaking_steps: u64,
    bytes: u64,
    blocks: u64,
}

/// A finished run.
struct Run {
    outcome: Outcome,
    segments: BTreeMap<u64, Segment>,
    blocks: BTreeMap<u64, Block>,
    truth: Truth,
}

fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    let Some((file, line)) = args.leak_site.rsplit_once(':').and_then(|(file, line)| Some((file, line.parse().ok()?)))
    else {
        bail!("--leak-site wants FILE:LINE, such as metrics.py:41");
    };
    let mut stacks = Stacks::new(args.depth.into(), args.cpp_frames);
    let sites = Sites::new(&mut stacks, (file, line));
    let writer = |out, max_bytes| SnapshotWriter::new(out, &stacks, args.torch, max_bytes);

    let mut ends = Vec::new();
    for device in 0..args.devices {
        let mut sizing = writer(Box::new(std::io::sink()) as Box<dyn Write>, args.size)?;
        sizing.fill_memo(sites.parameters)?;
        sizing.begin("device_traces")?;
        ends.push(simulate(&args, &sites, device, max_events(&args), &mut sizing)?);
    }

    let out = File::create(&args.out).with_context(|| format!("cannot create {}", args.out.display()))?;
    let mut file = writer(Box::new(out), None)?;
    file.begin("segments")?;
    for (device, end) in ends.iter().enumerate() {
        file.segments(device, &end.segments, &end.blocks)?;
    }
    file.end()?;
    file.begin("device_traces")?;
    let mut annotations = Vec::new();
    for (device, end) in ends.iter().enumerate() {
        file.begin_trace()?;
        let run = simulate(&args, &sites, device, end.truth.events, &mut file)?;
        file.end()?;
        annotations.push(run.outcome.annotations);
    }
    file.end()?;
    file.finish(&annotations)?;

    let truths: Vec<&Truth> = ends.iter().map(|end| &end.truth).collect();
    println!("{}", serde_json::to_string_pretty(&truths)?);
    Ok(())
}

/// Without any limit, a file that is quickly made.
fn max_events(args: &Args) -> u64 {
    let limited = args.size.is_some() || args.steps.is_some();
    args.events.unwrap_or(if limited { u64::MAX } else { 100_000 })
}

fn simulate(
    args: &Args,
    sites: &Sites,
    ordinal: usize,
    max_events: u64,
    trace: &mut dyn device::Trace,
) -> anyhow::Result<Run> {
    let plan = Plan {
        layers: args.layers,
        hidden: args.hidden,
        batch: args.batch,
        sequence: args.sequence,
        fixed_shapes: args.fixed_shapes,
        steps: args.steps.unwrap_or(u64::MAX),
        leak_bytes: args.leak_bytes,
        leak_blocks: args.leak_blocks,
        leak_from: args.leak_from,
    };
    let ties_by_age = args.torch >= TorchVersion::new(2, 13);
    let mut device = Device::new(ordinal as u64, args.capacity, ties_by_age, max_events, trace);
    let outcome = match training::train(&mut device, sites, &plan, Rng::new(args.seed + ordinal as u64)) {
        Ok(outcome) => outcome,
        Err(Stop::Write(error)) => return Err(error).context("cannot write the snapshot"),
        Err(Stop::Complete | Stop::OutOfMemory) => bail!("the run did not say how it ended"),
    };
    let leak = (outcome.leaking_steps > 0).then(|| Leak {
        site: args.leak_site.clone(),
        function: "update",
        bytes_per_step: args.leak_bytes,
        blocks_per_step: args.leak_blocks,
        first_step: args.leak_from,
        leaking_steps: outcome.leaking_steps,
        bytes: outcome.leaked_bytes,
        blocks: outcome.leaked_blocks,
    });
    let truth = Truth {
        device: ordinal,
        events: device.events,
        steps: outcome.steps,
        leak,
        peaks: device.peaks,
        end: device.counters,
        segments: device.segments.len(),
        blocks: device.blocks.len(),
        live_blocks: device.blocks.values().filter(|block| block.owner.is_some()).count(),
        oom: device.oom,
    };
    Ok(Run { outcome, segments: device.segments, blocks: device.blocks, truth })
}

/// A number of bytes, with or without a unit.
fn parse_bytes(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "kib" => KIB,
        "mib" => MIB,
        "gib" => GIB,
        other => return Err(format!("unknown unit {other}; use KB, MB, GB, KiB, MiB or GiB")),
    };
    let number: u64 = digits.trim().parse().map_err(|_| format!("{digits:?} is not a whole number"))?;
    number.checked_mul(unit).ok_or_else(|| "too large".to_owned())
}

fn parse_version(text: &str) -> Result<TorchVersion, String> {
    let parsed = text
        .split_once('.')
        .and_then(|(major, minor)| Some(TorchVersion::new(major.parse().ok()?, minor.parse().ok()?)));
    match parsed {
        Some(version) if version >= TorchVersion::new(2, 6) => Ok(version),
        _ => Err("want a release such as 2.6 or 2.15, not older than 2.6".to_owned()),
    }
}
