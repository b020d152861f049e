//! What can be looked into beyond a report agrees with the analyses that a report is made of.

mod common;

use std::path::PathBuf;

use common::{files, is_pickle, read, testdata};
use oomscope::analysis::instants::instants;
use oomscope::analysis::ranking::{Attribution, live};
use oomscope::analysis::ribbons::ribbons;
use oomscope::analysis::sites::{By, Sites};
use oomscope::history::{At, History};
use oomscope::snapshot::{LoadOptions, Source, load};

fn snapshots() -> Vec<PathBuf> {
    let directories = ["cases", "rig"].map(|name| testdata().join(name));
    directories.iter().flat_map(|directory| files(directory, is_pickle)).collect()
}

#[test]
fn live_sets_are_those_of_the_ranking() {
    let mut compared = 0;
    for path in snapshots() {
        let Ok(snapshot) = load(&Source::Path(path.clone()), &LoadOptions::default()) else { continue };
        let sites = Sites::new(&snapshot, By::Line);
        for device in &snapshot.devices {
            let history = History::new(&snapshot, device, &snapshot.settings.rules);
            let moment = history.moment(At::Default).unwrap();
            let found = instants(&history, &sites, moment, 12, 4);
            assert!(found.instants.is_sorted_by(|a, b| a.state < b.state), "{}", path.display());
            for wanted in [moment.state, history.events()] {
                assert!(found.instants.iter().any(|instant| instant.state == wanted), "{}", path.display());
            }
            for instant in &found.instants {
                let at = format!("{} state {}", path.display(), instant.state);
                let moment =
                    oomscope::history::Moment { what: "event", event: None, time_us: None, state: instant.state };
                let ranking = live(&history, moment, &sites, Attribution::Own);
                assert_eq!(instant.total.bytes, ranking.total, "{at}");
                assert_eq!(instant.total.bytes, history.counters(instant.state).active, "{at}");
                let named = instant.sites.iter().map(|(site, tally)| {
                    (found.sites[*site as usize].site.as_str(), tally.bytes, tally.requested, tally.blocks)
                });
                let rows = ranking.rows.iter().take(4);
                let rows = rows.map(|row| (row.site.as_str(), row.bytes, row.requested, row.blocks));
                assert!(named.eq(rows), "{at}");
                let rest: u64 = ranking.rows.iter().skip(4).map(|row| row.bytes).sum();
                assert_eq!(instant.other.bytes, rest, "{at}");
                compared += 1;
            }
        }
    }
    assert!(compared > 200, "{compared}");
}

#[test]
fn ribbons_and_their_rest_sum_to_what_is_live() {
    for path in snapshots() {
        let Ok(snapshot) = load(&Source::Path(path.clone()), &LoadOptions::default()) else { continue };
        let sites = Sites::new(&snapshot, By::Line);
        for device in &snapshot.devices {
            let history = History::new(&snapshot, device, &snapshot.settings.rules);
            let found = instants(&history, &sites, history.moment(At::Default).unwrap(), 20, 4);
            let ribbons = ribbons(&history, &sites, &found, 7);
            assert!(ribbons.ribbons.len() <= 7);
            for (instant, rest) in found.instants.iter().zip(&ribbons.rest) {
                let alive = ribbons.ribbons.iter().filter(|ribbon| {
                    ribbon.born_at.unwrap_or(0) <= instant.state
                        && ribbon.done_at.is_none_or(|done| instant.state < done)
                });
                let shown: u64 = alive.map(|ribbon| ribbon.bytes).sum();
                assert_eq!(shown + rest, instant.total.bytes, "{} state {}", path.display(), instant.state);
            }
        }
    }
}

#[test]
fn a_short_trace_is_told_event_by_event() {
    let snapshot = read(&testdata().join("cases/08_cycle_50185.pickle"));
    let sites = Sites::new(&snapshot, By::Line);
    let history = History::new(&snapshot, &snapshot.devices[0], &snapshot.settings.rules);
    let found = instants(&history, &sites, history.moment(At::Default).unwrap(), 400, 4);
    assert!(history.events() > 3 && history.events() < 400);
    let lives = &history.lives;
    let begins = lives.ids().filter(|&life| lives.born_at(life) > 0).count();
    let ends = lives.ids().filter(|&life| lives.done_at(life) <= history.events()).count();
    assert!(found.instants.len() > begins + ends, "{} of {begins} and {ends}", found.instants.len());
}
