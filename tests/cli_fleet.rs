//! `oomscope fleet`, through the binary.

mod common;

use std::fs;

use common::{json, json_of, oomscope, run_in, testdata};
use serde_json::Value;

const JOB: &str = "testdata/ranks16";

fn row(fleet: &Value, rank: u64) -> &Value {
    let ranks = fleet["ranks"].as_array().unwrap();
    ranks.iter().find(|row| row["rank"] == rank).unwrap_or_else(|| panic!("no rank {rank}"))
}

/// The job's own record tells which rank died, which leaks, and the stages.
#[test]
fn a_job_of_two_stages_is_explained() {
    let truth = json(testdata().join("ranks16/job.json"));
    let fleet = json_of(&["fleet", JOB, "--json"]);
    let ranks = fleet["ranks"].as_array().unwrap();
    assert_eq!(ranks.len() as u64, truth["world_size"].as_u64().unwrap());

    let failed = fleet["job"]["failed"].as_array().unwrap();
    assert_eq!(failed.len(), 1);
    assert_eq!(failed[0]["rank"], truth["died"]["rank"]);
    // It died because another process held memory on its card: it had less than its peers use.
    let starved = &failed[0]["starved"];
    assert!(starved["others_reserved"].as_u64() > starved["had"].as_u64());

    let stages: Vec<(&Value, &str)> = truth["ranks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|rank| (&rank["rank"], if rank["stage"] == "first" { "A" } else { "B" }))
        .collect();
    for (rank, group) in stages {
        assert_eq!(row(&fleet, rank.as_u64().unwrap())["group"], group, "rank {rank}");
    }
    let odd: Vec<u64> = ranks
        .iter()
        .filter(|row| !row["outlier"].is_null() && row["ooms"].as_array().unwrap().is_empty())
        .map(|row| row["rank"].as_u64().unwrap())
        .collect();
    assert_eq!(odd, [truth["leak"]["rank"].as_u64().unwrap()]);
    let sites = &row(&fleet, odd[0])["outlier"]["sites"];
    assert_eq!(sites[0]["site"], truth["leak"]["site"]);
    let leaks = fleet["leaks"].as_array().unwrap();
    assert_eq!(leaks.len(), 1);
    for key in ["site", "function", "bytes_per_step"] {
        assert_eq!(leaks[0][key], truth["leak"][key]);
    }
    assert_eq!(leaks[0]["ranks"], serde_json::json!([truth["leak"]["rank"]]));
}

#[test]
fn every_rank_has_pytorchs_own_counters() {
    let truth = json(testdata().join("ranks16/job.json"));
    let fleet = json_of(&["fleet", JOB, "--json"]);
    for rank in truth["ranks"].as_array().unwrap() {
        let row = row(&fleet, rank["rank"].as_u64().unwrap());
        assert_eq!(row["device"], rank["device"]);
        assert_eq!(row["events"], rank["events"]);
        assert_eq!(row["last_time_us"], rank["last_time_us"]);
        assert_eq!(row["peak"]["allocated"]["bytes"], rank["peak_allocated"]);
        assert_eq!(row["peak"]["reserved"]["bytes"], rank["peak_reserved"]);
    }
}

#[test]
fn golden_text() {
    let golden = testdata().join("golden/fleet_ranks16.txt");
    let run = oomscope(["fleet", JOB]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    if std::env::var_os("OOMSCOPE_BLESS").is_some() {
        fs::write(&golden, &run.stdout).unwrap();
    }
    assert_eq!(run.stdout, fs::read_to_string(golden).unwrap(), "OOMSCOPE_BLESS=1 accepts the new text");
    assert!(run.stdout.lines().all(|line| line.chars().count() <= 120));
}

#[test]
fn the_number_of_workers_changes_nothing() {
    let one = oomscope(["fleet", JOB, "--json", "--jobs", "1"]);
    let many = oomscope(["fleet", JOB, "--json", "--jobs", "7"]);
    assert_eq!(one.stdout, many.stdout);
}

/// Lists, patterns, and a file that is no snapshot beside those that are.
#[test]
fn one_bad_file_is_told_and_does_not_stop_the_rest() {
    let directory = tempfile::tempdir().unwrap();
    for rank in [3, 4] {
        let name = format!("snapshot_rank{rank}.pickle.gz");
        fs::copy(testdata().join("ranks16").join(&name), directory.path().join(&name)).unwrap();
    }
    fs::write(directory.path().join("snapshot_rank5.pickle"), b"not a pickle").unwrap();
    let list = "# two good, one bad\nsnapshot_rank3.pickle.gz\nsnapshot_rank4.pickle.gz\nsnapshot_rank5.pickle\n";
    fs::write(directory.path().join("list.txt"), list).unwrap();
    for input in [".", "snapshot_rank*", "@list.txt"] {
        let run = run_in(directory.path(), ["fleet", input, "--json"], &[]);
        assert_eq!(run.status, 2, "{input}: {}", run.stderr);
        assert!(run.stderr.contains("snapshot_rank5.pickle"), "{input}: {}", run.stderr);
        let fleet: Value = serde_json::from_str(&run.stdout).unwrap();
        assert_eq!(fleet["ranks"].as_array().unwrap().len(), 2, "{input}");
        assert_eq!(fleet["errors"].as_array().unwrap().len(), 1, "{input}");
    }
    let run = run_in(directory.path(), ["fleet", "snapshot_rank5.pickle"], &[]);
    assert_eq!((run.status, run.stdout.as_str()), (2, ""));
    let run = run_in(directory.path(), ["fleet", "nothing*"], &[]);
    assert_eq!(run.status, 2);
    assert!(run.stderr.contains("no file matches"), "{}", run.stderr);
}

#[test]
fn a_pattern_of_ones_own_names_the_ranks() {
    let directory = tempfile::tempdir().unwrap();
    for (from, to) in [(8, "gpu1-w9.pickle.gz"), (9, "gpu0-w2.pickle.gz")] {
        fs::copy(testdata().join(format!("ranks16/snapshot_rank{from}.pickle.gz")), directory.path().join(to)).unwrap();
    }
    let pattern = r"(?<node>gpu\d)-w(?<rank>\d+)";
    let run = run_in(directory.path(), ["fleet", ".", "--json", "--rank-pattern", pattern], &[]);
    let fleet: Value = serde_json::from_str(&run.stdout).unwrap();
    assert_eq!((&fleet["ranks"][0]["rank"], &fleet["ranks"][0]["node"]), (&2.into(), &"gpu0".into()));
    assert_eq!((&fleet["ranks"][1]["rank"], &fleet["ranks"][1]["node"]), (&9.into(), &"gpu1".into()));
    let run = run_in(directory.path(), ["fleet", ".", "--rank-pattern", "w"], &[]);
    assert_eq!(run.status, 2);
}

#[test]
fn pictures_are_xml_without_script() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("out");
    let run = oomscope(["fleet", JOB, "-o", out.to_str().unwrap()]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    for name in ["heat_map.svg", "timelines.svg"] {
        let text = fs::read_to_string(out.join(name)).unwrap();
        let parsed = roxmltree::Document::parse(&text).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert!(parsed.descendants().all(|node| node.tag_name().name() != "script"));
    }
    let heat_map = fs::read_to_string(out.join("heat_map.svg")).unwrap();
    assert!(heat_map.contains("pretrain.py:55") && heat_map.contains("rank 5: 16.5 MiB"));
    assert_eq!(json(out.join("fleet.json"))["command"], "fleet");
    // The page shows both, and may load nothing.
    let page = fs::read_to_string(out.join("fleet.html")).unwrap();
    assert!(page.contains("default-src 'none'") && !page.contains("src=") && page.len() < 5_000_000);
    assert_eq!(page.matches("<svg xmlns").count(), 2);
    assert!(page.contains("Rank 11 ran out of memory first"));
}

#[test]
fn markdown_is_short_and_tells_the_same() {
    let run = oomscope(["fleet", JOB, "--format", "md"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    assert!(run.stdout.lines().count() <= 60, "{}", run.stdout);
    for word in ["Rank 11 ran out of memory first", "pretrain.py:55", "| B | 8–15 |"] {
        assert!(run.stdout.contains(word), "no {word} in\n{}", run.stdout);
    }
}

/// Tables hold all that is compared; only what is new is read again.
#[test]
fn tables_tell_what_snapshots_tell() {
    let directory = tempfile::tempdir().unwrap();
    let tables = directory.path().join("tables");
    let tables = tables.to_str().unwrap();
    let named = |mut fleet: Value| {
        for row in fleet["ranks"].as_array_mut().unwrap() {
            let name = row["file"].as_str().unwrap().rsplit('/').next().unwrap().to_owned();
            row["file"] = name.into();
        }
        fleet
    };
    let from_snapshots = named(json_of(&["fleet", JOB, "--json"]));
    let first = named(json_of(&["fleet", JOB, "--tables", tables, "--json"]));
    assert_eq!(first, from_snapshots);
    let events = fs::metadata(format!("{tables}/events/job=ranks16/rank=11/part.parquet")).unwrap().modified().unwrap();
    assert_eq!(named(json_of(&["fleet", JOB, "--tables", tables, "--json"])), from_snapshots);
    assert_eq!(
        fs::metadata(format!("{tables}/events/job=ranks16/rank=11/part.parquet")).unwrap().modified().unwrap(),
        events
    );
    assert_eq!(named(json_of(&["fleet", tables, "--json"])), from_snapshots);

    let run = oomscope(["fleet", "testdata/rig/2.6.0/multigpu.pickle", "--tables", tables, "--job", "other"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let run = oomscope(["fleet", tables]);
    assert_eq!(run.status, 2);
    assert!(run.stderr.contains("other, ranks16"), "{}", run.stderr);
    assert_eq!(json_of(&["fleet", tables, "--job", "other", "--json"])["ranks"].as_array().unwrap().len(), 2);
}
