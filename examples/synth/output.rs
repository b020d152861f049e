//! Puts a run into a snapshot file, in the order and with the sharing of PyTorch's own.

use crate::device::{Block, Call, Event, Segment, Trace};
use crate::stacks::{StackId, Stacks};
use crate::training::{Annotation, Scope};
use oomscope::allocator::TorchVersion;
use oomscope::pickle::write::{Handle, PickleWriter, WriteError};
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::collections::{BTreeMap, HashMap};
use std::io::Write;

type Result<T> = std::result::Result<T, WriteError>;

/// Writes the parts of a snapshot in turn; as a [`Trace`] it takes the events.
pub struct SnapshotWriter<'a, W: Write> {
    pickle: PickleWriter<W>,
    stacks: &'a Stacks,
    torch: TorchVersion,
    max_bytes: Option<u64>,
    frames: Vec<Option<Handle>>,
    no_frames: Option<Handle>,
    /// Stack objects of calls that made something in `segments`; its file comes before the trace.
    kept: HashMap<u64, Handle>,
    /// The stack object of the call written last.
    last: Option<(Call, Handle)>,
}

impl<'a, W: Write> SnapshotWriter<'a, W> {
    /// Writes to `out`; as a trace it is full from `max_bytes` on.
    pub fn new(out: W, stacks: &'a Stacks, torch: TorchVersion, max_bytes: Option<u64>) -> Result<Self> {
        let mut pickle = PickleWriter::new(out).memoise_everything();
        pickle.begin_dict()?;
        let frames = vec![None; stacks.frames.len()];
        Ok(Self { pickle, stacks, torch, max_bytes, frames, no_frames: None, kept: HashMap::new(), last: None })
    }

    /// Fills the numbers of the memo that have short references, as the final state does in a whole file: `first` is the stack that
    /// comes first there. References, most of a file's bytes, then take as many bytes in a trace alone as they will in the end.
    pub fn fill_memo(&mut self, first: StackId) -> Result<()> {
        self.begin("segments")?;
        self.stack(Call { number: 0, stack: first })?;
        for _ in 0..256 {
            self.pickle.begin_list()?;
            self.pickle.end()?;
        }
        self.end()
    }

    /// Opens a list at the top level.
    pub fn begin(&mut self, key: &str) -> Result<()> {
        self.pickle.key(key)?;
        self.pickle.begin_list()
    }

    /// Opens the trace of the next device.
    pub fn begin_trace(&mut self) -> Result<()> {
        self.pickle.begin_list()
    }

    /// Closes what was opened last.
    pub fn end(&mut self) -> Result<()> {
        self.pickle.end()
    }

    /// The final state of device `device`.
    pub fn segments(
        &mut self,
        device: usize,
        segments: &BTreeMap<u64, Segment>,
        blocks: &BTreeMap<u64, Block>,
    ) -> Result<()> {
        for (&address, segment) in segments {
            let blocks = blocks.range(address..address + segment.size);
            let live = || blocks.clone().map(|(_, block)| block).filter(|block| block.owner.is_some());
            let allocated: u64 = live().map(|block| block.size).sum();
            let requested: u64 = live().map(|block| block.requested).sum();
            self.pickle.begin_dict()?;
            self.number("device", device as u64)?;
            self.number("address", address)?;
            self.number("total_size", segment.size)?;
            self.number("allocated_size", allocated)?;
            self.number("active_size", allocated)?;
            self.number("requested_size", requested)?;
            self.number("stream", 0)?;
            self.word("segment_type", ["small", "large"][segment.kind as usize])?;
            self.pool("segment_pool_id")?;
            self.pickle.key("is_expandable")?;
            self.pickle.bool(false)?;
            self.pickle.key("frames")?;
            self.keep(segment.call)?;
            self.pickle.key("blocks")?;
            self.pickle.begin_list()?;
            for (&address, block) in blocks {
                self.block(address, block)?;
            }
            self.pickle.end()?;
            self.pickle.end()?;
        }
        Ok(())
    }

    fn block(&mut self, address: u64, block: &Block) -> Result<()> {
        self.pickle.begin_dict()?;
        self.number("address", address)?;
        self.number("size", block.size)?;
        self.number("requested_size", block.requested)?;
        self.word("state", if block.owner.is_some() { "active_allocated" } else { "inactive" })?;
        self.pickle.key("frames")?;
        match (block.owner, self.no_frames) {
            (Some(call), _) => self.keep(call)?,
            (None, Some(empty)) => self.pickle.refer(empty)?,
            (None, None) => {
                self.pickle.begin_list()?;
                self.no_frames = Some(self.pickle.share()?);
                self.pickle.end()?;
            }
        }
        self.pickle.end()
    }

    /// Everything after the traces, and the end of the file.
    pub fn finish(mut self, annotations: &[Vec<Annotation>]) -> Result<W> {
        self.pickle.key("allocator_settings")?;
        self.pickle.value(&settings(self.torch))?;
        self.begin("external_annotations")?;
        for (device, annotations) in annotations.iter().enumerate() {
            for annotation in annotations {
                self.pickle.begin_dict()?;
                self.word("stage", if annotation.start { "START" } else { "END" })?;
                self.pickle.key("name")?;
                self.pickle.text(&match annotation.scope {
                    Scope::Step(number) => format!("ProfilerStep#{number}"),
                    Scope::ZeroGrad => "Optimizer.zero_grad#AdamW.zero_grad".to_owned(),
                    Scope::Optimizer => "Optimizer.step#AdamW.step".to_owned(),
                })?;
                self.number("device", device as u64)?;
                self.number("time_us", annotation.time_us)?;
                self.pickle.end()?;
            }
        }
        self.end()?;
        if self.torch >= TorchVersion::new(2, 14) {
            for key in ["host_segments", "host_traces"] {
                self.begin(key)?;
                self.end()?;
            }
        }
        self.end()?;
        self.pickle.finish()
    }

    /// The stack object of `call`, which the trace will refer to.
    fn keep(&mut self, call: Call) -> Result<()> {
        let handle = self.stack(call)?;
        self.kept.insert(call.number, handle);
        Ok(())
    }

    fn stack(&mut self, call: Call) -> Result<Handle> {
        let known = self.last.filter(|(last, _)| *last == call).map(|(_, handle)| handle);
        if let Some(handle) = known.or_else(|| self.kept.get(&call.number).copied()) {
            self.pickle.refer(handle)?;
            return Ok(handle);
        }
        self.pickle.begin_list()?;
        let handle = self.pickle.share()?;
        for &frame in &self.stacks.stacks[call.stack.0] {
            match self.frames[frame] {
                Some(known) => self.pickle.refer(known)?,
                None => {
                    self.pickle.value(&self.stacks.frames[frame])?;
                    self.frames[frame] = Some(self.pickle.share()?);
                }
            }
        }
        self.pickle.end()?;
        self.last = Some((call, handle));
        Ok(handle)
    }

    fn number(&mut self, key: &str, value: u64) -> Result<()> {
        self.pickle.key(key)?;
        self.pickle.u64(value)
    }

    fn word(&mut self, key: &str, word: &str) -> Result<()> {
        self.pickle.key(key)?;
        self.pickle.interned(word)
    }

    fn pool(&mut self, key: &str) -> Result<()> {
        self.pickle.key(key)?;
        self.pickle.begin_tuple(2)?;
        self.pickle.u64(0)?;
        self.pickle.u64(0)?;
        self.pickle.end()
    }
}

impl<W: Write> Trace for SnapshotWriter<'_, W> {
    fn event(&mut self, event: &Event) -> Result<()> {
        self.pickle.begin_dict()?;
        self.word("action", event.action)?;
        self.number(if event.action == "oom" { "device_free" } else { "addr" }, event.address)?;
        self.number("size", event.size)?;
        self.number("stream", 0)?;
        self.number("time_us", event.time_us)?;
        if self.torch >= TorchVersion::new(2, 8) {
            self.pickle.key("compile_context")?;
            self.pickle.text("N/A")?;
        }
        if self.torch >= TorchVersion::new(2, 10) {
            self.word("user_metadata", "")?;
        }
        if self.torch >= TorchVersion::new(2, 12) {
            self.pool("pool_id")?;
        }
        self.pickle.key("frames")?;
        self.stack(event.call)?;
        self.pickle.end()
    }

    fn is_full(&self) -> bool {
        self.max_bytes.is_some_and(|max| self.pickle.position() >= max)
    }
}

/// `allocator_settings` with nothing set.
#[derive(serde::Serialize)]
struct Settings {
    #[serde(rename = "PYTORCH_CUDA_ALLOC_CONF")]
    conf: &'static str,
    max_split_size: i64,
    garbage_collection_threshold: f64,
    expandable_segments: bool,
    pinned_num_register_threads: u64,
    release_lock_on_cudamalloc: bool,
    pinned_use_cuda_host_register: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    graph_capture_record_stream_reuse: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_round_threshold: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_cached_size: Option<i64>,
    roundup_power2_divisions: Divisions,
}

fn settings(torch: TorchVersion) -> Settings {
    Settings {
        conf: "",
        max_split_size: -1,
        garbage_collection_threshold: 0.0,
        expandable_segments: false,
        pinned_num_register_threads: 1,
        release_lock_on_cudamalloc: false,
        pinned_use_cuda_host_register: false,
        graph_capture_record_stream_reuse: (torch >= TorchVersion::new(2, 9)).then_some(false),
        max_round_threshold: (torch >= TorchVersion::new(2, 13)).then_some(-1),
        max_cached_size: (torch >= TorchVersion::new(2, 13)).then_some(-1),
        roundup_power2_divisions: Divisions,
    }
}

/// No rounding in any of the 16 intervals; the keys in PyTorch's order.
struct Divisions;

impl Serialize for Divisions {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(16))?;
        for log2 in 0..16 {
            map.serialize_entry(&(1 << log2).to_string(), &0)?;
        }
        map.end()
    }
}
