//! A trace as Perfetto (ui.perfetto.dev) and `chrome://tracing` read it: JSON in the Trace Event Format.
//!
//! A device is a process: a counter track for each of the four counters, an instant for each failure, a slice for each
//! annotated region.

use std::cmp::Reverse;
use std::io::Write;

use serde::Serialize;

use super::{Result, SeriesFormat};
use crate::analysis::regions::{Region, regions};
use crate::history::{Counters, History};
use crate::snapshot::StrId;
use crate::units::bytes;

/// The Trace Event Format.
#[derive(Clone, Copy, Debug)]
pub struct Perfetto {
    /// Most points of each counter on one device. A longer trace is cut into that many parts of equal length; each
    /// shows its highest and its last value, so that no peak is lost.
    pub points: u32,
}

impl Default for Perfetto {
    fn default() -> Self {
        Self { points: 1 << 18 }
    }
}

/// One entry of `traceEvents`.
#[derive(Serialize)]
struct Entry<'a, T> {
    ph: &'static str,
    name: &'a str,
    pid: u64,
    tid: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    ts: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dur: Option<u64>,
    /// Scope of an instant: `p` spans the process.
    #[serde(skip_serializing_if = "Option::is_none")]
    s: Option<&'static str>,
    args: T,
}

impl<'a, T> Entry<'a, T> {
    fn new(ph: &'static str, name: &'a str, pid: u64, tid: u64, ts: Option<u64>, args: T) -> Self {
        Self { ph, name, pid, tid, ts, dur: None, s: None, args }
    }
}

#[derive(Serialize)]
struct Name<'a> {
    name: &'a str,
}

#[derive(Serialize)]
struct Order {
    sort_index: i64,
}

#[derive(Serialize)]
struct Value {
    bytes: u64,
}

#[derive(Serialize)]
struct Failure {
    event: u32,
    rounded: u64,
    device_free: u64,
}

impl SeriesFormat for Perfetto {
    fn write(&self, histories: &[History], out: &mut dyn Write) -> Result<()> {
        let mut entries = Entries { out, is_first: true };
        entries.out.write_all(b"{\"displayTimeUnit\":\"ms\",\"otherData\":")?;
        serde_json::to_writer(&mut *entries.out, &about(histories))?;
        entries.out.write_all(b",\"traceEvents\":[")?;
        for (history, pid) in histories.iter().zip(1..) {
            entries.device(history, pid, self.points.max(1))?;
        }
        entries.out.write_all(b"\n]}\n")?;
        Ok(())
    }
}

/// What the trace is of, and what is uncertain about it.
#[derive(Serialize)]
struct About {
    oomscope: &'static str,
    /// What `ts` counts.
    clock: &'static str,
    /// Why counters may be wrong, by device.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    incomplete: Vec<String>,
}

fn about(histories: &[History]) -> About {
    let is_timed = histories.iter().any(|history| history.time_span().is_some());
    let reasons = histories.iter().flat_map(|history| {
        let device = history.device.ordinal;
        history.health.reasons.iter().map(move |reason| format!("device {device}: {reason}"))
    });
    About {
        oomscope: env!("CARGO_PKG_VERSION"),
        clock: if is_timed { "microseconds since 1970" } else { "event numbers: the file has no times" },
        incomplete: reasons.collect(),
    }
}

struct Entries<'o> {
    out: &'o mut dyn Write,
    is_first: bool,
}

impl Entries<'_> {
    fn add<T: Serialize>(&mut self, entry: &Entry<T>) -> Result<()> {
        self.out.write_all(if self.is_first { b"\n" } else { b",\n" })?;
        self.is_first = false;
        serde_json::to_writer(&mut *self.out, entry)?;
        Ok(())
    }

    fn device(&mut self, history: &History, pid: u64, points: u32) -> Result<()> {
        let ordinal = history.device.ordinal;
        let process = Name { name: &format!("device {ordinal}") };
        self.add(&Entry::new("M", "process_name", pid, 0, None, process))?;
        self.add(&Entry::new("M", "process_sort_index", pid, 0, None, Order { sort_index: ordinal }))?;
        self.counters(history, pid, points)?;
        for oom in &history.ooms {
            let name = format!("OOM: {} asked, {} free", bytes(oom.rounded), bytes(oom.device_free));
            let args = Failure { event: oom.event, rounded: oom.rounded, device_free: oom.device_free };
            let ts = Some(position(history, oom.event));
            self.add(&Entry { s: Some("p"), ..Entry::new("i", &name, pid, 0, ts, args) })?;
        }
        self.regions(history, pid)
    }

    fn counters(&mut self, history: &History, pid: u64, points: u32) -> Result<()> {
        let start = history.counters(0);
        let part = history.events().div_ceil(points).max(1);
        let first = if history.events() > 0 { position(history, 0) } else { 0 };
        let mut tracks = Track::all(&start, history.health.recorded);
        for track in &mut tracks {
            self.point(track, pid, first)?;
        }
        for event in 0..history.events() {
            let change = history.change(event);
            let deltas = [change.allocated, change.active, change.requested, change.reserved];
            let (ts, ends) = (position(history, event), (event + 1) % part == 0 || event + 1 == history.events());
            for (track, delta) in tracks.iter_mut().zip(deltas) {
                track.now += delta;
                if track.highest.is_none_or(|(highest, _)| track.now > highest) {
                    track.highest = Some((track.now, ts));
                }
                if ends {
                    let last = track.now;
                    if let Some((highest, at)) = track.highest.take()
                        && highest > last.max(track.shown)
                    {
                        track.now = highest;
                        self.point(track, pid, at)?;
                        track.now = last;
                    }
                    if track.now != track.shown {
                        self.point(track, pid, ts)?;
                    }
                }
            }
        }
        Ok(())
    }

    fn point(&mut self, track: &mut Track, pid: u64, ts: u64) -> Result<()> {
        track.shown = track.now;
        let args = Value { bytes: track.now.max(0) as u64 };
        self.add(&Entry::new("C", track.name, pid, 0, Some(ts), args))
    }

    /// Regions as slices of as few tracks as possible.
    fn regions(&mut self, history: &History, pid: u64) -> Result<()> {
        let snapshot = history.snapshot;
        let device = history.device.ordinal;
        let regions = regions(snapshot);
        let mut slices: Vec<Slice> =
            regions.iter().filter(|region| region.device == device).map(|region| Slice::of(region, history)).collect();
        slices.sort_by_key(|slice| (slice.start, Reverse(slice.end)));
        let mut lanes = Lanes::default();
        for slice in slices {
            let (lane, is_new) = lanes.take(&slice);
            let tid = lane as u64 + 1;
            if is_new {
                let name = if lane == 0 { "regions".to_owned() } else { format!("regions {tid}") };
                self.add(&Entry::new("M", "thread_name", pid, tid, None, Name { name: &name }))?;
            }
            let dur = Some(slice.end - slice.start);
            let entry = Entry::new("X", snapshot.text(slice.name), pid, tid, Some(slice.start), slice.cut);
            self.add(&Entry { dur, ..entry })?;
        }
        Ok(())
    }
}

/// What of a region lies outside the recording.
#[derive(Clone, Copy, Serialize)]
struct Cut {
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end: Option<&'static str>,
}

/// A region from the first to the last of it that was recorded.
struct Slice {
    name: StrId,
    start: u64,
    end: u64,
    cut: Cut,
}

impl Slice {
    fn of(region: &Region, history: &History) -> Self {
        let span = history.time_span();
        let known = region.start_us.or(region.end_us).unwrap_or_default();
        let start = region.start_us.unwrap_or_else(|| span.map_or(known, |(first, _)| first.min(known)));
        let end = region.end_us.unwrap_or_else(|| span.map_or(known, |(_, last)| last.max(known)));
        let cut = Cut {
            start: region.start_us.is_none().then_some("before the recording"),
            end: region.end_us.is_none().then_some("after the recording"),
        };
        Self { name: region.name, start, end: end.max(start), cut }
    }
}

/// Tracks, each with the ends of the slices that are open on it, the innermost last.
#[derive(Default)]
struct Lanes(Vec<Vec<u64>>);

impl Lanes {
    /// The first track on which `slice` nests, as the slices of a track must, and whether it is a new one. Slices come
    /// in the order of their starts.
    fn take(&mut self, slice: &Slice) -> (usize, bool) {
        let fits = |open: &mut Vec<u64>| {
            while open.pop_if(|end| *end <= slice.start).is_some() {}
            open.last().is_none_or(|end| slice.end <= *end)
        };
        let lane = self.0.iter_mut().position(fits);
        let at = lane.unwrap_or(self.0.len());
        if lane.is_none() {
            self.0.push(Vec::new());
        }
        self.0[at].push(slice.end);
        (at, lane.is_none())
    }
}

/// One counter along the trace.
struct Track {
    name: &'static str,
    now: i64,
    shown: i64,
    /// In the open part: the highest value and its time.
    highest: Option<(i64, u64)>,
}

impl Track {
    fn all(start: &Counters, is_recorded: bool) -> Vec<Self> {
        let all = [
            ("allocated", start.allocated),
            ("active", start.active),
            ("requested", start.requested),
            ("reserved", start.reserved),
        ];
        let track = |(name, bytes): (_, u64)| Self { name, now: bytes as i64, shown: bytes as i64, highest: None };
        all.into_iter().filter(|_| is_recorded).map(track).collect()
    }
}

/// Where `event` lies: its time, or its number in a file without times.
fn position(history: &History, event: u32) -> u64 {
    history.time_us(event).unwrap_or(u64::from(event))
}
