//! Series for pictures: bands sum to the counter in every column, and no peak is lost however few columns there are.

mod common;

use std::collections::{BTreeMap, HashSet};

use oomscope::analysis::categories::{Classifier, Rules};
use oomscope::analysis::series::{MarkKind, Series, SeriesOptions, Unit, What, by_size, grouped, series};
use oomscope::analysis::sites::{By, Sites};
use oomscope::history::History;
use oomscope::snapshot::{LoadOptions, Snapshot, load_bytes};
use proptest::prelude::*;

/// Every history of the project's own snapshots that has a trace.
fn each(check: impl Fn(&str, &History, &Sites)) {
    let cases = ["04_expandable_pages", "06_seeded_peak", "07_wrapped_ring", "09_linear_leak", "12_two_devices"];
    let cases = cases.map(|name| common::testdata().join(format!("cases/{name}.pickle")));
    let mut count = 0;
    for path in common::files(&common::testdata().join("rig"), common::is_pickle).into_iter().chain(cases) {
        let snapshot = common::read(&path);
        let sites = Sites::new(&snapshot, By::Line);
        for device in &snapshot.devices {
            let history = History::new(&snapshot, device, &snapshot.settings.rules);
            if history.health.recorded {
                check(&path.display().to_string(), &history, &sites);
                count += 1;
            }
        }
    }
    assert!(count > 30, "{count}");
}

fn sums(series: &Series) -> Vec<u64> {
    (0..series.x.len()).map(|i| series.bands.iter().map(|band| band.values[i]).sum()).collect()
}

/// The counters in every state of `window`: requested, active, reserved.
fn counters(history: &History, window: std::ops::Range<u32>) -> Vec<(u64, u64, u64)> {
    let start = history.counters(window.start);
    let mut now = (start.requested as i64, start.active as i64, start.reserved as i64);
    let mut all = vec![now];
    for event in window.clone() {
        let change = history.change(event);
        now = (now.0 + change.requested, now.1 + change.active, now.2 + change.reserved);
        all.push(now);
    }
    let end = history.counters(window.end);
    assert_eq!((now.0, now.1), (end.requested as i64, end.active as i64));
    all.into_iter().map(|c| (c.0.max(0) as u64, c.1.max(0) as u64, c.2.max(0) as u64)).collect()
}

/// Checks `series` against the counters of `window`.
fn check(name: &str, history: &History, series: &Series, window: std::ops::Range<u32>) {
    let all = counters(history, window);
    let highest = |of: fn(&(u64, u64, u64)) -> u64| all.iter().map(of).max().unwrap();
    let lowest_active = all.iter().map(|c| c.1).min().unwrap();
    assert_eq!(series.reserved.iter().max(), Some(&highest(|c| c.2)), "{name}: reserved");
    assert_eq!(series.active.iter().max(), Some(&highest(|c| c.1)), "{name}: active");
    let sums = sums(series);
    let peak = series.marks.iter().find(|mark| mark.kind == MarkKind::Peak).expect("a peak");
    assert!((series.x[0]..series.x_end).contains(&peak.x), "{name}: {peak:?}");
    assert!(series.x.windows(2).all(|pair| pair[0] <= pair[1]), "{name}: columns are in order");
    match series.what {
        What::Segments => {
            if history.health.odd_ranges == 0 {
                assert_eq!(sums, series.reserved, "{name}: segments sum to what is reserved");
            }
        }
        _ => {
            assert_eq!(sums, series.active, "{name}: bands sum to what is live");
            assert_eq!(series.lowest.iter().min(), Some(&lowest_active), "{name}: the lowest point");
            let moments: HashSet<(u64, u64)> = all.iter().map(|c| (c.0, c.1)).collect();
            for (i, &requested) in series.requested.iter().enumerate() {
                assert!(moments.contains(&(requested, sums[i])), "{name}: column {i} is of no one moment");
            }
        }
    }
}

#[test]
fn bands_sum_to_the_counters_and_no_peak_is_lost() {
    each(|name, history, sites| {
        let events = history.events();
        for columns in [1, 7, 300] {
            for what in [What::Live, What::Blocks, What::Segments] {
                let options = SeriesOptions { columns, bands: 5, what, ..SeriesOptions::default() };
                check(name, history, &series(history, sites, &options).unwrap(), 0..events);
            }
        }
    });
}

#[test]
fn a_window_has_its_own_extremes() {
    each(|name, history, sites| {
        let events = history.events();
        if events < 10 {
            return;
        }
        let window = events / 3..events * 2 / 3;
        let options = SeriesOptions { columns: 9, bands: 3, window: Some(window.clone()), ..SeriesOptions::default() };
        let found = series(history, sites, &options).unwrap();
        check(name, history, &found, window.clone());
        assert_eq!(found.x[0], u64::from(window.start));
        assert_eq!(found.x_end, u64::from(window.end));
    });
}

#[test]
fn groups_and_times_sum_as_well() {
    each(|name, history, sites| {
        let events = history.events();
        let categories = Classifier::new(history.snapshot, Rules::default()).classify(history).groups();
        for groups in [by_size(history), categories] {
            let options =
                SeriesOptions { columns: 50, unit: Unit::Microseconds, bands: 20, ..SeriesOptions::default() };
            let found = grouped(history, sites, Some(&groups), &options).unwrap();
            assert_eq!(found.by, groups.by);
            check(name, history, &found, 0..events);
        }
    });
}

/// What an entry of a trace says: its action, which of a few addresses, how many bytes, and the time since the entry
/// before in microseconds.
type Entry = (&'static str, u64, u64, u64);

/// A snapshot in protocol 0 of one segment with these entries; blocks that are never freed are in it, those at the
/// addresses of `vanished` aside.
fn snapshot(entries: &[Entry], vanished: &[u64]) -> Snapshot {
    const MIB: u64 = 1 << 20;
    let base = 1 << 30;
    let mut live = BTreeMap::new();
    let (mut trace, mut time) = (String::new(), 1_000_000);
    for &(action, slot, size, gap) in entries {
        time += gap;
        trace +=
            &format!("(dVaction\nV{action}\nsVaddr\nI{}\nsVsize\nI{size}\nsVtime_us\nI{time}\nsa", base + slot * MIB);
        match action {
            "alloc" => live.insert(slot, (size, "active_allocated")),
            "free_requested" => {
                live.get(&slot).copied().and_then(|(size, _)| live.insert(slot, (size, "active_pending_free")))
            }
            _ => live.remove(&slot),
        };
    }
    let block = |addr: u64, size: u64, state: &str| {
        format!("(dVaddress\nI{addr}\nsVsize\nI{size}\nsVrequested_size\nI{size}\nsVstate\nV{state}\nsa")
    };
    let blocks = (0..8u64).map(|slot| {
        let addr = base + slot * MIB;
        match live.get(&slot).filter(|_| !vanished.contains(&slot)) {
            Some(&(size, state)) => block(addr, size, state) + &block(addr + size, MIB - size, "inactive"),
            None => block(addr, MIB, "inactive"),
        }
    });
    let blocks = blocks.collect::<String>();
    let segment = format!("(dVdevice\nI0\nsVaddress\nI{base}\nsVtotal_size\nI{}\nsVblocks\n(lp3\n{blocks}sa", 8 * MIB);
    let pickle = format!("(dp0\nVsegments\n(lp1\n{segment}sVdevice_traces\n(lp2\n(lp4\n{trace}as.");
    load_bytes(pickle.as_bytes(), &LoadOptions::default()).unwrap()
}

/// Checks pictures and peaks of a snapshot against its counters in every state.
fn check_all(snapshot: &Snapshot, columns: usize, unit: Unit) {
    let sites = Sites::new(snapshot, By::Line);
    let history = History::new(snapshot, &snapshot.devices[0], &snapshot.settings.rules);
    let all: Vec<_> = (0..=history.events()).map(|state| history.counters(state)).collect();
    let peaks = history.peaks.unwrap();
    assert_eq!(Some(peaks.requested.bytes), all.iter().map(|c| c.requested).max());
    assert_eq!(Some(peaks.allocated.bytes), all.iter().map(|c| c.allocated).max());
    assert_eq!(Some(peaks.active.bytes), all.iter().map(|c| c.active).max());
    for what in [What::Live, What::Blocks, What::Segments] {
        let options = SeriesOptions { columns, bands: 3, unit, what, ..SeriesOptions::default() };
        let found = series(&history, &sites, &options).unwrap();
        assert!(found.x.len() <= columns, "{} columns of {columns}", found.x.len());
        check("made", &history, &found, 0..history.events());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever the trace, damaged ones included.
    #[test]
    fn any_trace_keeps_its_peaks(
        entries in prop::collection::vec(
            (
                prop::sample::select(vec!["alloc", "alloc", "free_requested", "free_completed"]),
                0u64..8,
                (1u64..1000).prop_map(|units| units * 512),
                prop::sample::select(vec![0u64, 1, 2, 50, 4_000]),
            ),
            2..120,
        ),
        vanished in prop::collection::vec(0u64..8, 0..3),
        columns in 1usize..60,
        in_time in any::<bool>(),
    ) {
        check_all(&snapshot(&entries, &vanished), columns, if in_time { Unit::Microseconds } else { Unit::Event });
    }
}

/// A block whose free was asked for and never recorded as done leaves `allocated` once, also where its address is
/// handed out again, and where that free is the last entry.
#[test]
fn a_block_without_a_recorded_end_is_taken_off_once() {
    let replaced = [
        ("alloc", 0, 512, 1),
        ("free_requested", 0, 512, 1),
        ("alloc", 0, 512, 1),
        ("alloc", 1, 1024, 1),
        ("free_requested", 1, 1024, 1),
        ("free_completed", 1, 1024, 1),
    ];
    check_all(&snapshot(&replaced, &[]), 10, Unit::Event);
    let last = [
        ("alloc", 0, 512, 1),
        ("free_requested", 0, 512, 1),
        ("free_completed", 0, 512, 1),
        ("alloc", 1, 1024, 1),
        ("free_requested", 1, 1024, 1),
    ];
    let last = snapshot(&last, &[1]);
    check_all(&last, 10, Unit::Event);
    let history = History::new(&last, &last.devices[0], &last.settings.rules);
    assert_eq!(history.health.first_violation, None);
}

/// A time without events shows what the events before it left, not the highest of them.
#[test]
fn idle_time_shows_what_rests() {
    let spike = [
        ("alloc", 0, 512, 0),
        ("alloc", 1, 512_000, 1),
        ("free_requested", 1, 512_000, 0),
        ("free_completed", 1, 512_000, 0),
        ("alloc", 2, 512, 1_000),
    ];
    let snapshot = snapshot(&spike, &[]);
    let history = History::new(&snapshot, &snapshot.devices[0], &snapshot.settings.rules);
    let options = SeriesOptions { columns: 100, unit: Unit::Microseconds, ..SeriesOptions::default() };
    let found = series(&history, &Sites::new(&snapshot, By::Line), &options).unwrap();
    assert_eq!((found.x.as_slice(), found.x_end), ([0, 11, 1_001].as_slice(), 1_002));
    assert_eq!(found.active, [512_512, 512, 1_024]);
    assert_eq!(found.lowest, [0, 512, 1_024]);
}
