//! Recordings of PyTorch as recorded programs: each has to replay exactly under its own settings, and under another
//! setting has to become the recording that PyTorch itself made with that one.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use oomscope::allocator::{
    Action, AllocatorSettings, Behaviour, Fidelity, GIB, MempoolId, Recording, Replay, SimulatorConfig, TorchVersion,
    TraceEvent,
};
use serde_json::Value;

const LISTS: [&str; 5] = ["mixed", "small", "large", "grow", "streams"];

struct Recorded {
    version: TorchVersion,
    setting: String,
    config: SimulatorConfig,
    trace: Vec<TraceEvent>,
}

impl Recorded {
    fn recording(&self) -> Recording<'_> {
        Recording { segments: &[], bases: &[], pools: &[], trace: &self.trace }
    }

    fn failures(&self) -> usize {
        self.trace.iter().filter(|event| event.action == Action::Oom).count()
    }
}

fn action(name: &str) -> Option<Action> {
    use Action::{Alloc, FreeCompleted, FreeRequested, Oom, SegmentAlloc, SegmentFree, SegmentMap, SegmentUnmap};
    let all = [Alloc, FreeRequested, FreeCompleted, SegmentAlloc, SegmentFree, SegmentMap, SegmentUnmap, Oom];
    all.into_iter().find(|action| action.name() == name)
}

fn recordings(list: &str) -> Vec<Recorded> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("testdata/oracle").join(format!("{list}.jsonl.zst"));
    let text = zstd::decode_all(fs::read(path).unwrap().as_slice()).unwrap();
    let lines = text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    lines
        .map(|line| {
            let recording: Value = serde_json::from_slice(line).unwrap();
            let version: TorchVersion = recording["version"].as_str().unwrap().parse().unwrap();
            let setting = recording["setting"].as_str().unwrap().to_owned();
            let last = recording["reports"].as_array().unwrap().last().unwrap();
            let mut rules = AllocatorSettings::parse(last["settings"].as_str().unwrap(), Some(version)).rules;
            rules.memory_fraction = ["gc", "frac"].contains(&setting.as_str()).then_some(0.9);
            let event = |entry: &Value| {
                let number = |key: &str| entry[key].as_u64();
                Some(TraceEvent {
                    action: action(entry["action"].as_str()?)?,
                    addr: number("addr").or(number("device_free"))?,
                    size: number("size")?,
                    stream: number("stream")?,
                    pool: MempoolId::DEFAULT,
                })
            };
            Recorded {
                version,
                setting,
                config: SimulatorConfig { behaviour: Behaviour::of(version), ..SimulatorConfig::new(rules, 4 * GIB) },
                trace: last["trace"].as_array().unwrap().iter().filter_map(event).collect(),
            }
        })
        .collect()
}

#[test]
fn every_recording_replays_exactly() {
    let mut visited = 0;
    for recorded in LISTS.into_iter().flat_map(recordings) {
        let fidelity = Fidelity::check(&recorded.recording(), recorded.config.clone()).unwrap();
        assert_eq!(fidelity.divergence, None, "{} {}", recorded.version, recorded.setting);
        assert_eq!(fidelity.requests, fidelity.addresses_met);
        assert_eq!(fidelity.replay.outcome().failures.len(), recorded.failures());
        visited += 1;
    }
    assert_eq!(visited, 170);
}

#[test]
fn the_device_is_read_off_the_failures() {
    let mut seen = [0; 2];
    for recorded in LISTS.into_iter().flat_map(recordings).filter(|recorded| recorded.failures() > 0) {
        let limits = recorded.recording().limits(&recorded.config.rules);
        let allowed = recorded.config.rules.memory_fraction.and_then(|f| recorded.config.behaviour.limit(f, 4 * GIB));
        if let Some((least, most)) = limits.allowed {
            assert!((least..=most).contains(&allowed.unwrap()));
            seen[0] += 1;
        }
        if let Some(capacity) = limits.capacity {
            assert_eq!(capacity, 4 * GIB);
            seen[1] += 1;
        }
    }
    assert!(seen[0] > 10 && seen[1] > 10, "{seen:?}");
}

/// From every recording without failures to every other setting of the same release. A record does not show calls of
/// `empty_cache` that released nothing, so those that would release something elsewhere cannot be repeated there: such
/// pairs part at a release, and only such.
#[test]
fn what_ifs_become_the_recordings_of_the_other_setting() {
    let (mut equal, mut parted) = (BTreeMap::new(), BTreeMap::new());
    for list in LISTS {
        let all = recordings(list);
        for from in all.iter().filter(|recorded| recorded.failures() == 0) {
            let steps = Fidelity::check(&from.recording(), from.config.clone()).unwrap().steps;
            for to in all.iter().filter(|to| to.version == from.version && to.setting != from.setting) {
                let mut replay = Replay::new(&from.recording(), to.config.clone()).unwrap();
                let mut trace = Vec::new();
                replay.run(&steps, |_, replay| trace.extend_from_slice(replay.events()));
                let same = |(a, b): (&TraceEvent, &TraceEvent)| {
                    let addr = a.addr == b.addr || a.action == Action::Oom;
                    a.action == b.action && a.size == b.size && addr
                };
                let first = trace.iter().zip(&to.trace).position(|pair| !same(pair));
                let shorter = (trace.len() < to.trace.len()).then_some(trace.len());
                let first = first.or(shorter);
                let counts = match first {
                    None => &mut equal,
                    Some(at) => {
                        let release = [Action::SegmentFree, Action::SegmentUnmap].contains(&to.trace[at].action);
                        assert!(release, "{list} {}: {} to {}", from.version, from.setting, to.setting);
                        &mut parted
                    }
                };
                *counts.entry(list).or_insert(0) += 1;
            }
        }
    }
    let sum = |counts: &BTreeMap<_, i32>| counts.values().sum::<i32>();
    assert_eq!((sum(&equal), sum(&parted)), (665, 115), "{equal:?} {parted:?}");
}
