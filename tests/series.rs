//! Series for pictures: bands sum to the counter in every column, and no peak is lost however few columns there are.

mod common;

use oomscope::analysis::categories::{Classifier, Rules};
use oomscope::analysis::series::{MarkKind, Series, SeriesOptions, Unit, What, by_size, grouped, series};
use oomscope::analysis::sites::{By, Sites};
use oomscope::history::History;

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
    let states = window.start..=window.end;
    states.map(|state| history.counters(state)).map(|c| (c.requested, c.active, c.reserved)).collect()
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
            for (i, requested) in series.requested.iter().enumerate() {
                let is_there = all.iter().any(|c| c.0 == *requested && c.1 == sums[i]);
                assert!(is_there, "{name}: column {i} is of no one moment");
            }
        }
    }
}

#[test]
fn bands_sum_to_the_counters_and_no_peak_is_lost() {
    each(|name, history, sites| {
        let events = history.events();
        if events > 3_000 {
            return;
        }
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
        if !(10..3_000).contains(&events) {
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
        if events > 3_000 {
            return;
        }
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
