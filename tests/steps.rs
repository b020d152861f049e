//! Step boundaries: from annotations, from the program's own returns to a line, from windows.

mod common;

use std::path::Path;

use common::{read, shared_data, testdata};
use oomscope::analysis::steps::{PhaseKind, StepSource, Steps};
use oomscope::history::History;
use oomscope::snapshot::Snapshot;

fn history(snapshot: &Snapshot) -> History<'_> {
    let busiest = snapshot.devices.iter().max_by_key(|device| device.events.len()).unwrap();
    History::new(snapshot, busiest, &snapshot.settings.rules)
}

fn steps(path: &Path) -> Option<Steps> {
    Steps::find(&history(&read(path)))
}

#[test]
fn profiler_annotations_are_steps() {
    let steps = steps(&testdata().join("cases/09_linear_leak.pickle")).unwrap();
    assert_eq!(steps.source, StepSource::ProfilerStep);
    assert_eq!(steps.count(), 20);
    assert_eq!(steps.numbers, (0..20).collect::<Vec<_>>());
    assert_eq!(steps.numbered(3), Some(steps.states(3)));
}

#[test]
fn a_loop_without_annotations_is_found_in_the_stacks() {
    let steps = steps(&testdata().join("cases/08_cycle_50185.pickle")).unwrap();
    let StepSource::Period { line, passes, regularity } = &steps.source else { panic!("{:?}", steps.source) };
    assert!(line.ends_with("oom.py:13"), "{line}");
    assert_eq!((*passes, *regularity, steps.count()), (1, 1.0, 25));
}

#[test]
fn a_short_trace_has_no_steps() {
    assert_eq!(steps(&testdata().join("cases/07_wrapped_ring.pickle")), None);
    assert_eq!(steps(&testdata().join("cases/03_soft_free_segments.pickle")), None, "no trace");
}

/// Marked and unmarked files of the same workload must have the same steps.
#[test]
fn the_known_workloads_have_their_steps() {
    let Some(data) = shared_data() else { return };
    let rig = data.join("rig");
    let expected = [
        ("steps_leak.pickle.gz", 29..=30, "workloads.py:65"),
        ("steady.pickle.gz", 29..=30, "workloads.py:65"),
        ("leak_cache_atoom.pickle.gz", 20..=22, "workloads.py:103"),
        ("leak_eval_atoom.pickle", 5..=6, "workloads.py:94"),
    ];
    for version in ["2.1.2", "2.6.0", "2.15.0"] {
        for (name, count, line) in &expected {
            let path = rig.join(version).join(name);
            let found = steps(&path).unwrap_or_else(|| panic!("{}", path.display()));
            assert!(count.contains(&found.count()), "{}: {} {:?}", path.display(), found.count(), found.source);
            match &found.source {
                StepSource::ProfilerStep => assert!(name.starts_with("ste") && version != "2.1.2"),
                StepSource::OptimizerStep { name: annotation } => {
                    assert!(name.starts_with("leak_cache") && annotation == "Optimizer.step#AdamW.step");
                }
                StepSource::Period { line: found, .. } => assert!(found.ends_with(line), "{found}"),
                other => panic!("{}: {other:?}", path.display()),
            }
        }
    }
    // A request is 16 tokens: the bytes of a pass repeat after so many.
    let requests = steps(&data.join("leaks/kv_noreset.pickle")).unwrap();
    assert!(matches!(requests.source, StepSource::Period { passes: 16, .. }), "{:?}", requests.source);
    assert_eq!(requests.boundaries.len(), 10);
}

/// Peaks of steps are no other figures than those along the whole trace.
#[test]
fn peaks_of_steps_are_states_of_the_trace() {
    let snapshot = read(&testdata().join("cases/09_linear_leak.pickle"));
    let history = history(&snapshot);
    let steps = Steps::find(&history).unwrap();
    let peaks = steps.peaks(&history);
    assert_eq!(peaks.len(), steps.count());
    for (peak, at) in peaks.iter().zip(0..) {
        let highest =
            steps.states(at).chain([steps.states(at).end]).map(|state| history.counters(state).allocated).max();
        assert_eq!(Some(peak.bytes), highest);
        assert_eq!(peak.bytes, history.counters(peak.state).allocated);
    }
    let phases = steps.phases(&history);
    assert_eq!(phases.last().map(|phase| phase.kind), Some(PhaseKind::Steady));
    assert!(phases.windows(2).all(|pair| pair[0].states.end == pair[1].states.start));
}
