//! `segments` and `map` through the binary.

mod common;

use std::path::Path;

use common::{json_of, oomscope, run_in};

const OOM: &str = "testdata/rig/2.6.0/decode_atoom.pickle";
const PINNED: &str = "testdata/cases/01_pinned_remainder.pickle";

#[test]
fn the_culprit_is_named() {
    let text = oomscope(["segments", OOM]).stdout;
    for part in ["workloads.py:128  decode  147.9 MiB", "2.87 GiB  in 72 segments", "The classic cause: small blocks"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let report = oomscope(["report", OOM]).stdout;
    assert!(report.contains("WHAT PINS IT") && report.contains("2.87 GiB  in 72 segments"), "{report}");
    assert!(report.lines().all(|line| line.chars().count() <= 120), "{report}");
}

#[test]
fn idle_cache_is_told_apart() {
    let text = oomscope(["segments", "testdata/cases/03_soft_free_segments.pickle"]).stdout;
    assert!(text.contains("idle cache, not fragmentation"), "{text}");
    assert!(!text.contains("WHAT PINS IT"), "{text}");
}

#[test]
fn requests_are_tried() {
    let text = oomscope(["segments", PINNED, "--fit", "530MiB", "--fit", "260MiB"]).stdout;
    assert!(text.contains("does not fit: no hole serves it, and the device has not the 530 MiB it needs"), "{text}");
    assert!(text.contains("fits: the hole of 260.0 MiB"), "{text}");
    let json = json_of(&["segments", PINNED, "--fit", "530MiB", "--fit", "260MiB", "--json"]);
    let fit = &json["devices"][0]["fit"];
    assert_eq!((fit[0]["fits"].as_bool(), fit[0]["new_segment"].as_u64()), (Some(false), Some(530 << 20)));
    assert_eq!((fit[1]["fits"].as_bool(), fit[1]["hole"].as_u64()), (Some(true), Some(260 << 20)));
    // The capacity that the caller knows counts more than the one that was seen.
    let roomy = json_of(&["segments", PINNED, "--fit", "530MiB", "--capacity", "24GiB", "--json"]);
    assert_eq!(roomy["devices"][0]["fit"][0]["how"], "new_segment");
    // By itself, the request of the OOM.
    let own = json_of(&["segments", OOM, "--json"]);
    assert_eq!(
        (&own["devices"][0]["fit"][0]["how"], &own["devices"][0]["fit"][0]["request"]),
        (&"fails".into(), &81_854_464.into())
    );
}

#[test]
fn what_would_have_to_go() {
    let json = json_of(&["segments", OOM, "--free", "1GiB", "--json"]);
    let freeing = &json["devices"][0]["freeing"];
    assert_eq!(freeing["enough"], true);
    let sites = freeing["steps"][0]["sites"].as_array().unwrap();
    assert!(sites.len() == 1 && sites[0].as_str().unwrap().ends_with("workloads.py:128"));
    let all = json_of(&["segments", OOM, "--free", "1TiB", "--json"]);
    let freeing = &all["devices"][0]["freeing"];
    assert_eq!((&freeing["enough"], &freeing["freed"]), (&false.into(), &all["devices"][0]["totals"]["reserved"]));
}

#[test]
fn a_segment_is_looked_into() {
    let text = oomscope(["segments", OOM, "--segment", "0x7a0002200000"]).stdout;
    assert!(text.contains("all of these must go"), "{text}");
    let json = json_of(&["segments", OOM, "--segment", "0x7a0002200400", "--json"]);
    let held = &json["devices"][0]["holders"][0];
    assert_eq!(held["address"], "0x7a0002200000");
    let sum: u64 = held["sites"].as_array().unwrap().iter().map(|site| site["bytes"].as_u64().unwrap()).sum();
    assert_eq!(held["total"].as_u64(), held["free"].as_u64().map(|free| free + sum));
    for (address, message) in [("0x1", "no segment holds"), ("zebra", "write the address")] {
        let run = oomscope(["segments", OOM, "--segment", address]);
        assert!(run.status == 2 && run.stderr.contains(message), "{}", run.stderr);
    }
}

#[test]
fn the_table_is_sorted_and_cut() {
    for (sort, key) in [("free", "free"), ("total", "total"), ("largest", "largest_free"), ("stranded", "stranded")] {
        let text = oomscope(["segments", OOM, "--sort", sort, "--limit", "3"]).stdout;
        assert!(text.contains(" more: --limit "), "{text}");
        let table = text.split("SEGMENTS\n").nth(1).unwrap();
        let json = json_of(&["segments", OOM, "--json"]);
        let rows = json["devices"][0]["segments"].as_array().unwrap();
        let most = rows.iter().map(|row| row[key].as_u64().unwrap()).max().unwrap();
        let first = table.lines().nth(1).unwrap().split_whitespace().next().unwrap();
        let row = rows.iter().find(|row| row["address"] == first).unwrap();
        assert_eq!(row[key], most, "{sort}");
    }
}

/// No line is wider than the terminal, or 120 columns; segments that differ by their address alone share a line.
#[test]
fn the_table_fits_and_folds_what_is_alike() {
    for (file, columns) in [(OOM, 120), (OOM, 100), (OOM, 80), (PINNED, 80), ("testdata/rig/2.6.0/streams.pickle", 120)]
    {
        let variables = [("COLUMNS", columns.to_string())];
        let variables = variables.each_ref().map(|(name, value)| (*name, value.as_str()));
        let run = run_in(Path::new(env!("CARGO_MANIFEST_DIR")), ["segments", file], &variables[..]);
        assert!(run.stdout.lines().all(|line| line.chars().count() <= columns), "{file} {columns}: {}", run.stdout);
    }
    let text = oomscope(["segments", OOM, "--limit", "100"]).stdout;
    assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
    let table = text.split("SEGMENTS\n").nth(1).unwrap();
    let rows: Vec<&str> = table.lines().skip(1).collect();
    let others = |row: &&str| {
        let number = row.split_once("  and ").and_then(|(_, rest)| rest.strip_suffix(" like it"));
        number.map_or(0, |number| number.parse::<usize>().unwrap())
    };
    assert!(rows.len() < 60, "{table}");
    assert_eq!(rows.len() + rows.iter().map(others).sum::<usize>(), 78, "{table}");
    // Whoever sorts by address looks for one.
    let text = oomscope(["segments", OOM, "--sort", "address", "--limit", "100"]).stdout;
    assert_eq!(text.split("SEGMENTS\n").nth(1).unwrap().lines().count(), 79, "{text}");
}

/// A size without a unit is hardly one of bytes.
#[test]
fn sizes_need_a_unit() {
    for (flag, size) in [("--capacity", "80"), ("--fit", "530"), ("--free", "0.5")] {
        let run = oomscope(["segments", PINNED, flag, size]);
        assert_eq!((run.status, run.stdout.as_str()), (2, ""));
        assert!(run.stderr.contains(&format!("write {size}GiB (or {size}B for bytes)")), "{}", run.stderr);
    }
    for size in ["530MiB", "555745280", "512B"] {
        assert_eq!(oomscope(["segments", PINNED, "--fit", size]).status, 0, "{size}");
    }
}

/// Names that programs rely on.
#[test]
fn json_keys() {
    let json = json_of(&["segments", OOM, "--json"]);
    let has = |value: &serde_json::Value, keys: &[&str]| {
        for key in keys {
            assert!(value.get(key).is_some(), "{key}");
        }
    };
    has(&json, &["oomscope", "command", "file", "warnings", "rules", "at", "devices"]);
    let device = &json["devices"][0];
    has(device, &["device", "totals", "external_fragmentation", "sum_sq_fragmentation", "segments", "pins", "fit"]);
    has(
        &device["segments"][0],
        &[
            "address",
            "total",
            "stream",
            "pool",
            "kind",
            "expandable",
            "active",
            "pending",
            "free",
            "largest_free",
            "free_blocks",
            "external_fragmentation",
            "releasable",
            "stranded",
            "rounding",
            "birth_slack",
            "never_used",
            "conforms_to_rules",
        ],
    );
    has(&device["pins"][0], &["site", "pinned", "own", "blocks", "segments"]);
    has(&device["fit"][0], &["request", "stream", "pool", "hole", "new_segment", "fits"]);
    let map = json_of(&["map", OOM, "--json"]);
    has(&map["rows"][0], &["address", "total", "blocks"]);
    has(&map["rows"][0]["blocks"][0], &["offset", "size", "state", "site"]);
}
