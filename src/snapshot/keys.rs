//! Strings that the format gives a meaning, interned first so that their ids are constants.

use super::events::Action;
use super::ids::StrId;

macro_rules! keys {
    ($($name:ident = $text:literal,)*) => {
        #[allow(non_camel_case_types, clippy::upper_case_acronyms)]
        #[repr(u32)]
        enum Order { $($name,)* COUNT }

        $(pub(super) const $name: u32 = Order::$name as u32;)*
        /// Number of known strings.
        pub(super) const COUNT: u32 = Order::COUNT as u32;
        /// The known strings in the order of their ids.
        pub(super) const TEXTS: [&str; COUNT as usize] = [$($text,)*];
    };
}

keys! {
    EMPTY = "",
    // Trace entries.
    ACTION = "action",
    ADDR = "addr",
    SIZE = "size",
    STREAM = "stream",
    FRAMES = "frames",
    TIME_US = "time_us",
    DEVICE_FREE = "device_free",
    COMPILE_CONTEXT = "compile_context",
    USER_METADATA = "user_metadata",
    INTERNAL_METADATA = "internal_metadata",
    POOL_ID = "pool_id",
    FORWARD_FRAMES = "forward_frames",
    CPP_FRAMES = "cpp_frames",
    CATEGORY = "category",
    // Segments and blocks.
    DEVICE = "device",
    ADDRESS = "address",
    TOTAL_SIZE = "total_size",
    ALLOCATED_SIZE = "allocated_size",
    ACTIVE_SIZE = "active_size",
    REQUESTED_SIZE = "requested_size",
    SEGMENT_TYPE = "segment_type",
    SEGMENT_POOL_ID = "segment_pool_id",
    IS_EXPANDABLE = "is_expandable",
    BLOCKS = "blocks",
    STATE = "state",
    HISTORY = "history",
    REAL_SIZE = "real_size",
    // Frames.
    NAME = "name",
    FILENAME = "filename",
    LINE = "line",
    FX_NODE_OP = "fx_node_op",
    FX_NODE_NAME = "fx_node_name",
    FX_NODE_TARGET = "fx_node_target",
    FX_ORIGINAL_TRACE = "fx_original_trace",
    // Annotations.
    STAGE = "stage",
    START = "START",
    // The top level.
    SEGMENTS = "segments",
    DEVICE_TRACES = "device_traces",
    ALLOCATOR_SETTINGS = "allocator_settings",
    EXTERNAL_ANNOTATIONS = "external_annotations",
    HOST_SEGMENTS = "host_segments",
    HOST_TRACES = "host_traces",
    // Allocator settings.
    GRAPH_CAPTURE_REUSE = "graph_capture_record_stream_reuse",
    MAX_CACHED_SIZE = "max_cached_size",
    // Values.
    SMALL = "small",
    ACTIVE_ALLOCATED = "active_allocated",
    INACTIVE = "inactive",
}

/// The actions whose names the format knows. Their ids follow those of the known strings, in this order.
pub(super) const ACTIONS: &[Action] = match &Action::ALL {
    [named @ .., Action::Other] => named,
    _ => panic!("the last action is any other"),
};

/// The action that the string `id` names, if the format knows it.
#[inline]
pub(super) fn action(id: StrId) -> Option<Action> {
    ACTIONS.get(id.0.wrapping_sub(COUNT) as usize).copied()
}

/// The id of a known string.
pub(super) const fn id(key: u32) -> StrId {
    StrId(key)
}

// `Keys` has one bit a key.
const _: () = assert!(COUNT <= 64);
// `StrId::default()` is the empty string.
const _: () = assert!(EMPTY == 0);
