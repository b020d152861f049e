//! Which writer and which torch releases a file fits, inferred from the keys it has: no file states them.

use serde::Serialize;

use super::keys;
use super::schema::Schema;
use crate::allocator::TorchVersion;

/// Where a file comes from.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Format {
    /// Pickle protocol; `None` for JSON.
    pub protocol: Option<u8>,
    /// Oldest release that writes all the keys found.
    #[serde(serialize_with = "version_text")]
    pub torch_at_least: Option<TorchVersion>,
    /// First release that would have written a key that is missing.
    #[serde(serialize_with = "version_text")]
    pub torch_below: Option<TorchVersion>,
    /// What wrote it.
    pub writer: Writer,
}

/// The program that wrote a snapshot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Writer {
    /// `pickle.dump` in Python.
    #[default]
    Python,
    /// PyTorch's C++ pickler (`_memory_snapshot_pickled`).
    Cpp,
    /// A fork for Ascend NPUs, whose keys do not follow torch's releases.
    #[serde(rename = "torch_npu")]
    TorchNpu,
    /// A converter to JSON.
    Json,
}

fn version_text<S: serde::Serializer>(version: &Option<TorchVersion>, to: S) -> Result<S::Ok, S::Error> {
    version.map(|version| version.to_string()).serialize(to)
}

impl Format {
    /// Whether it is surely of a release before 2.1, in which history is recorded by other arguments.
    pub fn is_before_2_1(&self) -> bool {
        self.torch_below.is_some_and(|below| below <= TorchVersion::new(2, 1))
    }

    /// Whether it is surely of a release before 2.0, which records no history, only the stacks of live blocks.
    pub fn is_before_2_0(&self) -> bool {
        self.torch_below.is_some_and(|below| below <= TorchVersion::new(2, 0))
    }

    /// The call that records a history, and stacks, in the releases that the file fits.
    pub fn recording(&self) -> &'static str {
        match self.is_before_2_1() {
            true if self.is_before_2_0() => "torch.cuda.memory._record_memory_history(True)",
            true => {
                "torch.cuda.memory._record_memory_history(True, trace_alloc_max_entries=100000, trace_alloc_record_context=True)"
            }
            false => "torch.cuda.memory._record_memory_history(max_entries=100000, stacks=\"python\")",
        }
    }

    /// The bracket in words: `torch 2.5–2.7`, `torch 2.15 or newer`, `torch version unknown`.
    pub fn torch(&self) -> String {
        let before = |version: TorchVersion| match version.minor {
            // 1.13 was the last release before 2.0.
            0 => "1.13".to_owned(),
            minor => format!("{}.{}", version.major, minor - 1),
        };
        match (self.torch_at_least, self.torch_below) {
            (Some(low), Some(high)) if before(high) == low.to_string() => format!("torch {low}"),
            (Some(low), Some(high)) => format!("torch {low}–{}", before(high)),
            (Some(low), None) => format!("torch {low} or newer"),
            (None, Some(high)) => format!("torch {} or older", before(high)),
            (None, None) => "torch version unknown".to_owned(),
        }
    }
}

/// What a bracket is inferred from.
pub(super) struct Evidence<'a> {
    /// Keys of the rows.
    pub(super) schema: &'a Schema,
    /// Keys of the top level; `None` when it is a list.
    pub(super) top: Option<&'a [u32]>,
    /// Keys of the settings.
    pub(super) settings: &'a [u32],
    /// Whether there is a trace entry that could have had the newer keys.
    pub(super) has_events: bool,
    /// Whether there is a block.
    pub(super) has_blocks: bool,
}

/// The oldest release that fits, and the first that does not (snapshot format: what changed in each release).
pub(super) fn bracket(evidence: &Evidence) -> (Option<TorchVersion>, Option<TorchVersion>) {
    let Schema { event, block, segment, .. } = evidence.schema;
    let top = |key: u32| evidence.top.is_some_and(|keys| keys.contains(&key));
    let setting = |key: u32| evidence.settings.contains(&key);
    let is_dict = evidence.top.is_some();
    let has_settings = !evidence.settings.is_empty();
    // Release, whether its key is there, and whether its absence means an older release.
    let steps = [
        ((2, 15), event.has_id(keys::INTERNAL_METADATA), false),
        ((2, 14), top(keys::HOST_SEGMENTS), is_dict),
        ((2, 13), setting(keys::MAX_CACHED_SIZE), has_settings),
        ((2, 12), event.has_id(keys::POOL_ID), evidence.has_events),
        ((2, 10), event.has_id(keys::USER_METADATA), evidence.has_events),
        ((2, 9), setting(keys::GRAPH_CAPTURE_REUSE), has_settings),
        ((2, 8), event.has_id(keys::COMPILE_CONTEXT), evidence.has_events),
        ((2, 5), top(keys::EXTERNAL_ANNOTATIONS), is_dict),
        ((2, 3), top(keys::ALLOCATOR_SETTINGS), is_dict),
        ((2, 2), event.has_id(keys::TIME_US), evidence.has_events),
        ((2, 1), block.has_id(keys::ADDRESS), evidence.has_blocks),
        ((2, 0), is_dict || block.has_id(keys::REQUESTED_SIZE), evidence.has_blocks),
        ((1, 13), block.has_id(keys::HISTORY) || segment.has_id(keys::STREAM), evidence.has_blocks),
    ];
    let version = |(major, minor)| TorchVersion::new(major, minor);
    let at_least = steps.iter().find(|(_, present, _)| *present).map(|(release, ..)| version(*release));
    let newer_than_floor = |release| at_least.is_none_or(|floor| version(release) > floor);
    let below = steps
        .iter()
        .filter(|(release, present, telling)| !present && *telling && newer_than_floor(*release))
        .map(|(release, ..)| version(*release))
        .min();
    (at_least, below)
}
