//! `oomscope export` of tables: other programs read what it writes, and see the figures that the library has.

mod common;

use std::fs;
use std::path::Path;
use std::process::Command;

use common::{json_of, oomscope, python_with_arrow, shared_data, testdata};
use oomscope::export::dataset::{Content, Dataset, Found, JobRank};
use oomscope::export::tables::{DeviceRow, OomRow, SiteRow, StepRow, TableName};

const FILE: &str = "testdata/rig/2.6.0/oom_train.pickle";

fn python(program: &Path, script: &str, argument: &Path) -> serde_json::Value {
    let output = Command::new(program).args(["-c", script]).arg(argument).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

/// What `info` says of the first device of [`FILE`].
fn info() -> serde_json::Value {
    json_of(&["info", FILE, "--json"])["devices"][0].clone()
}

#[test]
fn csv_is_read_by_python() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("tables");
    let run = oomscope(["export", FILE, "--format", "csv", "-o", out.to_str().unwrap()]);
    assert_eq!((run.status, run.stdout.as_str()), (0, ""), "{}", run.stderr);
    let script = "
import csv, json, os, sys
tables = {}
for name in os.listdir(sys.argv[1]):
    with open(os.path.join(sys.argv[1], name), newline='', encoding='utf-8') as file:
        tables[name] = list(csv.DictReader(file, strict=True))
assert all(None not in row and None not in row.values() for rows in tables.values() for row in rows)
print(json.dumps({
    'names': sorted(tables),
    'events': len(tables['events.csv']),
    'allocated': sum(int(row['size']) for row in tables['blocks.csv'] if row['state'] == 'active_allocated'),
    'reserved': sum(int(row['total_size']) for row in tables['segments.csv']),
    'oom_sites': sum(int(row['bytes']) for row in tables['sites.csv'] if row['moment'] == 'oom'),
    'oom': tables['ooms.csv'][0],
}))";
    let read = python(Path::new("python3"), script, &out);
    let mut names: Vec<String> = TableName::ALL.iter().map(|name| format!("{}.csv", name.name())).collect();
    names.sort();
    let info = info();
    assert_eq!(read["names"], serde_json::json!(names));
    assert_eq!(read["events"], info["events"]);
    assert_eq!(read["allocated"], info["totals"]["allocated"]);
    assert_eq!(read["reserved"], info["totals"]["reserved"]);
    assert_eq!(read["oom_sites"], info["ooms"][0]["totals"]["active"]);
    assert_eq!(read["oom"]["rounded"], info["ooms"][0]["rounded"].to_string());
}

#[test]
fn names_in_csv_survive_and_are_no_formulas() {
    let directory = tempfile::tempdir().unwrap();
    let snapshot = directory.path().join("hostile.json");
    let frame = |name: &str| serde_json::json!({"name": name, "filename": "a,\"b\"\r\n.py", "line": 1});
    let block = |size: u64, name: &str| {
        serde_json::json!({"address": 0x1000, "size": size, "requested_size": size, "state": "active_allocated",
            "frames": [frame(name)]})
    };
    let segment = serde_json::json!({"device": 0, "address": 0x1000, "total_size": 2_097_152, "allocated_size": 2_097_152,
        "active_size": 2_097_152, "requested_size": 2_097_152, "stream": 0, "segment_type": "small",
        "blocks": [block(2_097_152, "=HYPERLINK(\"http://x\")")]});
    let file = serde_json::json!({"segments": [segment], "device_traces": [[]]});
    fs::write(&snapshot, file.to_string()).unwrap();
    let run = oomscope(["export", snapshot.to_str().unwrap(), "--format", "csv", "--table", "frames"]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let out = directory.path().join("frames.csv");
    fs::write(&out, run.stdout).unwrap();
    let script = "
import csv, json, sys
print(json.dumps(list(csv.DictReader(open(sys.argv[1], newline='', encoding='utf-8'), strict=True))))";
    let read = python(Path::new("python3"), script, &out);
    let row = read.as_array().unwrap().iter().find(|row| row["line"] == "1").unwrap();
    assert_eq!(row["function"], "'=HYPERLINK(\"http://x\")");
    assert_eq!(row["file"], "a,\"b\"\r\n.py");
}

#[test]
fn parquet_is_read_by_pyarrow_and_duckdb() {
    let Some(interpreter) = python_with_arrow() else { return };
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("tables");
    let run = oomscope(["export", FILE, "--format", "parquet", "-o", out.to_str().unwrap()]);
    assert_eq!(run.status, 0, "{}", run.stderr);
    let script = "
import duckdb, json, pyarrow.parquet as pq, sys
directory = sys.argv[1]
schema = pq.read_schema(directory + '/events.parquet')
sql = lambda query: duckdb.sql(query.replace('DIR', directory)).fetchall()[0][0]
print(json.dumps({
    'address': str(schema.field('address').type),
    'time': str(schema.field('time_us').type),
    'site': str(schema.field('site').type),
    'change': str(schema.field('active_change').type),
    'required': [field.name for field in schema if not field.nullable],
    'version': schema.metadata[b'oomscope.tables'].decode(),
    'compression': pq.read_metadata(directory + '/events.parquet').row_group(0).column(0).compression,
    'events': pq.read_table(directory + '/events.parquet').num_rows,
    'duck_type': sql(\"select column_type from (describe select * from 'DIR/events.parquet') where column_name = 'address'\"),
    'first_us': sql(\"select epoch_us(min(time_us)) from 'DIR/events.parquet'\"),
    'allocated': int(sql(\"select sum(size) from 'DIR/blocks.parquet' where state = 'active_allocated'\")),
    'allocs': sql(\"select count(*) from 'DIR/events.parquet' where action = 'alloc'\"),
    'peak': int(sql(\"select max(c) from (select sum(active_change) over (order by event) c from 'DIR/events.parquet')\")),
    'oom_sites': int(sql(\"select sum(bytes) from 'DIR/sites.parquet' where moment = 'oom'\")),
    'stranded': sql(\"select stranded from 'DIR/devices.parquet'\"),
    'joined': sql(\"select f.file from 'DIR/blocks.parquet' b join 'DIR/stacks.parquet' s using (stack) join 'DIR/frames.parquet' f using (frame) where b.state = 'active_allocated' and s.depth = 0 order by b.address limit 1\"),
}))";
    let read = python(&interpreter, script, &out);
    let info = info();
    assert_eq!(
        [&read["address"], &read["time"], &read["site"], &read["change"], &read["duck_type"]],
        ["uint64", "timestamp[us, tz=UTC]", "string", "int64", "UBIGINT"]
    );
    assert_eq!((&read["version"], &read["compression"]), (&"1".into(), &"ZSTD".into()));
    assert_eq!(read["required"], serde_json::json!(["device", "event", "action", "size", "stream"]));
    assert_eq!(read["events"], info["events"]);
    assert_eq!(read["first_us"], info["first_time_us"]);
    assert_eq!(read["allocated"], info["totals"]["allocated"]);
    assert_eq!(read["allocs"], info["actions"]["alloc"]);
    assert_eq!(read["peak"], info["peak"]["active"]["bytes"]);
    assert_eq!(read["oom_sites"], info["ooms"][0]["totals"]["active"]);
    assert_eq!(read["stranded"], info["totals"]["stranded"]);
    assert!(read["joined"].as_str().unwrap().ends_with(".py"));
}

#[test]
fn one_table_goes_where_it_is_sent() {
    let run = oomscope(["export", FILE, "--format", "csv", "--table", "ooms"]);
    assert_eq!(run.stdout.lines().count(), 2, "{}", run.stdout);
    for (arguments, says) in [
        (&["export", FILE, "--format", "csv"][..], "name a directory with -o"),
        (&["export", FILE, "--format", "csv", "--table", "no"], "devices, segments, blocks"),
        (&["export", FILE, "--format", "pprof", "--table", "ooms"], "--table goes with"),
        (&["export", FILE, "--format", "csv", "--tables", "db"], "--format parquet"),
        (&["export", FILE, "--format", "parquet", "--tables", "db"], "does not tell the rank"),
        (&["export", FILE, "--format", "parquet", "--tables", "db", "--rank", "0", "--min-block", "1024B"], "rules"),
    ] {
        let run = oomscope(arguments);
        assert_eq!(run.status, 2, "{arguments:?}");
        assert!(run.stderr.contains(says), "{arguments:?}: {}", run.stderr);
    }
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().to_str().unwrap();
    let once = || oomscope(["export", FILE, "--format", "csv", "-o", out]);
    assert_eq!(once().status, 0);
    let again = once();
    assert_eq!(again.status, 2);
    assert!(again.stderr.contains("--force"), "{}", again.stderr);
    assert_eq!(oomscope(["export", FILE, "--format", "csv", "-o", out, "--force"]).status, 0);
}

/// A job of two ranks, and a third file that is damaged.
fn job(directory: &Path) -> std::path::PathBuf {
    let job = directory.join("a job");
    fs::create_dir(&job).unwrap();
    for (rank, file) in [(0, "oom_train"), (11, "multigpu")] {
        let from = testdata().join(format!("rig/2.6.0/{file}.pickle"));
        fs::copy(from, job.join(format!("snapshot_rank{rank}.pickle"))).unwrap();
    }
    job
}

#[test]
fn a_second_run_reads_only_what_is_new() {
    let directory = tempfile::tempdir().unwrap();
    let job = job(directory.path());
    let root = directory.path().join("db");
    let run = |more: &[&str]| {
        let fixed = ["export", job.to_str().unwrap(), "--format", "parquet", "--tables", root.to_str().unwrap()];
        oomscope(fixed.into_iter().chain(more.iter().copied()))
    };
    let first = run(&[]);
    assert_eq!(first.status, 0, "{}", first.stderr);
    assert_eq!(first.stdout.matches("written").count(), 2, "{}", first.stdout);
    let dataset = Dataset::new(&root);
    let ranks: Vec<JobRank> = dataset.ranks().unwrap().into_iter().map(|(rank, _)| rank).collect();
    assert_eq!(ranks, [0, 11].map(|rank| JobRank { job: "a job".to_owned(), rank }));
    let table = dataset.file(TableName::Events, &ranks[0]);
    let written = fs::metadata(&table).unwrap().modified().unwrap();
    let second = run(&[]);
    assert_eq!(second.stdout.matches("unchanged").count(), 2, "{}", second.stdout);
    assert_eq!(fs::metadata(&table).unwrap().modified().unwrap(), written);

    // What is read back is what the files say.
    let devices: Vec<DeviceRow> = dataset.read(&ranks[0]).unwrap();
    let (info, sites): (_, Vec<SiteRow>) = (info(), dataset.read(&ranks[0]).unwrap());
    assert_eq!(serde_json::json!(devices[0].peak_allocated), info["peak"]["allocated"]["bytes"]);
    assert_eq!(devices[0].verdict.as_deref(), json_of(&["report", FILE, "--json"])["verdict"].as_str());
    let at_oom: u64 = sites.iter().filter(|row| row.moment == "oom").map(|row| row.bytes).sum();
    let ooms: Vec<OomRow> = dataset.read(&ranks[0]).unwrap();
    assert_eq!((ooms.len(), at_oom), (1, ooms[0].active));
    assert_eq!(dataset.read::<StepRow>(&ranks[0]).unwrap(), []);
    assert_eq!(dataset.read::<DeviceRow>(&ranks[1]).unwrap().len(), 2);

    // Another snapshot of a rank does not replace the first unasked; a file that cannot be read hides no other.
    fs::copy(testdata().join("rig/2.6.0/streams.pickle"), job.join("snapshot_rank11.pickle")).unwrap();
    fs::write(job.join("snapshot_rank12.pickle"), "damaged").unwrap();
    let third = run(&[]);
    assert_eq!(third.status, 2);
    assert!(third.stderr.contains("another snapshot") && third.stderr.contains("rank12"), "{}", third.stderr);
    assert_eq!(third.stdout.lines().count(), 1, "{}", third.stdout);
    let content = Content::of(&job.join("snapshot_rank11.pickle")).unwrap();
    assert!(matches!(dataset.find(&ranks[1], &content), Found::Other(manifest) if manifest.rows["devices"] == 2));
    assert!(run(&["--force"]).stdout.contains("replaced"));
    assert!(matches!(dataset.find(&ranks[1], &content), Found::Same(manifest) if manifest.rows["devices"] == 1));
    let names: Vec<_> =
        fs::read_dir(root.join("events/job=a%20job")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 2, "{names:?}");
}

#[test]
fn a_dataset_is_read_by_duckdb() {
    let (Some(interpreter), Some(data)) = (python_with_arrow(), shared_data()) else { return };
    let directory = tempfile::tempdir().unwrap();
    let ranks = data.join("ranks16");
    let arguments =
        ["export", ranks.to_str().unwrap(), "--format", "parquet", "--tables", directory.path().to_str().unwrap()];
    let run = oomscope(arguments.into_iter().chain(["--job", "pre train"]));
    assert_eq!(run.status, 0, "{}", run.stderr);
    let script = "
import duckdb, json, sys
table = f\"read_parquet('{sys.argv[1]}/devices/*/*/*.parquet', hive_partitioning = true)\"
rows = duckdb.sql(f'select job, rank, events, peak_allocated, reserved, allocated, ooms from {table} order by rank').fetchall()
print(json.dumps(rows))";
    let read = python(&interpreter, script, directory.path());
    let truth = common::json(ranks.join("job.json"));
    let truth = truth["ranks"].as_array().unwrap();
    assert_eq!(read.as_array().unwrap().len(), truth.len());
    for (row, truth) in read.as_array().unwrap().iter().zip(truth) {
        let figures =
            ["rank", "events", "peak_allocated", "reserved_at_dump", "allocated_at_dump"].map(|key| &truth[key]);
        assert_eq!([&row[1], &row[2], &row[3], &row[4], &row[5]], figures);
        assert_eq!((&row[0], row[6].as_u64()), (&"pre train".into(), Some(u64::from(row[1] == 11))));
    }
}
