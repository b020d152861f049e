//! Folded stacks: they hold what the counters hold, whatever is measured and whatever the frames are called.

mod common;

use oomscope::analysis::folded::{Folded, Frames, fold};
use oomscope::analysis::ranking::{Measure, Metric, Unit};
use oomscope::analysis::sites::{By, Sites};
use oomscope::analysis::window::Window;
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
            let moment = history.moment(at).unwrap();
            for frames in [Frames::Python, Frames::All] {
                let folded = fold(history, sites, Measure::Live(moment), frames);
                check_shape(name, &folded);
                assert_eq!(folded.total, history.counters(moment.state).active, "{name} {at:?}");
            }
        }
    });
}

#[test]
fn allocated_bytes_are_those_of_the_window() {
    each(|name, history, sites| {
        let Some(last) = history.events().checked_sub(1).filter(|_| history.health.recorded) else { return };
        let total = |first, last| {
            let folded = fold(history, sites, Measure::Over(Metric::Allocated, Window { first, last }), Frames::Python);
            check_shape(name, &folded);
            folded.total
        };
        let lives = &history.lives;
        let traced = lives.ids().filter(|&life| lives.alloc_event(life).is_some());
        assert_eq!(total(0, last), traced.map(|life| lives.bytes(life)).sum::<u64>(), "{name}");
        let middle = last / 2;
        assert_eq!(total(0, middle) + total(middle + 1, last), total(0, last), "{name}");
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
        let window = Window { first: 0, last: events - 1 };
        let folded = fold(history, sites, Measure::Over(Metric::BytesTime, window), Frames::Python);
        check_shape(name, &folded);
        let has_times = history.time_span().is_some();
        let time = |state: u32| match state.checked_sub(1) {
            None if has_times => history.time_us(0).unwrap(),
            None => 0,
            Some(event) => history.time_us(event).unwrap_or(u64::from(state)),
        };
        let span = |state: u32| u128::from(time(state + 1).saturating_sub(time(state)));
        let area: u128 = (0..events).map(|state| u128::from(history.counters(state).active) * span(state)).sum();
        let (divisor, unit) = if has_times { (1_000, Unit::ByteMilliseconds) } else { (1, Unit::ByteEvents) };
        assert_eq!(folded.unit, unit);
        // Less than one unit is lost for each block.
        let lost = (area / divisor).abs_diff(u128::from(folded.total));
        assert!(lost <= history.lives.len() as u128, "{name}: {} and {}", area / divisor, folded.total);
    });
}

#[test]
fn the_root_comes_first() {
    let snapshot = common::read(&common::testdata().join("rig/2.6.0/oom_train_atoom.pickle"));
    let history = History::new(&snapshot, &snapshot.devices[0], &snapshot.settings.rules);
    let sites = Sites::new(&snapshot, By::Line);
    let live = Measure::Live(history.moment(At::Default).unwrap());
    let folded = fold(&history, &sites, live, Frames::Python);
    let largest = folded.stacks.iter().max_by_key(|stack| stack.value).unwrap();
    assert!(largest.frames[0].starts_with("<module> ("), "{:?}", largest.frames);
    assert!(largest.frames.iter().any(|frame| frame.starts_with("forward (")), "{:?}", largest.frames);
}
