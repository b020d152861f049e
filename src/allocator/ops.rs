//! Lists of operations: requests written by hand or by a generator, run through the simulator.
//!
//! In: the JSON that the recorder of the test oracles also reads. Out: one JSON object a line with the statistics, the
//! segments and the addresses, in the form that the recorder wrote when it ran the same list through PyTorch.

use std::collections::BTreeMap;
use std::io::{self, Write};

use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::{
    Action, AllocatorSettings, Behaviour, BlockId, MIB, MallocError, Simulator, SimulatorConfig, TorchVersion,
    TraceEvent,
};

/// One operation. Streams are small numbers: 0 is the default stream, others are made when first used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// `["a", id, size, stream]`: a request of `size` bytes. If it fails, the list goes on without the block.
    Allocate {
        /// The caller's name for the block.
        id: u64,
        /// Bytes.
        size: u64,
        /// Stream.
        stream: u64,
    },
    /// `["f", id]`. Blocks that do not exist are skipped.
    Free {
        /// The caller's name for the block.
        id: u64,
    },
    /// `["r", id, stream]`: another stream uses the block.
    RecordStream {
        /// The caller's name for the block.
        id: u64,
        /// The other stream.
        stream: u64,
    },
    /// `["e"]`.
    EmptyCache,
    /// `["s"]`: waits for the device, which the allocator does not notice.
    Synchronise,
    /// `["p"]`: writes a report.
    Report,
}

/// A list of operations, and the device that it is meant for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Workload {
    /// The configuration string, if the list names one.
    pub settings: Option<String>,
    /// Total memory of the device in bytes.
    pub total: Option<u64>,
    /// Bytes of the device that PyTorch cannot have.
    pub context: u64,
    /// Argument of `set_per_process_memory_fraction`, called before the first operation.
    pub fraction: Option<f64>,
    /// The operations.
    pub operations: Vec<Operation>,
}

/// Text that is no list of operations.
#[derive(Debug, Error)]
pub enum WorkloadError {
    /// Not the expected JSON.
    #[error("not a list of operations such as {{\"ops\": [[\"a\", 1, 4096, 0], [\"f\", 1]]}}")]
    Json(#[from] serde_json::Error),
    /// An operation that is none of the known ones.
    #[error(
        "operation {at} (counted from 0) is none of [\"a\", id, size, stream], [\"f\", id], [\"r\", id, stream], [\"e\"], \
         [\"s\"], [\"p\"]"
    )]
    Operation {
        /// Its place in the list.
        at: usize,
    },
}

#[derive(Deserialize)]
#[serde(untagged)]
enum WorkloadJson {
    Full {
        settings: Option<String>,
        gpu_mib: Option<u64>,
        ctx_mib: Option<u64>,
        fraction: Option<f64>,
        ops: Vec<OperationJson>,
    },
    Bare(Vec<OperationJson>),
}

#[derive(Deserialize)]
#[serde(untagged)]
enum OperationJson {
    List(Vec<Word>),
    Map { op: String, id: Option<u64>, size: Option<u64>, stream: Option<u64> },
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Word {
    Number(u64),
    Text(String),
}

impl OperationJson {
    fn operation(&self) -> Option<Operation> {
        let number = |word: &Word| if let Word::Number(n) = word { Some(*n) } else { None };
        let (name, id, size, stream) = match self {
            Self::Map { op, id, size, stream } => (op.as_str(), *id, *size, *stream),
            Self::List(words) => {
                let Some(Word::Text(name)) = words.first() else { return None };
                let arg = |at: usize| words.get(at).and_then(number);
                let stream = if name == "r" { arg(2) } else { arg(3) };
                (name.as_str(), arg(1), arg(2), stream)
            }
        };
        Some(match name {
            "a" | "alloc" => Operation::Allocate { id: id?, size: size?, stream: stream.unwrap_or(0) },
            "f" | "free" => Operation::Free { id: id? },
            "r" | "record_stream" => Operation::RecordStream { id: id?, stream: stream? },
            "e" | "empty_cache" => Operation::EmptyCache,
            "s" | "sync" => Operation::Synchronise,
            "p" | "report" => Operation::Report,
            _ => return None,
        })
    }
}

impl Workload {
    /// Reads `{"ops": […], "gpu_mib": …, "ctx_mib": …, "settings": …, "fraction": …}`, or the list alone.
    pub fn from_json(json: &[u8]) -> Result<Self, WorkloadError> {
        let (mut workload, ops) = match serde_json::from_slice(json)? {
            WorkloadJson::Bare(ops) => (Self::default(), ops),
            WorkloadJson::Full { settings, gpu_mib, ctx_mib, fraction, ops } => {
                let total = gpu_mib.map(|mib| mib.saturating_mul(MIB));
                let context = ctx_mib.unwrap_or(0).saturating_mul(MIB);
                (Self { settings, total, context, fraction, operations: Vec::new() }, ops)
            }
        };
        workload.operations = ops
            .iter()
            .enumerate()
            .map(|(at, op)| op.operation().ok_or(WorkloadError::Operation { at }))
            .collect::<Result<_, _>>()?;
        Ok(workload)
    }
}

/// How to run a [`Workload`].
#[derive(Clone, Debug)]
pub struct RunOptions {
    /// The release.
    pub version: TorchVersion,
    /// The configuration string; `None` takes the workload's.
    pub settings: Option<String>,
    /// Total memory of the device in bytes; `None` takes the workload's.
    pub total: Option<u64>,
    /// Write a report each so many operations; 0 writes only the last one.
    pub every: u64,
    /// Keep the trace for the last report. It needs memory for each operation.
    pub trace: bool,
}

impl Default for RunOptions {
    /// The newest release, with the trace and a single report.
    fn default() -> Self {
        Self { version: TorchVersion::NEWEST, settings: None, total: None, every: 0, trace: true }
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
    options: &'a RunOptions,
    settings: AllocatorSettings,
    conf: String,
    simulator: Simulator,
    /// Rank by first use: the order of the streams' addresses in PyTorch.
    streams: BTreeMap<u64, u64>,
    /// The caller's number of each rank.
    numbers: Vec<u64>,
    live: BTreeMap<u64, BlockId>,
    failed: Vec<FailedRequest>,
    trace: Vec<Entry>,
    total: u64,
}

/// An entry of the trace; the recorder itself causes `snapshot` entries, whose size is that of the active blocks.
#[derive(Clone, Copy, Debug)]
enum Entry {
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
            capacity: total.saturating_sub(workload.context),
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

    fn number(&self, rank: u64) -> u64 {
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
        serde_json::to_writer(&mut *out, &Report { run: self, done, last })?;
        out.write_all(b"\n")
    }
}

/// A line of the output.
struct Report<'a> {
    run: &'a WorkloadRun<'a>,
    done: u64,
    last: bool,
}

impl Serialize for Report<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let run = self.run;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("op", &self.done)?;
        let stats: BTreeMap<_, _> = run.simulator.stats().flat(run.simulator.behaviour()).into_iter().collect();
        let max_split = run.simulator.rules().max_split_size.map_or(-1, |size| size as i64);
        map.serialize_entry("stats", &StatsJson { stats, max_split })?;
        let mut segments = run.simulator.segments();
        for segment in &mut segments {
            segment.stream = run.number(segment.stream);
        }
        map.serialize_entry("segments", &segments)?;
        let addr = |(id, block): (&u64, &BlockId)| Some((*id, run.simulator.block(*block)?.0));
        map.serialize_entry("addr", &run.live.iter().filter_map(addr).collect::<BTreeMap<_, _>>())?;
        if self.last {
            map.serialize_entry("ooms", &run.failed)?;
            map.serialize_entry("torch", &run.options.version.to_string())?;
            map.serialize_entry("settings", &run.conf)?;
            if run.options.trace {
                let entries: Vec<_> = run.trace.iter().map(|entry| EntryJson { run, entry: *entry }).collect();
                map.serialize_entry("trace", &entries)?;
            }
        }
        map.end()
    }
}

#[derive(Serialize)]
struct StatsJson {
    #[serde(flatten)]
    stats: BTreeMap<String, u64>,
    #[serde(rename = "max_split_size")]
    max_split: i64,
}

struct EntryJson<'a> {
    run: &'a WorkloadRun<'a>,
    entry: Entry,
}

impl Serialize for EntryJson<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        let (name, field, addr, size, stream) = match self.entry {
            Entry::Event(event) => {
                let field = if event.action == Action::Oom { "device_free" } else { "addr" };
                (event.action.name(), field, event.addr, event.size, self.run.number(event.stream))
            }
            Entry::Snapshot(active) => ("snapshot", "addr", 0, active, 0),
        };
        map.serialize_entry("action", name)?;
        map.serialize_entry(field, &addr)?;
        map.serialize_entry("size", &size)?;
        map.serialize_entry("stream", &stream)?;
        if let Entry::Event(TraceEvent { pool, .. }) = self.entry {
            map.serialize_entry("pool_id", &pool)?;
        }
        map.end()
    }
}
