//! The state of a run as a line of JSON, with the names that PyTorch uses.

use std::collections::BTreeMap;
use std::io::Write;

use serde::Serialize;
use serde::ser::{SerializeMap, Serializer};

use super::run::{Entry, WorkloadRun};
use crate::allocator::{Action, BlockId, TraceEvent};

impl WorkloadRun<'_> {
    /// Writes the state after `done` operations; the last one comes with the trace.
    pub(super) fn write_state(&self, done: u64, last: bool, out: impl Write) -> serde_json::Result<()> {
        serde_json::to_writer(out, &Report { run: self, done, last })
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
