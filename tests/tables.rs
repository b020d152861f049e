//! The tables say what the analyses say, come back from Parquet as they were, and are documented.

mod common;

use std::fs;
use std::path::Path;

use common::{files, is_pickle, testdata};
use oomscope::analysis::totals::totals;
use oomscope::export::TableFormat;
use oomscope::export::parquet::{Parquet, ParquetTable, records};
use oomscope::export::tables::{
    Chunk, DeviceRow, Kind, OomRow, OwnedRecord, Record, SegmentRow, SiteRow, Source, StackRow, StepRow, TableName,
    Values, chunks,
};
use oomscope::history::{At, Counters, History};
use oomscope::snapshot::{BlockState, LoadOptions, Snapshot, Source as File, load};
use proptest::prelude::*;

/// Runs `check` on every readable snapshot of the project's own.
fn each(check: impl Fn(&Path, &Snapshot, &[History], &Source)) {
    let mut visited = 0;
    for path in files(&testdata(), is_pickle) {
        let Ok(snapshot) = load(&File::Path(path.clone()), &LoadOptions::default()) else { continue };
        let rules = &snapshot.settings.rules;
        let histories: Vec<_> = snapshot.devices.iter().map(|device| History::new(&snapshot, device, rules)).collect();
        check(&path, &snapshot, &histories, &Source::new(&snapshot, &histories));
        visited += 1;
    }
    assert!(visited > 20, "{visited} snapshots");
}

/// The whole table as one chunk.
fn whole(source: &Source, name: TableName) -> Chunk {
    let table = source.table(name);
    table.chunk(0..table.rows())
}

fn rows<R: OwnedRecord>(source: &Source, name: TableName) -> Vec<R> {
    R::read_all(&whole(source, name))
}

/// A column by name.
fn column<'c>(chunk: &'c Chunk, name: TableName, column: &str) -> &'c oomscope::export::tables::Column {
    let at = name.schema().columns.iter().position(|found| found.name == column);
    &chunk.columns[at.unwrap_or_else(|| panic!("no column {column}"))]
}

fn unsigned(chunk: &Chunk, name: TableName, of: &str) -> Vec<u64> {
    match &column(chunk, name, of).values {
        Values::U64(values) => values.clone(),
        other => panic!("{of}: {other:?}"),
    }
}

fn signed(chunk: &Chunk, name: TableName, of: &str) -> Vec<i64> {
    match &column(chunk, name, of).values {
        Values::I64(values) => values.clone(),
        other => panic!("{of}: {other:?}"),
    }
}

#[test]
fn blocks_and_segments_sum_to_the_totals() {
    each(|path, snapshot, histories, source| {
        let blocks = whole(source, TableName::Blocks);
        assert_eq!(blocks.rows, snapshot.blocks.len(), "{}", path.display());
        let (devices, sizes) =
            (signed(&blocks, TableName::Blocks, "device"), unsigned(&blocks, TableName::Blocks, "size"));
        let Values::Text(states) = &column(&blocks, TableName::Blocks, "state").values else { panic!() };
        let segments: Vec<SegmentRow> = rows(source, TableName::Segments);
        for (history, row) in histories.iter().zip(rows::<DeviceRow>(source, TableName::Devices)) {
            let device = history.device.ordinal;
            let of_state = |state: &str| -> u64 {
                let mine = (0..blocks.rows).filter(|&at| devices[at] == device && states.get(at) == state);
                mine.map(|at| sizes[at]).sum()
            };
            let file = snapshot.segments_of(history.device).iter().flat_map(|segment| snapshot.blocks_of(segment));
            let allocated: u64 =
                file.filter(|block| block.state == BlockState::Allocated).map(|block| block.size).sum();
            assert_eq!(of_state("active_allocated"), allocated, "{}", path.display());
            let totals = totals(history, &history.state(history.events()));
            if history.device.consistent {
                assert_eq!(of_state("active_allocated"), totals.allocated, "{}", path.display());
                assert_eq!(of_state("active_pending_free"), totals.pending, "{}", path.display());
                assert_eq!(of_state("inactive"), totals.free.unwrap(), "{}", path.display());
            }
            assert_eq!(
                (row.device, row.allocated, row.reserved, row.stranded, row.largest_free),
                (device, totals.allocated, totals.reserved, totals.stranded, totals.largest_free),
                "{}",
                path.display()
            );
            let mine = || segments.iter().filter(|segment| segment.device == device);
            assert_eq!(mine().map(|row| row.total_size).sum::<u64>(), totals.reserved, "{}", path.display());
            let sum = |part: fn(&SegmentRow) -> Option<u64>| mine().map(part).sum::<Option<u64>>();
            if totals.free.is_some() {
                assert_eq!(sum(|row| row.active), Some(totals.active), "{}", path.display());
                assert_eq!(sum(|row| row.free), totals.free, "{}", path.display());
                assert_eq!(sum(|row| row.stranded), totals.stranded, "{}", path.display());
                assert_eq!(sum(|row| row.releasable), totals.releasable, "{}", path.display());
            } else {
                assert!(mine().all(|row| row.free.is_none()), "{}", path.display());
            }
        }
    });
}

#[test]
fn changes_of_events_lead_to_the_counters_and_the_peaks() {
    each(|path, snapshot, histories, source| {
        let events = whole(source, TableName::Events);
        let host = snapshot.host.as_ref().map_or(0, |host| host.events.len());
        let count: u32 = histories.iter().map(History::events).sum();
        assert_eq!(events.rows, count as usize + host, "{}", path.display());
        let devices = signed(&events, TableName::Events, "device");
        let of = |name: &str| signed(&events, TableName::Events, name);
        let changes = ["requested_change", "allocated_change", "active_change", "reserved_change"].map(of);
        let list = |counters: Counters| [counters.requested, counters.allocated, counters.active, counters.reserved];
        for (history, row) in histories.iter().zip(rows::<DeviceRow>(source, TableName::Devices)) {
            let start = [row.start_requested, row.start_allocated, row.start_active, row.start_reserved];
            let mut now = start.map(|bytes| bytes as i64);
            let mut highest = now;
            for at in (0..events.rows).filter(|&at| devices[at] == row.device) {
                for (counter, change) in now.iter_mut().zip(&changes) {
                    *counter += change[at];
                }
                highest = std::array::from_fn(|counter| highest[counter].max(now[counter]));
            }
            let end = list(history.counters(history.events()));
            let sound = history.health.odd_ranges == 0;
            assert_eq!(now[..3], end.map(|bytes| bytes as i64)[..3], "{}", path.display());
            assert!(!sound || now[3] == end[3] as i64, "{}", path.display());
            let Some(peaks) = history.peaks else { continue };
            let peaks = [peaks.requested, peaks.allocated, peaks.active, peaks.reserved];
            for (highest, peak) in highest.iter().zip(peaks).filter(|(_, peak)| peak.exact) {
                assert_eq!(*highest, peak.bytes as i64, "{}", path.display());
            }
        }
    });
}

#[test]
fn sites_sum_to_the_active_memory_of_their_moment() {
    each(|path, _, histories, source| {
        let rows: Vec<SiteRow> = rows(source, TableName::Sites);
        for history in histories {
            for (name, at) in [("end", At::End), ("peak", At::Peak(None)), ("oom", At::Oom(None))] {
                let mine = rows.iter().filter(|row| row.device == history.device.ordinal && row.moment == name);
                let sum: u64 = mine.map(|row| row.bytes).sum();
                let active = history.moment(at).map_or(0, |moment| history.counters(moment.state).active);
                assert_eq!(sum, active, "{} {name}", path.display());
            }
        }
    });
}

#[test]
fn stacks_and_failures_are_all_there() {
    each(|path, snapshot, histories, source| {
        let stacks: Vec<StackRow> = rows(source, TableName::Stacks);
        let frames = source.table(TableName::Frames).rows() as u64;
        assert_eq!(frames, snapshot.frames.len() as u64);
        assert!(stacks.iter().all(|row| row.frame < frames), "{}", path.display());
        let ids = (0..snapshot.stacks.len() as u32).map(oomscope::snapshot::StackId);
        let expected = ids.flat_map(|id| {
            let frames = snapshot.stacks.get(id).iter().zip(0..);
            frames.map(move |(frame, depth)| StackRow { stack: u64::from(id.0), depth, frame: u64::from(frame.0) })
        });
        assert_eq!(stacks, expected.collect::<Vec<_>>(), "{}", path.display());
        let ooms: Vec<OomRow> = rows(source, TableName::Ooms);
        let found = ooms.iter().map(|row| (row.device, row.event, row.rounded, row.device_free));
        let expected = histories.iter().flat_map(|history| {
            let device = history.device.ordinal;
            history.ooms.iter().map(move |oom| (device, u64::from(oom.event), oom.rounded, oom.device_free))
        });
        assert_eq!(found.collect::<Vec<_>>(), expected.collect::<Vec<_>>(), "{}", path.display());
    });
}

/// The memory at a step's end is that of `--at` the same time.
#[test]
fn steps_are_measured_at_their_ends() {
    let mut measured = 0;
    let count = std::cell::Cell::new(0);
    each(|path, _, histories, source| {
        for row in rows::<StepRow>(source, TableName::Steps) {
            let Some(history) = histories.iter().find(|history| history.device.ordinal == row.device) else { continue };
            let (Some(end), Some(active)) = (row.end_time_us, row.end_active) else { continue };
            let moment = history.moment(At::Time(end.0 as u64)).unwrap();
            let counters = history.counters(moment.state);
            assert_eq!(
                (active, row.end_allocated, row.end_reserved),
                (counters.active, Some(counters.allocated), Some(counters.reserved)),
                "{} {}",
                path.display(),
                row.name
            );
            if let (Some(first), Some(last)) = (row.first_event, row.last_event) {
                let states = first as u32..=last as u32 + 1;
                let highest = states.map(|state| history.counters(state).active).max();
                assert_eq!(row.peak_active, highest, "{} {}", path.display(), row.name);
            }
            count.set(count.get() + 1);
        }
    });
    measured += count.get();
    assert!(measured > 10, "{measured} steps");
}

fn write(source: &Source, name: TableName, path: &Path) {
    let mut out = Vec::new();
    Parquet.write(&*source.table(name), &mut out).unwrap();
    fs::write(path, out).unwrap();
}

#[test]
fn tables_come_back_from_parquet_as_they_were() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("table.parquet");
    each(|path, _, _, source| {
        for name in TableName::ALL {
            write(source, name, &file);
            let table = ParquetTable::open(&file, name.schema()).unwrap();
            let read: Vec<Chunk> = table.chunks().collect::<Result<_, _>>().unwrap();
            assert_eq!(table.rows(), source.table(name).rows() as u64);
            let mut written: Vec<Chunk> = chunks(&*source.table(name)).collect();
            // What stands in for a missing value is not kept.
            written.iter_mut().for_each(blank);
            assert_eq!(read, written, "{} {}", path.display(), name.name());
        }
        write(source, TableName::Devices, &file);
        assert_eq!(records::<DeviceRow>(&file).unwrap(), rows::<DeviceRow>(source, TableName::Devices));
        write(source, TableName::Sites, &file);
        assert_eq!(records::<SiteRow>(&file).unwrap(), rows::<SiteRow>(source, TableName::Sites));
    });
}

/// Puts defaults where values are missing.
fn blank(chunk: &mut Chunk) {
    for column in &mut chunk.columns {
        let Some(valid) = &column.valid else { continue };
        for (row, _) in valid.iter().enumerate().filter(|(_, valid)| !**valid) {
            match &mut column.values {
                Values::U64(values) => values[row] = 0,
                Values::I64(values) => values[row] = 0,
                Values::F64(values) => values[row] = 0.0,
                Values::Bool(values) => values[row] = false,
                Values::Text(texts) => assert_eq!(texts.get(row), ""),
            }
        }
    }
}

#[test]
fn another_table_is_not_read_as_this_one() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("table.parquet");
    each(|_, _, _, source| {
        write(source, TableName::Frames, &file);
        let error = records::<SiteRow>(&file).unwrap_err().to_string();
        assert!(error.contains("`sites` has no column `device`"), "{error}");
        fs::write(&file, "no Parquet").unwrap();
        assert!(records::<SiteRow>(&file).is_err());
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(20))]

    /// Any piece of a table is the same as that piece of the whole.
    #[test]
    fn pieces_are_pieces_of_the_whole(cuts in prop::collection::vec(0.0..1.0f64, 2)) {
        let path = testdata().join("rig/2.6.0/multigpu.pickle");
        let snapshot = common::read(&path);
        let rules = &snapshot.settings.rules;
        let histories: Vec<_> = snapshot.devices.iter().map(|device| History::new(&snapshot, device, rules)).collect();
        let source = Source::new(&snapshot, &histories);
        for name in TableName::ALL {
            let table = source.table(name);
            let mut ends: Vec<usize> = cuts.iter().map(|cut| (cut * table.rows() as f64) as usize).collect();
            ends.push(table.rows());
            ends.sort_unstable();
            let (whole, mut start) = (table.chunk(0..table.rows()), 0);
            let shown = |chunk: &Chunk, row: usize| {
                chunk.columns.iter().map(|column| text(column, row)).collect::<Vec<_>>()
            };
            for end in ends {
                let piece = table.chunk(start..end);
                prop_assert_eq!(piece.rows, end - start);
                for row in 0..piece.rows {
                    prop_assert_eq!(shown(&piece, row), shown(&whole, start + row));
                }
                start = end;
            }
        }
    }
}

fn text(column: &oomscope::export::tables::Column, row: usize) -> String {
    let value = match &column.values {
        Values::U64(values) => values[row].to_string(),
        Values::I64(values) => values[row].to_string(),
        Values::F64(values) => values[row].to_string(),
        Values::Bool(values) => values[row].to_string(),
        Values::Text(texts) => texts.get(row).to_owned(),
    };
    if column.is_valid(row) { value } else { "null".to_owned() }
}

/// Where the generated part of docs/tables.md begins.
const GENERATED: &str = "<!-- made from the code by tests/tables.rs -->\n";

#[test]
fn the_schema_in_the_documentation_is_that_of_the_code() {
    let one_line = |doc: &str| doc.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|");
    let mut generated = String::new();
    for schema in TableName::ALL.map(TableName::schema) {
        generated += &format!("\n## {}\n\n{}\n\n", schema.name, one_line(schema.doc));
        generated += "| column | type | null | meaning |\n|---|---|---|---|\n";
        for column in schema.columns {
            let null = if column.nullable { "yes" } else { "" };
            generated +=
                &format!("| `{}` | {} | {null} | {} |\n", column.name, column.kind.name(), one_line(column.doc));
        }
    }
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/tables.md");
    let page = fs::read_to_string(&path).unwrap();
    let (head, found) = page.split_once(GENERATED).unwrap();
    if std::env::var_os("OOMSCOPE_BLESS").is_some() {
        fs::write(&path, format!("{head}{GENERATED}{generated}")).unwrap();
        return;
    }
    assert_eq!(found, generated, "OOMSCOPE_BLESS=1 writes the new schema");
}

#[test]
fn names_of_columns_are_unique_and_plain() {
    for schema in TableName::ALL.map(TableName::schema) {
        let mut names: Vec<&str> = schema.columns.iter().map(|column| column.name).collect();
        assert!(names.iter().all(|name| name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_')), "{names:?}");
        names.sort_unstable();
        assert!(names.windows(2).all(|pair| pair[0] != pair[1]), "{}", schema.name);
        let times = schema.columns.iter().filter(|column| column.kind == Kind::TimeUs);
        assert!(times.into_iter().all(|column| column.name.ends_with("time_us")), "{}", schema.name);
    }
    assert_eq!(TableName::ALL.map(TableName::name)[0], <DeviceRow as Record>::SCHEMA.name);
}
