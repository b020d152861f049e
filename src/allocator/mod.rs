//! The rules of PyTorch's native caching allocator: sizes, rounding, splitting, the versions they belong to, and a
//! simulator that follows them exactly.
//!
//! Nothing here knows of snapshots. The rules are values, so that a caller can ask "what if" by changing one.

mod behaviour;
mod oom_text;
mod ops;
mod replay;
mod rules;
mod settings;
mod simulator;
mod version;

pub use behaviour::{Behaviour, PoolFallback, TieBreak};
pub use oom_text::{OomReport, OomStyle, format_size};
pub use ops::{FailedRequest, Operation, RunOptions, Workload, WorkloadError, WorkloadRun};
pub use replay::{Divergence, Failure, Fidelity, Limits, Outcome, Recording, Replay, Step, StepKind};
pub use rules::{AllocatorRules, ExpandableReserve, GIB, KIB, MIB, PoolKind};
pub use settings::{AllocatorSettings, SettingProblem};
pub use simulator::{
    Action, AddressPolicy, Allocation, BlockId, BlockState, BlockStatus, Capture, EventPolicy, InitialBlock,
    InitialSegment, MallocError, MempoolId, PoolOptions, PoolStat, RestoreError, SegmentState, Simulator,
    SimulatorConfig, Stat, Stats, TraceEvent,
};
pub use version::{ParseVersionError, TorchVersion};
