//! Recordings replayed under their own settings and others, through the library.

mod common;

use std::path::PathBuf;

use common::{files, is_pickle, read, shared_data, testdata};
use oomscope::allocator::{
    Action, AllocatorRules, Behaviour, Fidelity, MIB, Replay, SimulatorConfig, TorchVersion, TraceEvent,
};
use oomscope::analysis::whatif::{Options, Recorded, WhatIf, WhatIfError, whatif};
use oomscope::history::History;
use oomscope::snapshot::Snapshot;

/// Only the recorded settings; the one setting named is there because an empty list means the usual ones.
fn same_settings() -> Options {
    Options { settings: vec!["max_split_size_mb:512".to_owned()], ..Options::default() }
}

fn each_device(snapshot: &Snapshot, options: &Options) -> Vec<(i64, bool, Result<WhatIf, WhatIfError>)> {
    let devices = snapshot.devices.iter();
    devices
        .map(|device| {
            let history = History::new(snapshot, device, &snapshot.settings.rules);
            (device.ordinal, history.health.complete, whatif(&history, options))
        })
        .collect()
}

/// Device traces, faithful ones, and the first differences of the others.
fn survey(paths: &[PathBuf]) -> (usize, usize, Vec<String>) {
    let (mut traces, mut faithful, mut others) = (0, 0, Vec::new());
    for path in paths {
        let snapshot = read(path);
        for (device, complete, result) in each_device(&snapshot, &same_settings()) {
            let name = format!("{} device {device} (complete: {complete})", path.display());
            match result {
                Err(WhatIfError::NoHistory { .. }) => continue,
                Err(error) => others.push(format!("{name}: {error}")),
                Ok(result) => match result.baseline.first_divergence {
                    None => faithful += 1,
                    Some(first) => others.push(format!("{name}: torch {} {first:?}", result.torch)),
                },
            }
            traces += 1;
        }
    }
    (traces, faithful, others)
}

/// Snapshots taken without history have nothing to replay; everything else has to be exact.
#[test]
fn the_recorded_settings_reproduce_the_own_recordings() {
    let (traces, faithful, others) = survey(&files(&testdata().join("rig"), is_pickle));
    assert_eq!(others, Vec::<String>::new());
    assert!(faithful == traces && traces >= 30, "{faithful} of {traces}");
}

/// All traces of the rig are exact to the last event, those that begin late or lost their beginning too. Of the other
/// collections the share is told: they hold traces with entries left out, and settings that changed meanwhile.
#[test]
fn the_recorded_settings_reproduce_every_recording() {
    let Some(data) = shared_data() else { return };
    let (traces, faithful, others) = survey(&files(&data.join("rig"), is_pickle));
    println!("rig: {faithful} of {traces} traces\n{}", others.join("\n"));
    assert_eq!(others, Vec::<String>::new());
    assert!(traces > 120, "{traces}");
    for (part, least) in
        [("allocator", 29), ("metadata", 28), ("cpp_writer", 80), ("leaks", 16), ("ranks16", 16), ("public", 16)]
    {
        let (traces, faithful, others) = survey(&files(&data.join(part), is_pickle));
        println!("{part}: {faithful} of {traces} traces\n{}", others.join("\n"));
        assert!(faithful >= least, "{part}: {faithful} of {traces}");
    }
}

/// The program of `from`, run under expandable segments up to its recorded failure: trace and recorded program.
fn under_expandable(from: &Snapshot, version: TorchVersion, gpu_mib: u64) -> Vec<TraceEvent> {
    let history = History::new(from, &from.devices[0], &from.settings.rules);
    let recorded = Recorded::new(&history);
    let whole = recorded.recording(recorded.trace.len());
    let capacity = whole.limits(&recorded.rules).capacity.unwrap();
    let config = |rules: &AllocatorRules| SimulatorConfig {
        behaviour: Behaviour::of(version),
        capacity,
        ..SimulatorConfig::new(rules.clone(), gpu_mib * MIB)
    };
    let fidelity = Fidelity::check(&whole, config(&recorded.rules)).unwrap();
    assert_eq!(fidelity.divergence, None);
    let failed = recorded.trace.iter().position(|event| event.action == Action::Oom).unwrap();
    let expandable = AllocatorRules { expandable: true, ..recorded.rules.clone() };
    let mut replay = Replay::new(&recorded.recording(0), config(&expandable)).unwrap();
    let mut trace = Vec::new();
    let steps = fidelity.steps.iter().take_while(|step| step.record < failed);
    replay.run(steps, |_, replay| trace.extend_from_slice(replay.events()));
    trace
}

/// What another run of the same program did under expandable segments, really.
#[test]
fn a_replay_under_expandable_segments_is_the_real_run() {
    let Some(data) = shared_data() else { return };
    for (version, minor) in [("2.1.2", 1), ("2.6.0", 6), ("2.15.0", 15)] {
        let file = |name: &str| read(&data.join("rig").join(version).join(format!("{name}.pickle.gz")));
        let ours = under_expandable(&file("frag"), TorchVersion::new(2, minor), 5300);
        let real = file("frag_expandable");
        let theirs = Recorded::new(&History::new(&real, &real.devices[0], &real.settings.rules)).trace;
        // The ring of 2.15 has lost the beginning of the real run.
        let window = &theirs[..200];
        let start = (0..ours.len()).find(|at| ours[*at..].starts_with(window));
        let start = start.unwrap_or_else(|| panic!("{version}: the real run is not in the replay"));
        let length = (ours.len() - start).min(theirs.len());
        let different = (0..length).find(|at| ours[start + at] != theirs[*at]);
        println!("{version}: {length} entries compared, from entry {start} of {} on", ours.len());
        assert_eq!(different, None, "{version}: {:?}", different.map(|at| (ours[start + at], theirs[at])));
        assert!(minor == 15 || start == 0, "{version}: starts at {start}");
        assert!(length > 40_000, "{version}: {length}");
    }
}

/// The real allocator's answers at 3632 MiB.
#[test]
fn decode_passes_under_expandable_segments() {
    let snapshot = read(&testdata().join("rig/2.6.0/decode_atoom.pickle"));
    let history = History::new(&snapshot, &snapshot.devices[0], &snapshot.settings.rules);
    let settings = ["expandable_segments:True", "garbage_collection_threshold:0.8"].map(str::to_owned).to_vec();
    let options = Options { settings, capacity: Some(3632 * MIB), ..Options::default() };
    let result = whatif(&history, &options).unwrap();
    assert!(result.trusted && result.until_oom);
    assert_eq!(result.baseline.figures.peak_reserved, 3628 * MIB);
    assert_eq!(result.baseline.figures.avoids_recorded_oom, Some(false));
    let expandable = &result.scenarios[0];
    assert_eq!(expandable.figures.avoids_recorded_oom, Some(true));
    assert_eq!((expandable.figures.peak_reserved, expandable.figures.end.reserved), (982 * MIB, 982 * MIB));
    assert_eq!(expandable.advice, "passes this request: 982.0 MiB of 3.55 GiB then reserved");
    assert!(expandable.advised && !result.scenarios[1].advised);
    assert_eq!(result.scenarios[1].advice, "no effect: no memory fraction was set");

    // A little less memory fails earlier, by default.
    let less = whatif(&history, &Options { capacity: Some(3000 * MIB), ..options }).unwrap();
    assert!(less.baseline.figures.ooms.iter().any(|oom| !oom.recorded), "{:?}", less.baseline.figures);
    assert!(less.baseline.figures.replayed_to < less.until);
}

/// The parts of the reserved memory add up, and an exact replay ends with the totals that the file has.
#[test]
fn the_parts_add_up() {
    for path in files(&testdata().join("rig"), is_pickle) {
        let snapshot = read(&path);
        for (device, _, result) in each_device(&snapshot, &Options::default()) {
            let Ok(result) = result else { continue };
            // From 2.13 on addresses decide nothing, so that what has no effect leaves every figure as it is.
            let torch: TorchVersion = result.torch.parse().unwrap();
            if torch >= TorchVersion::new(2, 13) && result.baseline.settings.is_empty() {
                let refused = result.scenarios.iter().filter(|scenario| scenario.refusal.is_some());
                for useless in refused {
                    let name = format!("{} {}", path.display(), useless.settings);
                    assert_eq!(useless.figures.peak_reserved, result.baseline.figures.peak_reserved, "{name}");
                    assert_eq!(useless.figures.end, result.baseline.figures.end, "{name}");
                }
            }
            for scenario in result.scenarios.iter().chain([&result.baseline]) {
                let end = scenario.figures.end;
                let parts = [end.rounding, end.releasable, end.stranded, end.pool_idle].map(Option::unwrap);
                let sum = end.requested + parts.iter().sum::<u64>();
                assert_eq!(end.reserved, sum, "{} device {device} {}", path.display(), scenario.settings);
                assert!(scenario.figures.peak_reserved >= end.reserved);
            }
            let found = snapshot.devices.iter().find(|found| found.ordinal == device).unwrap();
            let history = History::new(&snapshot, found, &snapshot.settings.rules);
            let state = if result.until_oom { result.until + 1 } else { history.events() };
            let totals = oomscope::analysis::totals::totals(&history, &history.state(state));
            assert_eq!(result.baseline.figures.end, totals, "{} device {device}", path.display());
        }
    }
}
