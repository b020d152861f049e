//! Small files with known answers (`testdata/cases/expected.json`).

mod common;

use common::{json, read, testdata};
use oomscope::analysis::info::info;
use oomscope::analysis::ranking::{Attribution, Ranking, live};
use oomscope::analysis::sites::{By, Sites};
use oomscope::analysis::totals::{Totals, totals};
use oomscope::history::{At, History};
use oomscope::snapshot::{LoadError, LoadOptions, Snapshot, Source, load};
use serde_json::Value;

fn case(name: &str) -> Snapshot {
    read(&testdata().join(format!("cases/{name}.pickle")))
}

fn expected(name: &str) -> Value {
    json(testdata().join("cases/expected.json"))[name].clone()
}

fn history(snapshot: &Snapshot) -> History<'_> {
    History::new(snapshot, &snapshot.devices[0], &snapshot.settings.rules)
}

fn at(history: &History, at: At) -> Totals {
    totals(history, &history.state(history.moment(at).unwrap().state))
}

fn top(snapshot: &Snapshot, history: &History, at: At) -> Ranking {
    live(history, history.moment(at).unwrap(), &Sites::new(snapshot, By::Line), Attribution::Own)
}

#[test]
fn case_01_all_free_memory_is_pinned() {
    let snapshot = case("01_pinned_remainder");
    let history = history(&snapshot);
    let (truth, totals) = (expected("01_pinned_remainder"), at(&history, At::Default));
    assert_eq!(totals.reserved, truth["reserved"]);
    assert_eq!(totals.allocated, truth["allocated"]);
    assert_eq!(totals.free, truth["free_in_segments"].as_u64());
    assert_eq!(totals.largest_free, truth["largest_free"].as_u64());
    assert_eq!(totals.releasable, truth["releasable"].as_u64());
    assert_eq!(totals.stranded, truth["pinned_free"].as_u64());
    assert_eq!(history.ooms[0].rounded, truth["oom_request"]);
    assert_eq!(top(&snapshot, &history, At::Oom(None)).rows[0].site, truth["owner"]);
}

#[test]
fn case_03_free_segments_are_cache() {
    let snapshot = case("03_soft_free_segments");
    let (truth, totals) = (expected("03_soft_free_segments"), at(&history(&snapshot), At::End));
    assert_eq!(totals.reserved, truth["reserved"]);
    assert_eq!(totals.allocated, truth["allocated"]);
    assert_eq!(totals.releasable, truth["releasable"].as_u64());
    assert_eq!(totals.stranded, truth["pinned_free"].as_u64());
    assert_eq!(totals.largest_free, truth["largest_free"].as_u64());
}

#[test]
fn case_04_expandable_memory_is_mapped_page_by_page() {
    let snapshot = case("04_expandable_pages");
    let history = history(&snapshot);
    let (truth, totals) = (expected("04_expandable_pages"), at(&history, At::End));
    assert_eq!(totals.reserved, truth["reserved"]);
    assert_eq!(totals.allocated, truth["allocated"]);
    let device = &info(&snapshot, &[history]).devices[0];
    assert_eq!(device.actions["segment_map"], truth["segment_map_events"]);
    let peak = device.peak.unwrap();
    assert_eq!(peak.allocated.bytes, truth["peak_allocated"]);
    assert_eq!(peak.reserved.bytes, truth["peak_reserved"]);
}

#[test]
fn case_06_blocks_from_before_the_trace_belong_to_the_peak() {
    let snapshot = case("06_seeded_peak");
    let history = history(&snapshot);
    let truth = expected("06_seeded_peak");
    let peaks = history.peaks.unwrap();
    assert_eq!(peaks.requested.bytes, truth["peak_requested"]);
    assert_eq!(peaks.active.bytes, truth["peak_rounded"]);
    let ranking = top(&snapshot, &history, At::Peak(None));
    for (site, requested) in truth["attribution"].as_object().unwrap() {
        let row = ranking.rows.iter().find(|row| row.site == *site).unwrap_or_else(|| panic!("no row for {site}"));
        assert_eq!(row.requested, *requested, "{site}");
    }
}

#[test]
fn case_07_a_wrapped_ring_is_told() {
    let snapshot = case("07_wrapped_ring");
    let history = history(&snapshot);
    let truth = expected("07_wrapped_ring");
    assert_eq!(history.health.complete, truth["complete"]);
    assert_eq!(history.health.unmatched_frees, truth["unmatched_frees"]);
    assert_eq!(history.health.unmatched_free_bytes, truth["unmatched_free_bytes"]);
    assert_eq!(history.health.ghost_blocks, truth["ghost_blocks"]);
    assert_eq!(history.health.ghost_bytes, truth["ghost_bytes"]);
    assert_eq!(history.counters(0).requested, truth["baseline_at_start"]);
    let peak = history.peaks.unwrap().requested;
    assert_eq!((peak.bytes, peak.event), (truth["peak"].as_u64().unwrap(), None));
    assert!(!peak.exact, "the counters contradict each other");
}

#[test]
fn cases_08_and_09_name_the_line() {
    let snapshot = case("08_cycle_50185");
    let truth = expected("08_cycle_50185");
    let ranking = top(&snapshot, &history(&snapshot), At::Default);
    assert_eq!(ranking.rows[0].site, truth["top_site"]);
    assert_eq!(ranking.rows[0].blocks, truth["top_count"]);
    assert_eq!(ranking.total, truth["allocated"]);

    let snapshot = case("09_linear_leak");
    let truth = expected("09_linear_leak");
    let ranking = top(&snapshot, &history(&snapshot), At::End);
    let row = ranking.rows.iter().find(|row| row.site == truth["leak_site"]).unwrap();
    assert_eq!((row.blocks, row.requested), (20, truth["leak_bytes"].as_u64().unwrap()));
}

#[test]
fn case_10_counts_more_than_the_card_has() {
    let snapshot = case("10_sleep_pool");
    assert_eq!(at(&history(&snapshot), At::End).reserved, expected("10_sleep_pool")["reserved"]);
}

#[test]
fn case_12_odd_files() {
    let snapshot = case("12_high_addr");
    assert_eq!(snapshot.blocks[0].address, expected("12_high_addr")["addr"]);

    let snapshot = case("12_two_devices");
    let truth = expected("12_two_devices");
    for device in &snapshot.devices {
        let history = History::new(&snapshot, device, &snapshot.settings.rules);
        let reserved = &truth["per_device"][device.ordinal.to_string()];
        assert_eq!(history.counters(history.events()).reserved, *reserved);
    }

    let snapshot = case("12_list_2022");
    assert!(snapshot.blocks.iter().any(|block| block.is_active() && block.address != 0 && block.stack.has_frames()));

    let error = |name: &str| {
        let source = Source::Path(testdata().join(format!("cases/{name}.pickle")));
        load(&source, &LoadOptions::default()).err().unwrap_or_else(|| panic!("{name} was read"))
    };
    assert!(matches!(error("12_empty"), LoadError::Empty));
    let text = error("12_truncated").to_string();
    assert!(text.contains("cut off at byte 3942") && text.contains("--salvage"), "{text}");
    let text = error("12_code").to_string();
    assert!(text.contains("STACK_GLOBAL at byte 46") && text.contains("nothing was executed"), "{text}");
}
