//! The replay under the recorded settings: how far it agrees with the record, and what the program itself did.

use std::ops::Range;

use serde::Serialize;

use super::{Recording, Replay, Step, StepKind};
use crate::allocator::simulator::{Action, MempoolId, RestoreError, SimulatorConfig, TraceEvent};

/// What the replay under the recorded settings shows.
#[derive(Clone, Debug)]
pub struct Fidelity {
    /// What the program did, to be done again under other settings.
    pub steps: Vec<Step>,
    /// The first entry that comes out otherwise; `None` if the replay is exact.
    pub divergence: Option<Divergence>,
    /// Recorded requests that were served, and how many of them got the recorded address.
    pub requests: u64,
    /// See [`Fidelity::requests`].
    pub addresses_met: u64,
    /// The replay at the end of the trace.
    pub replay: Replay,
}

/// The first entry of a trace that the simulator does not reproduce.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Divergence {
    /// Its place in the trace, or that of the request it belongs to.
    pub record: usize,
    /// The recorded entry, if the simulator has nothing there or something else.
    pub recorded: Option<TraceEvent>,
    /// The simulator's entry.
    pub simulated: Option<TraceEvent>,
}

impl Fidelity {
    /// Replays a trace under the settings it was recorded with.
    pub fn check(recording: &Recording<'_>, config: SimulatorConfig) -> Result<Self, RestoreError> {
        let replay = Replay::new(recording, config)?;
        let fidelity = Self { steps: Vec::new(), divergence: None, requests: 0, addresses_met: 0, replay };
        let mut pass = Pass { trace: recording.trace, fidelity };
        pass.run();
        Ok(pass.fidelity)
    }

    /// Whether every entry was reproduced.
    pub fn is_exact(&self) -> bool {
        self.divergence.is_none()
    }
}

struct Pass<'a> {
    trace: &'a [TraceEvent],
    fidelity: Fidelity,
}

impl Pass<'_> {
    fn run(&mut self) {
        let mut at = 0;
        while let Some(event) = self.trace.get(at) {
            if event.action == Action::FreeRequested {
                let completed = self.trace.get(at + 1);
                let plain = completed.is_some_and(|e| e.action == Action::FreeCompleted && e.addr == event.addr);
                self.step(at, StepKind::Free { addr: event.addr, held: !plain });
                at += if plain { 2 } else { 1 };
                continue;
            }
            // What the allocator did up to the next thing that the program did.
            let by_program = |e: &TraceEvent| matches!(e.action, Action::Alloc | Action::Oom | Action::FreeRequested);
            let end = self.trace[at..].iter().position(by_program).map_or(self.trace.len(), |n| at + n);
            match self.trace.get(end) {
                Some(event) if event.action != Action::FreeRequested => {
                    self.request(at..end, *event);
                    at = end + 1;
                }
                _ => {
                    self.outside(at..end);
                    at = end;
                }
            }
        }
    }

    /// A request, and the entries before it.
    fn request(&mut self, run: Range<usize>, event: TraceEvent) {
        let record = run.end;
        self.learn_order(run.clone());
        self.learn_pools(run.clone());
        let failed = event.action == Action::Oom;
        let mut run = run;

        // Blocks that completed before anything was released were noticed when the request began. Where a release
        // follows, the wait of a flush completed them, and the search before it must not find them.
        let completed = self.count(run.clone(), |action| action == Action::FreeCompleted);
        let next = self.trace[run.start + completed].action;
        if !(is_release(next) || next == Action::Oom) {
            for at in run.start..run.start + completed {
                self.step(at, StepKind::Complete { addr: self.trace[at].addr });
            }
            run.start += completed;
        }

        // A flush belongs to the request if the request needed it, and then memory of the device follows.
        if let Some(last) = run.clone().rev().find(|at| is_release(self.trace[*at].action)) {
            let grows = self.trace[last..run.end].iter().any(|event| is_growth(event.action));
            let simulator = &mut self.fidelity.replay.simulator;
            let own = failed || grows && simulator.would_release(event.pool, event.size, event.stream);
            if !own {
                self.outside(run.start..last + 1);
                run.start = last + 1;
            }
        }

        // A single release ahead of new memory is the partial flush, which takes the oldest of its size.
        let mut released = self.trace[run.clone()].iter().filter(|event| is_release(event.action));
        if let (Some(only), None) = (released.next(), released.next()) {
            self.fidelity.replay.simulator.prefer_release(only.size, only.addr, None);
        }

        let simulator = &mut self.fidelity.replay.simulator;
        simulator.forget_hints();
        let rest = &self.trace[run.clone()];
        for event in rest.iter().filter(|event| event.action == Action::SegmentAlloc) {
            simulator.hint_segment(event.addr, event.size);
        }
        if let Some(map) = rest.iter().find(|event| event.action == Action::SegmentMap) {
            simulator.hint_expandable(map.addr);
        }
        if !failed && !rest.iter().any(|event| is_growth(event.action)) {
            simulator.prefer_initial(event.pool, event.size, event.stream, event.addr);
        }
        let addr = (!failed).then_some(event.addr);
        self.step(record, StepKind::Malloc { addr, size: event.size, stream: event.stream, pool: event.pool });
        if !failed {
            self.fidelity.requests += 1;
            let served = self.fidelity.replay.events().last();
            self.fidelity.addresses_met += u64::from(served.is_some_and(|served| Some(served.addr) == addr));
        }
        self.compare(run.start..record + 1);
        self.complete_late(run);
    }

    /// Entries that no request follows: an explicit flush, or streams that were found done.
    fn outside(&mut self, run: Range<usize>) {
        if self.trace[run.clone()].iter().any(|event| is_release(event.action)) {
            self.learn_order(run.clone());
            self.learn_pools(run.clone());
            self.step(run.start, StepKind::EmptyCache);
            self.compare(run.clone());
        }
        self.complete_late(run);
    }

    /// Memory of a private pool is released only when nobody uses the pool any more.
    fn learn_pools(&mut self, run: Range<usize>) {
        let mut last = MempoolId::DEFAULT;
        for at in run {
            let event = self.trace[at];
            if is_release(event.action) && event.pool.is_private() && event.pool != last {
                last = event.pool;
                self.step(at, StepKind::ReleasePool { pool: event.pool });
            }
        }
    }

    /// Released segments of one size show their order, the last pair first so that earlier pairs keep it.
    fn learn_order(&mut self, run: Range<usize>) {
        let released = self.trace[run].iter().filter(|event| event.action == Action::SegmentFree);
        let mut later: Option<&TraceEvent> = None;
        for event in released.rev() {
            if let Some(later) = later.filter(|later| later.size == event.size && later.stream == event.stream) {
                self.fidelity.replay.simulator.prefer_release(event.size, event.addr, Some(later.addr));
            }
            later = Some(event);
        }
    }

    /// What the record completed must be complete afterwards; nothing happens if it is already.
    fn complete_late(&mut self, run: Range<usize>) {
        for at in run {
            if self.trace[at].action == Action::FreeCompleted {
                self.step(at, StepKind::Complete { addr: self.trace[at].addr });
            }
        }
    }

    fn step(&mut self, record: usize, kind: StepKind) {
        let step = Step { record, kind };
        self.fidelity.replay.apply(&step);
        self.fidelity.steps.push(step);
    }

    fn count(&self, run: Range<usize>, is: impl Fn(Action) -> bool) -> usize {
        self.trace[run].iter().take_while(|event| is(event.action)).count()
    }

    /// Compares the last step's entries with recorded ones. The order of completed blocks is not certain, so they are
    /// left to what they cause.
    fn compare(&mut self, run: Range<usize>) {
        if self.fidelity.divergence.is_some() {
            return;
        }
        let compared = |event: &&TraceEvent| event.action != Action::FreeCompleted;
        let mut simulated = self.fidelity.replay.events().iter().filter(compared);
        let mut recorded = run.clone().filter(|at| self.trace[*at].action != Action::FreeCompleted);
        loop {
            let (at, ours) = (recorded.next(), simulated.next());
            let theirs = at.map(|at| self.trace[at]);
            match (theirs, ours) {
                (None, None) => return,
                (Some(theirs), Some(ours)) if same(&theirs, ours) => {}
                (theirs, ours) => {
                    let record = at.unwrap_or(run.end.saturating_sub(1));
                    self.fidelity.divergence = Some(Divergence { record, recorded: theirs, simulated: ours.copied() });
                    return;
                }
            }
        }
    }
}

/// The free memory of a failed request depends on other processes.
fn same(a: &TraceEvent, b: &TraceEvent) -> bool {
    let addr = a.addr == b.addr || a.action == Action::Oom;
    a.action == b.action && addr && a.size == b.size && a.stream == b.stream
}

fn is_release(action: Action) -> bool {
    matches!(action, Action::SegmentFree | Action::SegmentUnmap)
}

fn is_growth(action: Action) -> bool {
    matches!(action, Action::SegmentAlloc | Action::SegmentMap)
}
