//! The rebuilt past against what the program wrote at that moment, and identities that hold for every file.

mod common;

use std::path::{Path, PathBuf};

use common::{files, honest_files, is_pickle, read, shared_data, stem, testdata};
use oomscope::analysis::categories::{Classifier, Rules};
use oomscope::analysis::ranking::{self, Attribution, Groups, Question, live, rank};
use oomscope::analysis::sites::{By, Sites};
use oomscope::analysis::totals::totals;
use oomscope::analysis::totals_along::totals_along;
use oomscope::history::{At, History};
use oomscope::snapshot::Snapshot;

fn roots() -> Vec<PathBuf> {
    let mut roots = vec![testdata().join("rig")];
    roots.extend(shared_data().map(|data| data.join("rig")));
    roots
}

/// Blocks of the first device with an OOM at that OOM: address, bytes, requested, pending, site.
fn blocks_at_oom(snapshot: &Snapshot) -> Vec<(u64, u64, u64, bool, String)> {
    let sites = Sites::new(snapshot, By::Stack);
    for device in &snapshot.devices {
        let history = History::new(snapshot, device, &snapshot.settings.rules);
        let Ok(moment) = history.moment(At::Oom(None)) else { continue };
        let state = history.state(moment.state);
        let block = |block: &oomscope::history::LiveBlock| {
            let site = sites.name(sites.of_life(&history, block.life)).into_owned();
            (block.addr, block.bytes, block.requested, block.is_pending, site)
        };
        return state.blocks.iter().map(block).collect();
    }
    Vec::new()
}

/// Mapped ranges at the OOM; adjacent ones count as one.
fn ranges_at_oom(snapshot: &Snapshot) -> Vec<(u64, u64)> {
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for device in &snapshot.devices {
        let history = History::new(snapshot, device, &snapshot.settings.rules);
        let Ok(moment) = history.moment(At::Oom(None)) else { continue };
        for range in history.state(moment.state).ranges {
            match joined.last_mut() {
                Some(last) if last.1 == range.addr => last.1 += range.bytes,
                _ => joined.push((range.addr, range.addr + range.bytes)),
            }
        }
        break;
    }
    joined
}

/// A dump made after the failure leads back to the state that the OOM observer dumped at the failure.
#[test]
fn the_state_at_the_oom_is_that_of_the_observer() {
    let mut visited = 0;
    for after in roots().iter().flat_map(|root| files(root, is_pickle)) {
        let at_oom = ["", ".gz"].map(|ending| PathBuf::from(format!("{}_atoom.pickle{ending}", stem(&after))));
        let Some(at_oom) = at_oom.iter().find(|path| path.is_file()) else { continue };
        let (after_snapshot, at_snapshot) = (read(&after), read(at_oom));
        let (rebuilt, dumped) = (blocks_at_oom(&after_snapshot), blocks_at_oom(&at_snapshot));
        assert!(!dumped.is_empty(), "{}", at_oom.display());
        assert_eq!(rebuilt.len(), dumped.len(), "{}", after.display());
        for (ours, theirs) in rebuilt.iter().zip(&dumped) {
            assert_eq!(ours, theirs, "{}", after.display());
        }
        assert_eq!(ranges_at_oom(&after_snapshot), ranges_at_oom(&at_snapshot), "{}", after.display());
        visited += 1;
    }
    let expected = if roots().len() == 1 { 5 } else { 20 };
    assert!(visited >= expected, "{visited} runs visited");
}

/// reserved = requested + rounding + releasable + stranded + pool-idle, and attribution sums to the total, at the end,
/// at the peak, at every OOM, and in between.
fn check_identities(path: &Path) {
    let snapshot = read(path);
    let sites = Sites::new(&snapshot, By::Line);
    let other_sites = [By::Function, By::File, By::Module, By::Stack].map(|by| Sites::new(&snapshot, by));
    let classifier = Classifier::new(&snapshot, Rules::default());
    for device in &snapshot.devices {
        let history = History::new(&snapshot, device, &snapshot.settings.rules);
        let by_life = [
            classifier.classify(&history).groups(),
            ranking::streams(&history),
            ranking::pools(&history),
            ranking::annotations(&history),
            ranking::compile_regions(&history),
        ];
        let groups: Vec<Groups> =
            other_sites.iter().map(Groups::Sites).chain(by_life.into_iter().map(Groups::Lives)).collect();
        let mut moments = vec![history.moment(At::End).unwrap(), history.moment(At::Default).unwrap()];
        moments.extend(history.moment(At::Peak(None)).ok());
        moments.extend((1..=history.ooms.len()).map(|number| history.moment(At::Oom(Some(number))).unwrap()));
        moments.extend((0..history.events()).step_by(1000).map(|event| history.moment(At::Event(event)).unwrap()));
        let states: Vec<u32> = (0..=history.events()).step_by(history.events() as usize / 100 + 1).collect();
        for (&state, along) in states.iter().zip(totals_along(&history, &states)) {
            let alone = totals(&history, &history.state(state));
            assert_eq!(along, alone, "{} device {} state {state}", path.display(), device.ordinal);
        }
        for moment in moments {
            let name = format!("{} device {} {moment:?}", path.display(), device.ordinal);
            let counters = history.counters(moment.state);
            let totals = totals(&history, &history.state(moment.state));
            assert_eq!(totals.allocated, counters.allocated, "{name}");
            assert_eq!(totals.active, counters.active, "{name}");
            assert_eq!(totals.requested, counters.requested, "{name}");
            for groups in &groups {
                let ranking = rank(&history, groups, &Question::live(moment));
                let by = ranking.by;
                assert_eq!(ranking.total, counters.active, "{name} by {by}");
                assert_eq!(ranking.rows.iter().map(|row| row.bytes).sum::<u64>(), counters.active, "{name} by {by}");
            }
            let ranking = live(&history, moment, &sites, Attribution::Own);
            assert_eq!(ranking.total, counters.active, "{name}");
            // Blocks from before the trace have a row too, whatever is known of them.
            assert!(ranking.rows.iter().all(|row| !row.site.is_empty()), "{name}");
            assert_eq!(ranking.rows.iter().map(|row| row.bytes).sum::<u64>(), counters.active, "{name}");
            assert_eq!(ranking.rows.iter().map(|row| row.requested).sum::<u64>(), counters.requested, "{name}");
            let parts = (totals.rounding, totals.releasable, totals.stranded, totals.pool_idle, totals.free);
            match parts {
                (Some(rounding), Some(releasable), Some(stranded), Some(pool_idle), Some(free)) => {
                    assert_eq!(totals.reserved, counters.reserved, "{name}");
                    assert_eq!(free, releasable + stranded + pool_idle, "{name}");
                    assert_eq!(totals.reserved, totals.requested + rounding + free, "{name}");
                }
                // Only a file or a trace that contradicts itself has no parts.
                _ => assert!(!device.consistent || !history.health.counts_are_exact(), "{name}"),
            }
        }
    }
}

#[test]
fn identities_hold_for_own_files() {
    let readable = |name: &str| {
        is_pickle(name) && !["12_code", "12_empty", "12_truncated"].iter().any(|bad| name.starts_with(bad))
    };
    let paths = honest_files(readable);
    assert!(paths.len() > 40);
    paths.iter().for_each(|path| check_identities(path));
}

#[test]
fn identities_hold_for_every_file() {
    let Some(data) = shared_data() else { return };
    let readable = |name: &str| {
        is_pickle(name) && !["12_code", "12_empty", "12_truncated"].iter().any(|bad| name.starts_with(bad))
    };
    let paths = files(&data, readable);
    assert!(paths.len() > 350, "{} files", paths.len());
    // The large ones take their time at every thousandth event; their ends are covered by the benchmark's files.
    paths.iter().filter(|path| !path.starts_with(data.join("large"))).for_each(|path| check_identities(path));
}
