//! Free memory: how it divides, who pins it, what fits; against PyTorch's own actions in recorded traces.

mod common;

use std::path::{Path, PathBuf};

use common::{files, is_pickle, read, shared_data, testdata};
use oomscope::allocator::PoolKind;
use oomscope::analysis::failed_fits::failed_fits;
use oomscope::analysis::fit::{How, fits, room};
use oomscope::analysis::pinning::{pinning, pinning_of};
use oomscope::analysis::pool_key::PoolKey;
use oomscope::analysis::pools::pools;
use oomscope::analysis::search::free_sets;
use oomscope::analysis::segments::{Questions, segments};
use oomscope::analysis::sites::{By, Sites};
use oomscope::analysis::totals::totals;
use oomscope::history::{At, History};
use oomscope::snapshot::{Action, PoolId, Snapshot};

const MIB: u64 = 1 << 20;

/// Does something with each device of a file.
fn each(path: &Path, mut look: impl FnMut(&History, &Sites)) {
    let snapshot = read(path);
    let sites = Sites::new(&snapshot, By::Line);
    for device in &snapshot.devices {
        look(&History::new(&snapshot, device, &snapshot.settings.rules), &sites);
    }
}

/// The rig's files that `keep` accepts: the project's own and, where they are at hand, all others.
fn rig(keep: impl Fn(&str) -> bool + Copy) -> Vec<PathBuf> {
    let mut found = files(&testdata().join("rig"), |name| is_pickle(name) && keep(name));
    if let Some(data) = shared_data() {
        found.extend(files(&data.join("rig"), |name| is_pickle(name) && keep(name)));
    }
    found
}

fn case(name: &str) -> Snapshot {
    read(&testdata().join("cases").join(format!("{name}.pickle")))
}

fn ask(snapshot: &Snapshot, questions: &Questions) -> oomscope::analysis::segments::Segments {
    let history = History::new(snapshot, &snapshot.devices[0], &snapshot.settings.rules);
    let moment = history.moment(At::Default).unwrap();
    segments(&history, moment, &Sites::new(snapshot, By::Line), questions)
}

#[test]
fn pinned_remainders() {
    let questions = Questions { requests: vec![530 * MIB, 260 * MIB], free: Some(1 << 30), ..Questions::default() };
    let result = ask(&case("01_pinned_remainder"), &questions);
    let totals = &result.fragmentation.totals;
    assert_eq!((totals.reserved, totals.allocated), (16_672_358_400, 8_493_465_600));
    assert_eq!(totals.free, Some(7800 * MIB));
    assert_eq!(totals.largest_free, Some(260 * MIB));
    assert_eq!(totals.releasable, Some(0));
    assert_eq!(totals.stranded, Some(8_178_892_800));
    let fits: Vec<_> = result.fit.iter().map(|fit| (fit.fits, fit.how, fit.hole)).collect();
    assert_eq!(fits, [(Some(false), How::Fails, None), (Some(true), How::Hole, Some(260 * MIB))]);
    let [pin] = &result.pinning.pins[..] else { panic!("{:?}", result.pinning.pins) };
    assert_eq!(pin.site, "/app/moe/weights_post.py:88");
    assert_eq!((pin.pinned, pin.own, pin.blocks, pin.segments), (8_178_892_800, 8_493_465_600, 30, 30));
    let freeing = result.freeing.unwrap();
    assert!(freeing.enough && freeing.freed == 16_672_358_400 && freeing.steps.len() == 1);
    assert_eq!(result.fragmentation.segments[0].sites, ["/app/moe/weights_post.py:88"]);
}

#[test]
fn idle_cache() {
    let result = ask(&case("03_soft_free_segments"), &Questions::default());
    let totals = &result.fragmentation.totals;
    assert_eq!((totals.reserved, totals.allocated), (256 * MIB, 128 * MIB));
    assert_eq!((totals.releasable, totals.stranded, totals.largest_free), (Some(128 * MIB), Some(0), Some(16 * MIB)));
    assert!(result.pinning.pins.is_empty() && result.pinning.pinned == 0);
}

#[test]
fn expandable_granules() {
    let snapshot = case("04_expandable_pages");
    let result = ask(&snapshot, &Questions { requests: vec![40 * MIB], ..Questions::default() });
    let totals = &result.fragmentation.totals;
    assert_eq!((totals.reserved, totals.allocated), (7 * 20 * MIB, 128 * MIB));
    assert_eq!(snapshot.events.action.iter().filter(|action| **action == Action::SegmentMap).count(), 7);
    // 8 blocks of 16 MiB fill six granules and 8 MiB of the seventh.
    assert_eq!((totals.stranded, result.pinning.pinned), (Some(12 * MIB), 12 * MIB));
    assert_eq!(result.pinning.pins[0].granules, 1);
    assert_eq!(result.pinning.units.len(), 7);
    assert_eq!(result.reservations.len(), 1);
    // The free tail of 12 MiB counts: 28 MiB more need two granules.
    assert_eq!(result.fit[0].new_segment, Some(40 * MIB));
}

#[test]
fn decode_is_pinned_by_its_results() {
    each(&testdata().join("rig/2.6.0/decode_atoom.pickle"), |history, sites| {
        let moment = history.moment(At::Default).unwrap();
        let pinning = pinning(history, moment, sites);
        let pin = &pinning.pins[0];
        assert!(pin.site.ends_with("workloads.py:128"), "{}", pin.site);
        assert_eq!(format!("{:.1} MiB", pin.own as f64 / MIB as f64), "147.9 MiB");
        assert_eq!(format!("{:.2} GiB", pin.pinned as f64 / (1u64 << 30) as f64), "2.87 GiB");
        assert_eq!((pin.segments, pin.blocks), (72, 78));
        assert!(pin.lifetimes.as_ref().unwrap().is_classic);
        let largest = totals(history, &history.state(moment.state)).largest_free.unwrap();
        assert_eq!(format!("{:.1} MiB", largest as f64 / MIB as f64), "76.1 MiB");
    });
}

/// Bytes given back by the entries of `[from, to)`.
fn given_back(history: &History, from: u32, to: u32) -> u64 {
    let events = &history.snapshot.events;
    (from..to)
        .map(|event| history.row(event))
        .filter(|&row| matches!(events.action[row], Action::SegmentFree | Action::SegmentUnmap))
        .map(|row| events.size[row])
        .sum()
}

fn releasable(history: &History, state: u32) -> Option<u64> {
    totals(history, &history.state(state)).releasable
}

#[test]
fn what_is_releasable_is_what_the_flush_of_an_oom_gave_back() {
    let (mut ooms, mut flushes) = (0, 0);
    for path in rig(|_| true) {
        each(&path, |history, _| {
            for oom in &history.ooms {
                let call = history.malloc(oom.event);
                assert_eq!(releasable(history, oom.event), Some(0), "{} at the OOM", path.display());
                ooms += 1;
                let Some(first) = call.first_flush else { continue };
                flushes += 1;
                let gave = given_back(history, first, oom.event);
                assert_eq!(releasable(history, first), Some(gave), "{} before event {first}", path.display());
            }
        });
    }
    println!("{ooms} OOMs, {flushes} flushes");
    assert!(ooms > 9 && flushes > 3, "{ooms} {flushes}");
}

#[test]
fn what_is_releasable_is_what_empty_cache_gave_back() {
    let mut calls = 0;
    for path in rig(|name| name.starts_with("emptycache")) {
        each(&path, |history, _| {
            let events = &history.snapshot.events;
            let gives =
                |event: u32| matches!(events.action[history.row(event)], Action::SegmentFree | Action::SegmentUnmap);
            let mut event = 0;
            while event < history.events() {
                let first = event;
                while event < history.events() && gives(event) {
                    event += 1;
                }
                if event > first {
                    calls += 1;
                    let gave = given_back(history, first, event);
                    assert_eq!(releasable(history, first), Some(gave), "{} event {first}", path.display());
                    assert_eq!(releasable(history, event), Some(0), "{} event {event}", path.display());
                }
                event += 1;
            }
        });
    }
    println!("{calls} calls");
    let expected = if common::shared_data().is_some() { 8 } else { 2 };
    assert!(calls >= expected, "{calls}");
}

#[test]
fn stranded_expandable_memory_is_what_whole_granules_leave() {
    for path in rig(|name| name.ends_with("expandable.pickle") || name.ends_with("expandable.pickle.gz")) {
        each(&path, |history, sites| {
            let moment = history.moment(At::End).unwrap();
            let state = history.state(moment.state);
            let totals = totals(history, &state);
            if !state.ranges.iter().all(|range| range.range.expandable && range.range.pool == PoolId::DEFAULT) {
                return;
            }
            // By the byte: a granule is whole when no live block touches it.
            let mut whole = 0;
            for range in &state.ranges {
                let granule = history.rules.granule(range.range.kind);
                for start in (range.addr..range.addr + range.bytes).step_by(granule as usize) {
                    let touches =
                        |block: &oomscope::history::LiveBlock| block.addr < start + granule && block.end() > start;
                    let is_complete = start + granule <= range.addr + range.bytes;
                    if is_complete && !state.blocks_of(range).iter().any(touches) {
                        whole += granule;
                    }
                }
            }
            assert_eq!(totals.stranded, totals.free.map(|free| free - whole), "{}", path.display());
            assert_eq!(totals.releasable, Some(whole));
            let pinning = pinning_of(history, &state, moment, sites, |_| true);
            assert_eq!(Some(pinning.pinned + pinning.partial_granules), totals.stranded);
        });
    }
}

/// What must hold in every state of every file.
fn check_state(history: &History, sites: &Sites, state_number: u32, name: &str) {
    let state = history.state(state_number);
    let all = totals(history, &state);
    let moment = oomscope::history::Moment { what: "event", event: None, time_us: None, state: state_number };
    let pinning = pinning_of(history, &state, moment, sites, |_| true);
    let shares: u64 = pinning.pins.iter().map(|pin| pin.pinned).sum();
    assert_eq!(shares, pinning.pinned, "{name}: shares");
    assert_eq!(shares, pinning.units.iter().map(|unit| unit.pinned).sum::<u64>());
    if let Some(stranded) = all.stranded {
        assert_eq!(pinning.pinned + pinning.partial_granules, stranded, "{name}: stranded");
    }
    let rows = pools(history, &state);
    let sum =
        |part: fn(&oomscope::analysis::totals::Totals) -> u64| rows.iter().map(|row| part(&row.totals)).sum::<u64>();
    assert_eq!(sum(|totals| totals.reserved), all.reserved, "{name}");
    if state.is_sound {
        assert_eq!(sum(|totals| totals.active), all.active, "{name}");
    }
    if all.free.is_some() {
        assert_eq!(Some(sum(|totals| totals.stranded.unwrap_or(0))), all.stranded, "{name}");
        assert_eq!(Some(sum(|totals| totals.releasable.unwrap_or(0))), all.releasable, "{name}");
        assert_eq!(Some(sum(|totals| totals.pool_idle.unwrap_or(0))), all.pool_idle, "{name}");
    }
    // The largest request that fits does fit, and no larger one in its class.
    for row in &rows {
        let Some(largest) = row.largest_request else { continue };
        let served = |request: u64| {
            let found = fits(history, &state, &[request], None);
            let mine = found.iter().find(|fit| fit.key == row.key);
            mine.is_some_and(|fit| fit.how == How::Hole)
        };
        assert!(served(largest), "{name}: {row:?}");
        let is_limit = row.kind == PoolKind::Small && largest == history.rules.small_limit;
        assert!(is_limit || !served(largest + 1), "{name}: {row:?}");
    }
}

#[test]
fn sums_agree_in_every_file() {
    let mut paths = files(&testdata(), is_pickle);
    if let Some(data) = shared_data() {
        for folder in ["rig", "allocator", "metadata", "cases", "public", "cpp_writer", "leaks"] {
            paths.extend(files(&data.join(folder), is_pickle));
        }
    }
    for path in &paths {
        let load = oomscope::snapshot::load(
            &oomscope::snapshot::Source::Path(path.clone()),
            &oomscope::snapshot::LoadOptions::default(),
        );
        if load.is_err() {
            continue;
        }
        each(path, |history, sites| {
            let last = history.events();
            for state in [0, last / 3, last / 2, last] {
                check_state(history, sites, state, &format!("{} state {state}", path.display()));
            }
        });
    }
}

/// For every recorded allocation that took no new memory: the block that the search finds is the one PyTorch took, or
/// one of the same size.
fn compare_search(history: &History, name: &str, stride: u32) -> (u64, u64) {
    let events = &history.snapshot.events;
    let (mut same, mut other) = (0, 0);
    for event in (0..history.events()).step_by(stride as usize) {
        let row = history.row(event);
        if events.action[row] != Action::Alloc {
            continue;
        }
        let call = history.malloc(event);
        let state = history.state(event);
        let Some(range) = state.ranges.iter().rfind(|range| range.addr <= events.addr[row]) else { continue };
        let rounded = history.rules.round_size(events.size[row]);
        let key = PoolKey { kind: history.rules.pool_kind(rounded), ..PoolKey::from(&range.range) };
        if call.first_flush.is_some() || call.first_growth.is_some() {
            // It found nothing before it took memory.
            let before = history.state(call.first_growth.unwrap_or(event).min(call.state_before()));
            let found = free_sets(&before).get(&key).and_then(|set| set.find(rounded, &history.rules).copied());
            assert_eq!(found.map(|block| block.hole), None, "{name}: event {event} took new memory");
            continue;
        }
        let sets = free_sets(&state);
        let found = sets.get(&key).and_then(|set| set.find(rounded, &history.rules));
        let Some(block) = found else { panic!("{name}: event {event}, {rounded} B: nothing found") };
        let taken = sets[&key].blocks().iter().find(|block| block.hole.addr == events.addr[row]);
        let taken = taken.unwrap_or_else(|| panic!("{name}: event {event}: no free block at its address"));
        assert_eq!(block.hole.bytes, taken.hole.bytes, "{name}: event {event}, {rounded} B");
        if block == taken { same += 1 } else { other += 1 }
    }
    (same, other)
}

#[test]
fn the_search_takes_the_block_that_pytorch_took() {
    let (mut same, mut other) = (0, 0);
    for path in rig(|_| true) {
        each(&path, |history, _| {
            // Up to torch 2.2 the settings are not in the file.
            if !history.health.complete || !history.snapshot.settings.recorded {
                return;
            }
            let stride = (history.events() / 400).max(1) | 1;
            let (a, b) = compare_search(history, &path.display().to_string(), stride);
            (same, other) = (same + a, other + b);
        });
    }
    println!("{same} at the same address, {other} at another of the same size");
    assert!(same > 1_000 && other * 20 < same, "{same} {other}");
}

#[test]
fn failed_fits_of_decode() {
    each(&testdata().join("rig/2.6.0/decode_atoom.pickle"), |history, sites| {
        let found = failed_fits(history, sites).unwrap();
        assert!(found.count > 100 && found.ooms == 1 && found.worst.len() == 10);
        assert_eq!(found.over_time.iter().sum::<u32>() as u64, found.count);
        for fit in &found.worst {
            let state = history.state(history.malloc(fit.event).state_before());
            let free: u64 = free_sets(&state)
                .iter()
                .filter(|(key, _)| key.kind == fit.kind)
                .flat_map(|(_, set)| set.blocks().iter().map(|block| block.hole.bytes))
                .sum();
            assert_eq!(fit.free, free, "event {}", fit.event);
            assert!(fit.pins[0].site.ends_with("workloads.py:128"));
        }
    });
}

#[test]
fn the_request_of_an_oom_does_not_fit() {
    for path in rig(|_| true) {
        each(&path, |history, _| {
            for (number, oom) in (1..).zip(&history.ooms) {
                let moment = history.moment(At::Oom(Some(number))).unwrap();
                let state = history.state(moment.state);
                let stream = history.snapshot.events.stream[history.row(oom.event)];
                let found = fits(history, &state, &[oom.rounded], room(history, moment, None));
                for fit in found.iter().filter(|fit| fit.key.stream == stream && fit.pool.is_none()) {
                    assert_eq!((fit.fits, fit.how), (Some(false), How::Fails), "{}: {fit:?}", path.display());
                }
            }
        });
    }
}
