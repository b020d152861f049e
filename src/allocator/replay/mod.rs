//! Running a recorded program through the simulator, under its own settings or others.
//!
//! In: the state at the start and the trace. First [`Fidelity::check`] replays the trace under the recorded settings,
//! compares every entry, and turns the trace into [`Step`]s: what the program did, without what the allocator did about
//! it. Then a [`Replay`] does the same steps under other settings. Nothing here knows where the trace comes from.

mod fidelity;

pub use fidelity::{Divergence, Fidelity};

use foldhash::fast::RandomState;
use serde::Serialize;

use super::AllocatorRules;
use super::simulator::{
    Action, BlockId, BlockStatus, EventPolicy, InitialSegment, MallocError, MempoolId, PoolOptions, RestoreError,
    Simulator, SimulatorConfig, TraceEvent,
};

type HashMap<K, V> = hashbrown::HashMap<K, V, RandomState>;

/// What is known of a recorded program.
#[derive(Clone, Copy, Debug)]
pub struct Recording<'a> {
    /// The segments when the trace begins, the oldest first if that is known.
    pub segments: &'a [InitialSegment],
    /// Known starts of expandable segments.
    pub bases: &'a [u64],
    /// Private pools that were made with options, where that is known: traces do not say it.
    pub pools: &'a [(MempoolId, PoolOptions)],
    /// The trace, without entries of other kinds. Entries up to 2.11 have no pool; who knows it better fills it in.
    pub trace: &'a [TraceEvent],
}

/// What the failed requests of a trace show of the device. In bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// What PyTorch could have of the device: reserved and free memory when a request failed. The lowest of them, and at
    /// least what was ever reserved. `None` if no request failed for want of memory.
    pub capacity: Option<u64>,
    /// Bounds of the limit that the memory fraction sets, the lower one being known to be allowed. `None` if no request
    /// failed although the device had the memory.
    pub allowed: Option<(u64, u64)>,
}

impl Recording<'_> {
    /// Reads the limits off the failed requests; `rules` are those of the record.
    pub fn limits(&self, rules: &AllocatorRules) -> Limits {
        let mut reserved = self.segments.iter().fold(0u64, |sum, segment| sum.saturating_add(segment.size));
        let mut most = reserved;
        let (mut capacity, mut allowed) = (None::<u64>, None::<u64>);
        for event in self.trace {
            match event.action {
                Action::SegmentAlloc | Action::SegmentMap => reserved = reserved.saturating_add(event.size),
                Action::SegmentFree | Action::SegmentUnmap => reserved = reserved.saturating_sub(event.size),
                Action::Oom => {
                    let needed = rules.segment_size(event.size);
                    let mapped = if rules.expandable { rules.granule(rules.pool_kind(event.size)) } else { 1 };
                    let (limit, value) = if event.addr >= needed.checked_next_multiple_of(mapped).unwrap_or(needed) {
                        (&mut allowed, reserved.saturating_add(needed) - 1)
                    } else {
                        (&mut capacity, reserved.saturating_add(event.addr))
                    };
                    *limit = Some(limit.map_or(value, |limit| limit.min(value)));
                }
                _ => {}
            }
            most = most.max(reserved);
        }
        Limits {
            capacity: capacity.map(|capacity| capacity.max(most)),
            allowed: allowed.map(|allowed| (most, allowed.max(most))),
        }
    }
}

/// Something the program did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Step {
    /// The entry of the trace that shows it.
    pub record: usize,
    /// What it is.
    pub kind: StepKind,
}

/// Kinds of [`Step`]s. Addresses are those of the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// A request of `size` bytes. One that failed in the record has no address.
    Malloc {
        /// Where the record put it.
        addr: Option<u64>,
        /// Bytes.
        size: u64,
        /// Stream.
        stream: u64,
        /// Pool.
        pool: MempoolId,
    },
    /// The block is given back; `held` says that it waits for other streams.
    Free {
        /// Where the record had it.
        addr: u64,
        /// A [`StepKind::Complete`] follows some time.
        held: bool,
    },
    /// The other streams are done, unless a flush has waited for them before.
    Complete {
        /// Where the record had it.
        addr: u64,
    },
    /// `torch.cuda.empty_cache()`.
    EmptyCache,
    /// The last user of a private pool is gone, so that flushes may release it.
    ReleasePool {
        /// The pool.
        pool: MempoolId,
    },
}

/// A request that did not end as in the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The step's entry of the trace.
    pub record: usize,
    /// Why it failed.
    pub error: MallocError,
}

/// How the requests ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Requests that fail here, whether they failed in the record or not.
    pub failures: Vec<Failure>,
    /// Entries of the trace whose requests failed in the record and succeed here. Such a block is given back at once,
    /// as the recorded program went on without it.
    pub avoided: Vec<usize>,
    /// Frees of blocks that do not exist here.
    pub unknown_frees: u64,
}

/// A recorded program on its way through the simulator.
#[derive(Clone, Debug)]
pub struct Replay {
    simulator: Simulator,
    /// Allocated blocks by their recorded address.
    live: HashMap<u64, BlockId>,
    /// Freed blocks that wait, by their recorded address, and the recorded address by the simulated one.
    held: HashMap<u64, BlockId>,
    held_at: HashMap<u64, u64>,
    outcome: Outcome,
    events: Vec<TraceEvent>,
}

impl Replay {
    /// The state at the start of the trace, under the settings of `config`.
    pub fn new(recording: &Recording<'_>, config: SimulatorConfig) -> Result<Self, RestoreError> {
        let mut simulator = Simulator::new(config);
        simulator.set_event_policy(EventPolicy::Manual);
        for (pool, options) in recording.pools {
            simulator.create_pool(*pool, *options);
        }
        simulator.load(recording.segments, recording.bases)?;
        let (mut live, mut held, mut held_at) = (HashMap::default(), HashMap::default(), HashMap::default());
        for block in simulator.segments().iter().flat_map(|segment| &segment.blocks) {
            match block.state {
                BlockStatus::ActiveAllocated => {
                    live.insert(block.address, block.id);
                }
                BlockStatus::ActivePendingFree => {
                    held.insert(block.address, block.id);
                    held_at.insert(block.address, block.address);
                }
                BlockStatus::Inactive => {}
            }
        }
        Ok(Self { simulator, live, held, held_at, outcome: Outcome::default(), events: Vec::new() })
    }

    /// Does all `steps`; `observe` looks on after each.
    pub fn run<'a>(&mut self, steps: impl IntoIterator<Item = &'a Step>, mut observe: impl FnMut(&Step, &Self)) {
        for step in steps {
            self.apply(step);
            observe(step, self);
        }
    }

    /// Does one step.
    pub fn apply(&mut self, step: &Step) {
        self.events.clear();
        match step.kind {
            StepKind::Malloc { addr, size, stream, pool } => self.malloc(step.record, addr, size, stream, pool),
            StepKind::Free { addr, held } => match self.live.remove(&addr) {
                Some(block) if held => {
                    if let Some((here, ..)) = self.simulator.block(block) {
                        self.held_at.insert(here, addr);
                    }
                    self.simulator.free_held(block);
                    self.held.insert(addr, block);
                    self.keep_events();
                }
                Some(block) => {
                    self.simulator.free(block);
                    self.keep_events();
                }
                None => self.outcome.unknown_frees += 1,
            },
            StepKind::Complete { addr } => {
                if let Some(block) = self.held.remove(&addr) {
                    if let Some((here, ..)) = self.simulator.block(block) {
                        self.held_at.remove(&here);
                    }
                    self.simulator.complete(block);
                    self.keep_events();
                }
            }
            StepKind::ReleasePool { pool } => self.simulator.release_private_pool(pool),
            StepKind::EmptyCache => {
                self.simulator.empty_cache();
                self.forget_completed();
                self.keep_events();
            }
        }
    }

    fn malloc(&mut self, record: usize, addr: Option<u64>, size: u64, stream: u64, pool: MempoolId) {
        let result = self.simulator.malloc_in(pool, size, stream);
        self.forget_completed();
        self.keep_events();
        match (result, addr) {
            (Ok(allocation), Some(addr)) => {
                self.live.insert(addr, allocation.block);
            }
            (Ok(allocation), None) => {
                self.outcome.avoided.push(record);
                self.simulator.free(allocation.block);
                self.keep_events();
            }
            (Err(error), _) => self.outcome.failures.push(Failure { record, error }),
        }
    }

    fn keep_events(&mut self) {
        self.events.extend_from_slice(self.simulator.events());
    }

    /// The trace entries of the last step.
    pub fn events(&self) -> &[TraceEvent] {
        &self.events
    }

    /// A flush may have completed blocks before their recorded time.
    fn forget_completed(&mut self) {
        if self.held.is_empty() {
            return;
        }
        for event in self.simulator.events().iter().filter(|event| event.action == Action::FreeCompleted) {
            if let Some(addr) = self.held_at.remove(&event.addr) {
                self.held.remove(&addr);
            }
        }
    }

    /// The simulator as it stands.
    pub fn simulator(&self) -> &Simulator {
        &self.simulator
    }

    /// How the requests ended so far.
    pub fn outcome(&self) -> &Outcome {
        &self.outcome
    }
}
