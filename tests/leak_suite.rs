//! Synthetic jobs with and without a planted leak: how many are found, and how many alarms are false.

mod common;

use std::collections::VecDeque;
use std::fs;
use std::path::Path;

use common::read;
use oomscope::analysis::leaks::{Leaks, leaks};
use oomscope::analysis::sites::{By, Sites};
use oomscope::history::History;
use oomscope::pickle::write::PickleWriter;
use rayon::prelude::*;
use serde_json::{Value, json};

/// Jobs of each kind.
const JOBS: u64 = 240;
/// The line of the planted leak.
const LEAK: u64 = 90;

/// Numbers that look random (Marsaglia's xorshift).
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        let mut random = Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        for _ in 0..8 {
            random.unit();
        }
        random
    }

    /// From 0 to 1.
    fn unit(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    /// From `low` to `high`, small ones as likely as large ones in their logarithm.
    fn scale(&mut self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.unit())
    }

    fn below(&mut self, n: usize) -> usize {
        (self.unit() * n as f64) as usize
    }
}

/// What a job does.
struct Job {
    steps: usize,
    /// By what share sizes vary.
    noise: f64,
    /// Bytes that the planted leak keeps in a step; 0 without.
    leak: f64,
    /// What marks the steps: profiler, optimiser, nothing.
    marks: usize,
    random: Random,
}

impl Job {
    fn new(seed: u64, leaks: bool) -> Self {
        let mut random = Random::new(seed * 2 + u64::from(leaks));
        let steps = random.scale(6.0, 501.0) as usize;
        let leak = random.scale(4096.0, (64u64 << 20) as f64);
        Self { steps, noise: random.unit() * 0.5, leak: if leaks { leak } else { 0.0 }, marks: random.below(3), random }
    }

    /// A size that varies around `mean`.
    fn size(&mut self, mean: f64) -> u64 {
        let varied = mean * (1.0 + self.noise * (2.0 * self.random.unit() - 1.0));
        (varied.max(1.0) as u64).next_multiple_of(512)
    }
}

/// The trace as it is written.
#[derive(Default)]
struct Recorder {
    events: Vec<Value>,
    annotations: Vec<Value>,
    live: Vec<(u64, u64, u64)>,
    end: u64,
}

const BASE: u64 = 0x7f00_0000_0000;

impl Recorder {
    fn event(&mut self, action: &str, addr: u64, size: u64, line: u64) {
        let frames = json!([
            {"name": "work", "filename": "/job/work.py", "line": line},
            {"name": "main", "filename": "/job/main.py", "line": 10 + line / 10},
        ]);
        let time = 1_700_000_000_000_000 + self.events.len() as u64 * 10;
        self.events.push(
            json!({"action": action, "addr": addr, "size": size, "stream": 0, "frames": frames, "time_us": time}),
        );
    }

    fn alloc(&mut self, size: u64, line: u64) -> u64 {
        let addr = BASE + self.end;
        self.end += size;
        self.event("alloc", addr, size, line);
        self.live.push((addr, size, line));
        addr
    }

    fn free(&mut self, addr: u64, line: u64) {
        let at = self.live.iter().rposition(|block| block.0 == addr).unwrap();
        let (_, size, _) = self.live.remove(at);
        self.event("free_requested", addr, size, line);
        self.event("free_completed", addr, size, line);
    }

    fn mark(&mut self, name: &str, stage: &str) {
        let time = 1_700_000_000_000_000 + self.events.len() as u64 * 10 - 5;
        self.annotations.push(json!({"name": name, "stage": stage, "device": 0, "time_us": time}));
    }

    /// The whole snapshot as a pickle: one segment that holds everything.
    fn pickle(mut self) -> Vec<u8> {
        self.live.sort_unstable();
        let (mut blocks, mut at) = (Vec::new(), BASE);
        let free = |addr: u64, size: u64| json!({"address": addr, "size": size, "requested_size": 0, "state": "inactive", "frames": []});
        for &(addr, size, line) in &self.live {
            if at < addr {
                blocks.push(free(at, addr - at));
            }
            let frames = json!([{"name": "work", "filename": "/job/work.py", "line": line}]);
            blocks.push(json!({"address": addr, "size": size, "requested_size": size, "state": "active_allocated", "frames": frames}));
            at = addr + size;
        }
        let total = self.end.next_multiple_of(2 << 20) + (2 << 20);
        blocks.push(free(at, BASE + total - at));
        let mut first = self.events[0].clone();
        first["action"] = "segment_alloc".into();
        first["addr"] = BASE.into();
        first["size"] = total.into();
        self.events.insert(0, first);
        let live: u64 = self.live.iter().map(|block| block.1).sum();
        let document = json!({
            "segments": [{
                "device": 0, "address": BASE, "total_size": total, "allocated_size": live, "active_size": live,
                "requested_size": live, "stream": 0, "segment_type": "large", "segment_pool_id": [0, 0],
                "is_expandable": false, "frames": [], "blocks": blocks,
            }],
            "device_traces": [self.events],
            "external_annotations": self.annotations,
        });
        let mut pickle = PickleWriter::new(Vec::new());
        pickle.value(&document).unwrap();
        pickle.finish().unwrap()
    }
}

/// Runs the job: weights, then steps of a batch, a forward and a backward pass; beside it caches that fill and stop, a
/// queue of bounded length, a workspace that grows in the first steps, and results that are collected and dropped.
fn run(job: &mut Job) -> Vec<u8> {
    const MIB: f64 = 1_048_576.0;
    let mut trace = Recorder::default();
    for _ in 0..4 {
        trace.alloc(4 << 20, 20);
    }
    trace.alloc(8_519_680, 21);
    let (filled, keys) = (0.1 + 0.5 * job.random.unit(), 1 + job.random.below(12));
    // What has not reached its bound within the trace cannot be told from a leak.
    let bounded = 1 + job.random.below((job.steps / 3).clamp(1, 8));
    let dropped_every = 1 + job.random.below((job.steps / 3).clamp(1, 6));
    let (mut batch, mut scratch, mut temporary) = (None, None, None);
    let (mut queue, mut results) = (VecDeque::new(), Vec::new());
    for step in 0..job.steps {
        if job.marks == 0 {
            trace.mark(&format!("ProfilerStep#{step}"), "START");
        }
        let next = trace.alloc(job.size(MIB), 31);
        if let Some(old) = batch.replace(next) {
            trace.free(old, 31);
        }
        let activations: Vec<u64> = (0..4).map(|layer| trace.alloc(job.size(2.0 * MIB), 40 + layer)).collect();
        if step < 3 {
            let grown = trace.alloc((1 << 20) << step, 50);
            if let Some(old) = scratch.replace(grown) {
                trace.free(old, 50);
            }
        }
        if (step as f64) < filled * job.steps as f64
            && step % (1 + job.steps / 24) == 0
            && step / (1 + job.steps / 24) < keys
        {
            trace.alloc(job.size(0.5 * MIB), 60);
        }
        queue.push_back(trace.alloc(job.size(0.25 * MIB), 70));
        if queue.len() > bounded {
            trace.free(queue.pop_front().unwrap(), 71);
        }
        results.push(trace.alloc(job.size(0.1 * MIB), 80));
        if step % dropped_every == 0 {
            results.drain(..).for_each(|addr| trace.free(addr, 81));
        }
        if job.leak > 0.0 {
            // The same line makes something that lives until the next step.
            let size = job.leak * 4.0 * job.noise * job.random.unit();
            let next = trace.alloc((size as u64).next_multiple_of(512).max(512), LEAK);
            if let Some(old) = temporary.replace(next) {
                trace.free(old, LEAK);
            }
            trace.alloc(job.size(job.leak), LEAK);
        }
        activations.into_iter().rev().for_each(|addr| trace.free(addr, 45));
        match job.marks {
            0 => trace.mark(&format!("ProfilerStep#{step}"), "END"),
            1 => {
                trace.mark("Optimizer.step#AdamW.step", "START");
                trace.mark("Optimizer.step#AdamW.step", "END");
            }
            _ => {}
        }
    }
    trace.pickle()
}

struct Outcome {
    steps: usize,
    noise: f64,
    leak: f64,
    /// Bytes per step reported for the planted line.
    found: Option<f64>,
    /// Other lines reported.
    others: Vec<String>,
}

fn outcome(directory: &Path, seed: u64, leaking: bool) -> Outcome {
    let mut job = Job::new(seed, leaking);
    let (steps, noise, leak) = (job.steps, job.noise, job.leak);
    let path = directory.join(format!("{seed}-{leaking}.pickle"));
    fs::write(&path, run(&mut job)).unwrap();
    let snapshot = read(&path);
    fs::remove_file(&path).unwrap();
    let history = History::new(&snapshot, &snapshot.devices[0], &snapshot.settings.rules);
    let sites = Sites::new(&snapshot, By::Line);
    let result: Leaks = leaks(&history, &sites, None);
    let planted = format!("/job/work.py:{LEAK}");
    let found = result.leaks.iter().find(|leak| leak.site == planted).map(|leak| leak.bytes_per_step as f64);
    let others = result.leaks.into_iter().map(|leak| leak.site).filter(|site| *site != planted).collect();
    Outcome { steps, noise, leak, found, others }
}

/// Rows of the table: steps up to, and how it reads.
const LENGTHS: [(usize, &str); 4] = [(12, "6–12"), (40, "13–40"), (130, "41–130"), (500, "131–500")];
const NOISES: [(f64, &str); 3] = [(0.1, "0–10 %"), (0.3, "10–30 %"), (0.5, "30–50 %")];

fn table(leaking: &[Outcome], clean: &[Outcome]) -> Vec<String> {
    let mut rows = Vec::new();
    let mut from = 0;
    for (to, name) in LENGTHS {
        let of_length = |outcome: &&Outcome| from < outcome.steps && outcome.steps <= to;
        let mut cells = vec![name.to_owned()];
        let mut low = -1.0;
        for (high, _) in NOISES {
            let of_noise = |outcome: &&Outcome| low < outcome.noise && outcome.noise <= high;
            let all: Vec<&Outcome> = leaking.iter().filter(of_length).filter(of_noise).collect();
            let found = all.iter().filter(|outcome| outcome.found.is_some()).count();
            cells.push(format!("{found} of {}", all.len()));
            low = high;
        }
        let innocent: Vec<&Outcome> = clean.iter().filter(of_length).collect();
        let alarms = innocent.iter().filter(|outcome| !outcome.others.is_empty()).count();
        cells.push(format!("{alarms} of {}", innocent.len()));
        rows.push(format!("| {} |", cells.join(" | ")));
        from = to;
    }
    rows
}

#[test]
fn recall_and_false_alarms_are_those_of_the_documentation() {
    let directory = tempfile::tempdir().unwrap();
    let outcomes = |leaking: bool| -> Vec<Outcome> {
        (0..JOBS).into_par_iter().map(|seed| outcome(directory.path(), seed, leaking)).collect()
    };
    let (leaking, clean) = (outcomes(true), outcomes(false));
    let rows = table(&leaking, &clean);
    let found = leaking.iter().filter(|outcome| outcome.found.is_some()).count() as f64;
    assert!(found >= 0.95 * JOBS as f64, "{found} of {JOBS} found\n{}", rows.join("\n"));
    let alarms = leaking.iter().chain(&clean).filter(|outcome| !outcome.others.is_empty()).count() as f64;
    let wrong: Vec<_> = leaking.iter().chain(&clean).filter(|outcome| !outcome.others.is_empty()).collect();
    let wrong: Vec<_> = wrong.iter().map(|wrong| (wrong.steps, wrong.noise, &wrong.others)).collect();
    assert!(alarms <= 0.01 * 2.0 * JOBS as f64, "{alarms} false alarms: {wrong:?}\n{}", rows.join("\n"));
    // The rate of long runs is that of the plan, on average over the noise.
    for outcome in leaking.iter().filter(|outcome| outcome.steps > 100) {
        let rate = outcome.found.expect("a long run");
        let tolerance = 0.03 + outcome.noise * 0.3;
        assert!(
            (rate / outcome.leak - 1.0).abs() < tolerance || rate - outcome.leak < 1024.0,
            "{rate} of {}",
            outcome.leak
        );
    }
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/leaks.md")).unwrap();
    for row in &rows {
        assert!(page.contains(row.as_str()), "docs/leaks.md must have these rows:\n{}", rows.join("\n"));
    }
}
