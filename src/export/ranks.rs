//! Ranks of a job read back from a dataset: what `fleet` compares, without the snapshots.

use super::dataset::{Dataset, JobRank, Manifest};
use super::tables::{DeviceRow, LeakRow, MomentRow, OomRow, SiteRow, TRACE, TimeUs, TimelineRow};
use super::{ExportError, Result};
use crate::analysis::failures::Failure;
use crate::analysis::fleet::{Rank, RankLeak, SiteBytes, TOP};
use crate::history::{Moment, Peak, Peaks};
use crate::oom::Verdict;

/// The devices of `part`, whose manifest is `manifest`, as [`rank`](crate::analysis::fleet::rank) makes them from the
/// snapshot.
pub fn ranks(dataset: &Dataset, part: &JobRank, manifest: &Manifest) -> Result<Vec<Rank>> {
    let devices: Vec<DeviceRow> = dataset.read(part)?;
    let moments: Vec<MomentRow> = dataset.read(part)?;
    let sites: Vec<SiteRow> = dataset.read(part)?;
    let ooms: Vec<OomRow> = dataset.read(part)?;
    let leaks: Vec<LeakRow> = dataset.read(part)?;
    let timeline: Vec<TimelineRow> = dataset.read(part)?;
    let rank = u32::try_from(part.rank).map_err(|_| ExportError::Rank(part.rank))?;
    let of_device = |row: &DeviceRow| {
        let device = row.device;
        let held = |moment: &str| {
            let rows = sites.iter().filter(|site| site.device == device && site.moment == moment);
            rows.map(site_bytes).collect::<Vec<_>>()
        };
        let of_moment = |name: &str| moments.iter().find(|moment| moment.device == device && moment.moment == name);
        // As `--at` has it by default.
        let at = ["oom", "peak", "end"].into_iter().find_map(of_moment);
        let at_peak = held(if row.history_recorded && of_moment("peak").is_some() { "peak" } else { "end" });
        let allocated = held(TRACE);
        let mut top = at.map_or_else(Vec::new, |at| held(&at.moment));
        top.truncate(TOP);
        Rank {
            rank,
            node: manifest.node.clone(),
            file: manifest.file.clone(),
            device,
            events: events(row.events),
            complete: row.history_complete,
            last_time_us: row.last_time_us.map(micros),
            at: at.map_or(Moment { what: "end", event: None, time_us: None, state: 0 }, moment),
            totals: at.map(MomentRow::totals).unwrap_or_default(),
            peak: peaks(row),
            ooms: ooms.iter().filter(|oom| oom.device == device).map(failure).collect(),
            capacity: row.capacity,
            top,
            verdict: row.verdict.as_deref().and_then(Verdict::named),
            evidence: row.evidence.iter().flat_map(|text| text.lines()).map(str::to_owned).collect(),
            leaks: leaks.iter().filter(|leak| leak.device == device).map(leak).collect(),
            profile: if row.history_recorded { allocated } else { at_peak.clone() },
            at_peak,
            live_over_time: timeline.iter().filter(|part| part.device == device).map(|part| part.active).collect(),
        }
    };
    Ok(devices.iter().map(of_device).collect())
}

/// Numbers of events fit: a trace with more cannot be read.
fn events(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

fn micros(time: TimeUs) -> u64 {
    time.0.max(0) as u64
}

fn site_bytes(row: &SiteRow) -> SiteBytes {
    SiteBytes { site: row.site.clone(), function: row.function.clone(), bytes: row.bytes, blocks: row.blocks }
}

fn moment(row: &MomentRow) -> Moment {
    let what = ["oom", "peak", "end"].into_iter().find(|name| *name == row.moment).unwrap_or("event");
    let event = row.event.map(events);
    Moment { what, event, time_us: row.time_us.map(micros), state: event.map_or(0, |event| event + 1) }
}

fn failure(row: &OomRow) -> Failure {
    Failure {
        event: events(row.event),
        time_us: row.time_us.map(micros),
        requested: row.rounded,
        rounded: row.rounded,
        segment_size: row.segment_size,
        device_free: row.device_free,
        is_limit: row.is_limit,
        totals: row.totals(),
        events_after: events(row.events_after),
    }
}

fn leak(row: &LeakRow) -> RankLeak {
    RankLeak {
        site: row.site.clone(),
        function: row.function.clone(),
        bytes_per_step: row.bytes_per_step,
        blocks_per_step: row.blocks_per_step,
        live_bytes: row.live_bytes,
        since_step: row.since_step,
        p_value: row.p_value,
        kind: row.kind.clone(),
    }
}

fn peaks(row: &DeviceRow) -> Option<Peaks> {
    let peak = |bytes: Option<u64>, event: Option<u64>, time: Option<TimeUs>, exact: Option<bool>| {
        Some(Peak { bytes: bytes?, event: event.map(events), time_us: time.map(micros), exact: exact? })
    };
    Some(Peaks {
        requested: peak(
            row.peak_requested,
            row.peak_requested_event,
            row.peak_requested_time_us,
            row.peak_requested_exact,
        )?,
        allocated: peak(
            row.peak_allocated,
            row.peak_allocated_event,
            row.peak_allocated_time_us,
            row.peak_allocated_exact,
        )?,
        active: peak(row.peak_active, row.peak_active_event, row.peak_active_time_us, row.peak_active_exact)?,
        reserved: peak(row.peak_reserved, row.peak_reserved_event, row.peak_reserved_time_us, row.peak_reserved_exact)?,
    })
}
