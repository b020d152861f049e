//! Lists of operations: requests written by hand or by a generator, run through the simulator.
//!
//! In: the JSON that the recorder of the test oracles also reads. Out: one JSON object a line with the statistics, the
//! segments and the addresses, in the form that the recorder wrote when it ran the same list through PyTorch.

mod report;
mod run;

use serde::Deserialize;
use thiserror::Error;

pub use run::{FailedRequest, RunOptions, WorkloadRun};

use super::MIB;

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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn lists_and_maps_mean_the_same() {
        let list =
            br#"{"gpu_mib": 64, "ctx_mib": 4, "ops": [["a", 1, 4096, 2], ["r", 1, 3], ["f", 1], ["e"], ["s"], ["p"]]}"#;
        let map = br#"{"gpu_mib": 64, "ctx_mib": 4, "va": "low", "ops": [{"op": "alloc", "id": 1, "size": 4096, "stream": 2},
            {"op": "record_stream", "id": 1, "stream": 3}, {"op": "free", "id": 1}, {"op": "empty_cache"}, {"op": "sync"},
            {"op": "report"}]}"#;
        let workload = Workload::from_json(list).unwrap();
        assert_eq!(workload, Workload::from_json(map).unwrap());
        assert_eq!((workload.total, workload.context), (Some(64 * MIB), 4 * MIB));
        let bare = Workload::from_json(br#"[["a", 1, 4096]]"#).unwrap();
        assert_eq!(bare.operations, [Operation::Allocate { id: 1, size: 4096, stream: 0 }]);
    }

    #[test]
    fn errors_name_the_operation() {
        let error = Workload::from_json(br#"[["a", 1, 4096], ["x"]]"#).unwrap_err();
        assert!(error.to_string().starts_with("operation 1 (counted from 0) is none of"));
        assert!(Workload::from_json(b"{").is_err());
        assert!(Workload::from_json(br#"[["a", -1, 4096]]"#).is_err());
    }

    #[test]
    fn streams_are_ordered_by_first_use() {
        let workload =
            Workload::from_json(br#"[["a", 1, 21000000, 7], ["a", 2, 21000000, 3], ["f", 1], ["f", 2], ["e"]]"#)
                .unwrap();
        let options = RunOptions::default();
        let mut run = WorkloadRun::new(&workload, &options);
        let mut out = Vec::new();
        run.run(&mut out).unwrap();
        let report: serde_json::Value = serde_json::from_slice(&out).unwrap();
        let released = report["trace"].as_array().unwrap().iter().filter(|entry| entry["action"] == "segment_free");
        let streams: Vec<_> = released.map(|entry| entry["stream"].as_u64().unwrap()).collect();
        assert_eq!(streams, [7, 3]);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "\\PC{0,60}") {
            let _ = Workload::from_json(text.as_bytes());
        }

        #[test]
        fn no_list_panics(ops in prop::collection::vec((0..4u8, 0..6u64, any::<u64>(), 0..3u64), 0..40)) {
            let operations = ops.into_iter().map(|(kind, id, size, stream)| match kind {
                0 => Operation::Allocate { id, size: size >> (size % 64), stream },
                1 => Operation::Free { id },
                2 => Operation::RecordStream { id, stream },
                _ => Operation::EmptyCache,
            });
            let workload = Workload { total: Some(64 * MIB), operations: operations.collect(), ..Default::default() };
            let options = RunOptions { every: 3, ..Default::default() };
            let mut run = WorkloadRun::new(&workload, &options);
            run.run(&mut Vec::new()).unwrap();
            run.simulator().check_invariants().unwrap();
        }
    }
}
