//! Folded stacks: they hold what the counters hold, whatever is measured and whatever the frames are called.

mod common;

use oomscope::analysis::folded::{Folded, FoldedUnit, Frames, Measure, fold};
use oomscope::analysis::sites::{By, Sites};
use oomscope::history::{At, History};

/// Every history of the project's snapshots.
fn each(check: impl Fn(&str, &History, &Sites)) {
    for path in common::files(&common::testdata().join("rig"), common::is_pickle) {
        let snapshot = common::read(&path);
        let sites = Sites::new(&snapshot, By::Stack);
        for device in &snapshot.devices {
            let history = History::new(&snapshot, device, &snapshot.settings.rules);
            check(&path.display().to_string(), &history, &sites);
        }
    }
}

fn check_shape(name: &str, folded: &Folded) {
    assert_eq!(folded.total, folded.stacks.iter().map(|stack| stack.value).sum::<u64>(), "{name}");
    assert!(folded.stacks.windows(2).all(|pair| pair[0].frames < pair[1].frames), "{name}: sorted, each once");
    for line in folded.lines() {
        let (stack, value) = line.rsplit_once(' ').unwrap();
        assert!(!stack.is_empty() && value.parse::<u64>().unwrap() > 0, "{name}: {line}");
        assert!(!line.contains(char::is_control), "{name}: {line:?}");
    }
}

#[test]
fn live_bytes_sum_to_the_counter() {
    each(|name, history, sites| {
        for at in [At::Default, At::End] {
            let state = history.moment(at).unwrap().state;
            for frames in [Frames::Python, Frames::All] {
                let folded = fold(history, sites, &Measure::Live(state), frames);
                check_shape(name, &folded);
                assert_eq!(folded.total, history.counters(state).active, "{name} {at:?}");
            }
        }
    });
}

#[test]
fn allocated_bytes_are_those_of_the_window() {
    each(|name, history, sites| {
        let all = fold(history, sites, &Measure::Allocated(0..history.events()), Frames::Python);
        check_shape(name, &all);
        let lives = &history.lives;
        let traced = lives.ids().filter(|&life| lives.alloc_event(life).is_some());
        assert_eq!(all.total, traced.map(|life| lives.bytes(life)).sum::<u64>(), "{name}");
        let middle = history.events() / 2;
        let halves = [0..middle, middle..history.events()]
            .map(|events| fold(history, sites, &Measure::Allocated(events), Frames::Python).total);
        assert_eq!(halves[0] + halves[1], all.total, "{name}");
    });
}

#[test]
fn bytes_times_time_is_the_area_below_the_counter() {
    each(|name, history, sites| {
        let events = history.events();
        // Quadratic: small files only.
        if !(2..3_000).contains(&events) {
            return;
        }
        let folded = fold(history, sites, &Measure::BytesTime(0..events), Frames::Python);
        check_shape(name, &folded);
        let span = |state: u32| match history.time_span() {
            Some(_) => u128::from(history.time_us(state).unwrap().saturating_sub(history.time_us(state - 1).unwrap())),
            None => 1,
        };
        let area: u128 = (1..events).map(|state| u128::from(history.counters(state).active) * span(state)).sum();
        let divisor = if folded.unit == FoldedUnit::ByteMilliseconds { 1_000 } else { 1 };
        let lost = (area / divisor).abs_diff(u128::from(folded.total));
        assert!(lost <= folded.stacks.len() as u128, "{name}: {area} and {}", folded.total);
    });
}

#[test]
fn the_root_comes_first() {
    let snapshot = common::read(&common::testdata().join("rig/2.6.0/oom_train_atoom.pickle"));
    let history = History::new(&snapshot, &snapshot.devices[0], &snapshot.settings.rules);
    let sites = Sites::new(&snapshot, By::Line);
    let state = history.moment(At::Default).unwrap().state;
    let folded = fold(&history, &sites, &Measure::Live(state), Frames::Python);
    let largest = folded.stacks.iter().max_by_key(|stack| stack.value).unwrap();
    assert!(largest.frames[0].starts_with("<module> ("), "{:?}", largest.frames);
    assert!(largest.frames.iter().any(|frame| frame.starts_with("forward (")), "{:?}", largest.frames);
}
