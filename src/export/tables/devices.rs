//! One row a device: what the trace tells, the memory at the dump, the peaks.

use super::record::{TimeUs, record, with_totals};
use super::source::{Source, time};
use crate::analysis::failures::capacity;
use crate::analysis::info::{DeviceInfo, info};
use crate::analysis::leaks::leaks;
use crate::analysis::segments::{Questions, segments};
use crate::analysis::verdict::{Evidence, diagnosis};
use crate::history::{At, History, Peak};

record! {
    /// Devices with segments or trace entries, without pinned host memory. Sizes are bytes at the dump where nothing
    /// else is said; null where a contradiction in the file spoils the figure.
    struct DeviceRow in "devices" {
        /// Ordinal as torch sees it.
        device: i64,
        /// Oldest release of torch that fits the file.
        torch_at_least: Option<String>,
        /// First release that does not.
        torch_below: Option<String>,
        /// The allocator's configuration string; empty when none was set or recorded.
        alloc_conf: String,
        /// Segments, or mapped ranges of expandable ones.
        segments: u64,
        /// Mapped ranges of expandable segments among them.
        expandable_segments: u64,
        /// Blocks, free ones included.
        blocks: u64,
        /// Trace entries.
        events: u64,
        /// Recorded failures among them.
        ooms: u64,
        /// Time of the first event.
        first_time_us: Option<TimeUs>,
        /// Time of the last event.
        last_time_us: Option<TimeUs>,
        /// Whether there is a history at all.
        history_recorded: bool,
        /// Whether the trace explains everything: nothing was there before it, and nothing is missing in it.
        history_complete: bool,
        ..Totals,
        /// requested before the first event.
        start_requested: u64,
        /// allocated before the first event.
        start_allocated: u64,
        /// active before the first event.
        start_active: u64,
        /// reserved before the first event.
        start_reserved: u64,
        /// Peak of requested in the trace; null without history, as all that follow.
        peak_requested: Option<u64>,
        /// Event that led to it; null when it was there before the first.
        peak_requested_event: Option<u64>,
        /// Its time.
        peak_requested_time_us: Option<TimeUs>,
        /// Whether it is what PyTorch counted in this window, to the byte.
        peak_requested_exact: Option<bool>,
        /// Peak of allocated.
        peak_allocated: Option<u64>,
        /// Event that led to it.
        peak_allocated_event: Option<u64>,
        /// Its time.
        peak_allocated_time_us: Option<TimeUs>,
        /// Whether it is exact.
        peak_allocated_exact: Option<bool>,
        /// Peak of active.
        peak_active: Option<u64>,
        /// Event that led to it.
        peak_active_event: Option<u64>,
        /// Its time.
        peak_active_time_us: Option<TimeUs>,
        /// Whether it is exact.
        peak_active_exact: Option<bool>,
        /// Peak of reserved.
        peak_reserved: Option<u64>,
        /// Event that led to it.
        peak_reserved_event: Option<u64>,
        /// Its time.
        peak_reserved_time_us: Option<TimeUs>,
        /// Whether it is exact.
        peak_reserved_exact: Option<bool>,
        /// Bytes that the process could have had, as its failures tell; null without one, or where a limit was hit.
        capacity: Option<u64>,
        /// Cause of the last failure: `fragmentation`, `capacity` and so on; null without one.
        verdict: Option<String>,
        /// The figures behind it, a sentence a line.
        evidence: Option<String>,
    }
}

/// The rows.
pub(super) fn rows(source: &Source) -> Vec<DeviceRow> {
    let histories = source.histories.iter();
    histories.map(|history| row(source, history, &info(source.snapshot, std::slice::from_ref(*history)))).collect()
}

fn row(source: &Source, history: &History, info: &crate::analysis::info::Info) -> DeviceRow {
    let version = |version: Option<crate::allocator::TorchVersion>| version.map(|version| version.to_string());
    let DeviceInfo { device, segments, expandable_segments, blocks, events, totals, trace, ooms, .. } =
        &info.devices[0];
    let start = history.counters(0);
    let peak = |peak: fn(&crate::history::Peaks) -> Peak| history.peaks.as_ref().map(peak);
    let bytes = |peak: Option<Peak>| peak.map(|peak| peak.bytes);
    let event = |peak: Option<Peak>| peak.and_then(|peak| peak.event).map(u64::from);
    let at = |peak: Option<Peak>| time(peak.and_then(|peak| peak.time_us));
    let exact = |peak: Option<Peak>| peak.map(|peak| peak.exact);
    let (requested, allocated) = (peak(|peaks| peaks.requested), peak(|peaks| peaks.allocated));
    let (active, reserved) = (peak(|peaks| peaks.active), peak(|peaks| peaks.reserved));
    let span = history.time_span();
    let found = diagnose(source, history, ooms.last());
    with_totals!(
        totals,
        DeviceRow {
            device: *device,
            torch_at_least: version(info.format.torch_at_least),
            torch_below: version(info.format.torch_below),
            alloc_conf: info.settings.conf.clone(),
            segments: *segments as u64,
            expandable_segments: *expandable_segments as u64,
            blocks: *blocks as u64,
            events: u64::from(*events),
            ooms: ooms.len() as u64,
            first_time_us: time(span.map(|(first, _)| first)),
            last_time_us: time(span.map(|(_, last)| last)),
            history_recorded: trace.recorded,
            history_complete: trace.complete,
            start_requested: start.requested,
            start_allocated: start.allocated,
            start_active: start.active,
            start_reserved: start.reserved,
            peak_requested: bytes(requested),
            peak_requested_event: event(requested),
            peak_requested_time_us: at(requested),
            peak_requested_exact: exact(requested),
            peak_allocated: bytes(allocated),
            peak_allocated_event: event(allocated),
            peak_allocated_time_us: at(allocated),
            peak_allocated_exact: exact(allocated),
            peak_active: bytes(active),
            peak_active_event: event(active),
            peak_active_time_us: at(active),
            peak_active_exact: exact(active),
            peak_reserved: bytes(reserved),
            peak_reserved_event: event(reserved),
            peak_reserved_time_us: at(reserved),
            peak_reserved_exact: exact(reserved),
            capacity: capacity(history),
            verdict: found.as_ref().map(|found| found.verdict.name().to_owned()),
            evidence: found.map(|found| found.evidence.join("\n")),
        }
    )
}

/// The diagnosis of `failure`.
fn diagnose(
    source: &Source,
    history: &History,
    failure: Option<&crate::analysis::failures::Failure>,
) -> Option<crate::oom::Diagnosis> {
    let failure = failure?;
    let moment = history.moment(At::Oom(None)).ok()?;
    let segments = segments(history, moment, &source.sites, &Questions::default());
    let leaks = leaks(history, &source.sites, None);
    diagnosis(history, &source.sites, Some(failure), &segments, &leaks, None, &Evidence::default())
}
