//! A workload's way through the simulator.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::Serialize;

use super::{Operation, Workload};
use crate::allocator::{
    AllocatorSettings, Behaviour, BlockId, MallocError, Simulator, SimulatorConfig, TorchVersion, TraceEvent,
};

/// How to run a [`Workload`].
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The release.
    pub version: TorchVersion,
    /// The configuration string; `None` takes the workload's.
    pub settings: Option<String>,
    /// Total memory of the device in bytes; `None` takes the workload's.
    pub total: Option<u64>,
    /// Bytes of the device that PyTorch can have; `None` is the total without the workload's context.
    pub capacity: Option<u64>,
    /// Write a report each so many operations; 0 writes only the last one.
    pub every: u64,
    /// Keep the trace for the last report. It needs memory for each operation.
    pub trace: bool,
}

impl Default for RunOptions {
    /// The newest release, with the trace and a single report.
    fn default() -> Self {
        Self { version: TorchVersion::NEWEST, settings: None, total: None, capacity: None, every: 0, trace: true }
    }
}

/// A request that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FailedRequest {
    /// Place of the operation in the list.
    pub op: u64,
    /// The caller's name for the block.
    pub id: u64,
    /// Bytes asked for.
    pub size: u64,
    /// PyTorch's message.
    pub text: String,
}

/// A workload on its way through the simulator.
#[derive(Debug)]
pub struct WorkloadRun<'a> {
    workload: &'a Workload,
    pub(super) options: &'a RunOptions,
    settings: AllocatorSettings,
    pub(super) conf: String,
    pub(super) simulator: Simulator,
    /// Rank by first use: the order of the streams' addresses in PyTorch.
    streams: BTreeMap<u64, u64>,
    /// The caller's number of each rank.
    numbers: Vec<u64>,
    pub(super) live: BTreeMap<u64, BlockId>,
    pub(super) failed: Vec<FailedRequest>,
    pub(super) trace: Vec<Entry>,
    total: u64,
}

/// An entry of the trace; the recorder itself causes `snapshot` entries, whose size is that of the active blocks.
#[derive(Clone, Copy, Debug)]
pub(super) enum Entry {
    Event(TraceEvent),
    Snapshot(u64),
}

impl<'a> WorkloadRun<'a> {
    /// A fresh device of the workload's or the options' size (24 GiB if neither says), with nothing done yet.
    pub fn new(workload: &'a Workload, options: &'a RunOptions) -> Self {
        let conf = options.settings.clone().or_else(|| workload.settings.clone()).unwrap_or_default();
        let settings = AllocatorSettings::parse(&conf, Some(options.version));
        let total = options.total.or(workload.total).unwrap_or(24 << 30);
        let mut simulator = Simulator::new(SimulatorConfig {
            behaviour: Behaviour::of(options.version),
            capacity: options.capacity.unwrap_or(total.saturating_sub(workload.context)),
            ..SimulatorConfig::new(settings.rules.clone(), total)
        });
        if let Some(fraction) = workload.fraction {
            simulator.set_memory_fraction(fraction);
        }
        Self {
            workload,
            options,
            settings,
            conf,
            simulator,
            streams: BTreeMap::from([(0, 0)]),
            numbers: vec![0],
            live: BTreeMap::new(),
            failed: Vec::new(),
            trace: Vec::new(),
            total,
        }
    }

    /// The settings, with what was wrong in their string.
    pub fn settings(&self) -> &AllocatorSettings {
        &self.settings
    }

    /// The simulator as it stands.
    pub fn simulator(&self) -> &Simulator {
        &self.simulator
    }

    /// The requests that failed so far.
    pub fn failed(&self) -> &[FailedRequest] {
        &self.failed
    }

    /// Does all operations, and writes the reports to `out`.
    pub fn run(&mut self, out: &mut impl Write) -> io::Result<()> {
        let mut done = 0;
        for operation in &self.workload.operations {
            self.apply(done, *operation);
            done += 1;
            let due = self.options.every > 0 && done % self.options.every == 0;
            if due || *operation == Operation::Report {
                self.report(done, false, out)?;
            }
        }
        self.report(done, true, out)
    }

    fn apply(&mut self, at: u64, operation: Operation) {
        match operation {
            Operation::Allocate { id, size, stream } => {
                let rank = self.rank(stream);
                match self.simulator.malloc(size, rank) {
                    Ok(allocation) => {
                        self.live.insert(id, allocation.block);
                    }
                    Err(error) => {
                        let text = self.text(&error);
                        self.failed.push(FailedRequest { op: at, id, size, text });
                    }
                }
            }
            Operation::Free { id } => match self.live.remove(&id) {
                Some(block) => {
                    self.simulator.free(block);
                }
                None => return,
            },
            Operation::RecordStream { id, stream } => {
                let rank = self.rank(stream);
                match self.live.get(&id) {
                    Some(block) => self.simulator.record_stream(*block, rank),
                    None => return,
                }
            }
            Operation::EmptyCache => self.simulator.empty_cache(),
            Operation::Synchronise | Operation::Report => return,
        }
        if self.options.trace {
            self.trace.extend(self.simulator.events().iter().map(|event| Entry::Event(*event)));
        }
    }

    fn rank(&mut self, stream: u64) -> u64 {
        let next = self.numbers.len() as u64;
        let rank = *self.streams.entry(stream).or_insert(next);
        if rank == next {
            self.numbers.push(stream);
        }
        rank
    }

    pub(super) fn number(&self, rank: u64) -> u64 {
        self.numbers.get(rank as usize).copied().unwrap_or(rank)
    }

    /// PyTorch's message; the process is taken to hold what the device does not have free.
    fn text(&self, error: &MallocError) -> String {
        match error {
            MallocError::OutOfMemory(report) => {
                let mut report = report.clone();
                report.process_memory = Some(self.total.saturating_sub(report.device_free));
                report.text(self.simulator.behaviour().oom_style, self.simulator.rules(), 0)
            }
            other => other.to_string(),
        }
    }

    fn report(&mut self, done: u64, last: bool, out: &mut impl Write) -> io::Result<()> {
        if self.options.trace {
            self.trace.push(Entry::Snapshot(self.simulator.stats().active_bytes.all.current));
        }
        self.write_state(done, last, &mut *out)?;
        out.write_all(b"\n")
    }
}
