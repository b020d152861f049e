//! What a named part of a trace holds: both ends included, and nothing else.

mod common;

use oomscope::analysis::window::{WindowError, WindowSpec};
use oomscope::history::History;

#[test]
fn both_ends_are_included() {
    let snapshot = common::read(&common::testdata().join("rig/2.6.0/oom_train_atoom.pickle"));
    let history = History::new(&snapshot, &snapshot.devices[0], &snapshot.settings.rules);
    let window = |text: &str| {
        let spec: WindowSpec = text.parse().unwrap();
        spec.resolve(&history).map(|window| window.first..window.last + 1)
    };
    let last = history.events() - 1;

    assert_eq!(window("..").unwrap(), 0..history.events());
    assert_eq!(window("10..20").unwrap(), 10..21);
    assert_eq!(window("10..10").unwrap(), 10..11);
    let oom = history.ooms[0].event;
    assert_eq!(window("..oom").unwrap(), 0..oom + 1);
    assert_eq!(window("oom..").unwrap(), oom..history.events());

    let (first_time, last_time) = history.time_span().unwrap();
    let middle = (first_time + last_time) / 2;
    let times = window(&format!("@{middle}..")).unwrap();
    for event in 0..=last {
        assert_eq!(times.contains(&event), history.time_us(event).unwrap() >= middle, "{event}");
    }
    let before = window(&format!("..@{middle}")).unwrap();
    assert!((before.clone()).all(|event| history.time_us(event).unwrap() <= middle));
    assert!(before.end >= times.start);

    assert!(matches!(window("20..10"), Err(WindowError::Empty { .. })));
    assert!(matches!(window(&format!("{}..", last + 1)), Err(WindowError::Bound(_))));
    assert!(matches!(window(&format!("@{}..", last_time + 1)), Err(WindowError::Empty { .. })));
}
