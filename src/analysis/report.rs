//! The whole post-mortem of a file: what each device looked like at the moment that matters.

use rayon::prelude::*;
use serde::Serialize;

use super::failures::{Failure, capacity, failure};
use super::growth::main_cause;
use super::info::{Info, info};
use super::leaks::{self, Leaks, leaks};
use super::ranking::{Attribution, Ranking, live};
use super::segments::{Questions, Segments, segments};
use super::series::{Series, SeriesOptions, series};
use super::settle::settle;
use super::sites::Sites;
use super::verdict::{self, Evidence};
use super::whatif::{self, WhatIf, whatif};
use crate::history::{At, History, Moment, MomentError};
use crate::oom::Diagnosis;
use crate::snapshot::Snapshot;

/// A post-mortem.
#[derive(Clone, Debug)]
pub struct Report {
    /// What is in the file.
    pub info: Info,
    /// Devices, the one with the latest OOM first.
    pub devices: Vec<DeviceReport>,
    /// What other settings would have done about the failure of the first device, when that is what is described.
    pub whatif: Option<WhatIf>,
}

/// One device at one moment.
#[derive(Clone, Debug)]
pub struct DeviceReport {
    /// The moment that is described.
    pub at: Moment,
    /// The failure at that moment, when it is one.
    pub failure: Option<Failure>,
    /// Bytes that the process could have had, as far as it is known.
    pub capacity: Option<u64>,
    /// The parts of the reserved memory, the segments, and who pins what is free.
    pub segments: Segments,
    /// The lines that hold the memory.
    pub top: Ranking,
    /// Memory over time; `None` without history.
    pub series: Option<Series>,
    /// What grows from step to step.
    pub leaks: Leaks,
    /// The verdict, where there was a failure.
    pub diagnosis: Option<Diagnosis>,
    /// What to do next, where there was none; code stands between backticks.
    pub next: Vec<String>,
}

/// Reports on the devices of `histories`, which are of `snapshot`, at the moment `at`.
pub fn report(
    snapshot: &Snapshot,
    histories: &[History],
    sites: &Sites,
    at: At,
    known_capacity: Option<u64>,
    evidence: &Evidence,
) -> Result<Report, MomentError> {
    let devices = histories.par_iter().map(|history| device(history, sites, at, known_capacity, evidence));
    let mut devices = devices.collect::<Result<Vec<_>, _>>()?;
    let (info, whatif) =
        rayon::join(|| info(snapshot, histories), || replayed(histories.first()?, devices.first()?, known_capacity));
    if let Some(replayed) = &whatif
        && let Some(diagnosis) = devices.first_mut().and_then(|device| device.diagnosis.as_mut())
    {
        settle(diagnosis, replayed);
    }
    Ok(Report { info, devices, whatif })
}

/// The failure that `device` describes, under other settings.
fn replayed(history: &History, device: &DeviceReport, known_capacity: Option<u64>) -> Option<WhatIf> {
    let failure = device.failure.as_ref()?;
    let options = whatif::Options {
        capacity: process_capacity(history, Some(failure), known_capacity),
        oom: Some(failure.event),
        only_if_exact: true,
        few: true,
        ..whatif::Options::default()
    };
    // A trace that cannot be replayed says so in the command of that name; it is no reason to withhold the report.
    whatif(history, &options).ok()
}

/// Bytes that the process could have had: what the failure that is described shows, at another moment what all failures
/// show; else what the caller says of the card, of which other processes may have held a part.
fn process_capacity(history: &History, failure: Option<&Failure>, known: Option<u64>) -> Option<u64> {
    failure.map_or_else(|| capacity(history), Failure::capacity).or(known)
}

fn device(
    history: &History,
    sites: &Sites,
    at: At,
    known_capacity: Option<u64>,
    evidence: &Evidence,
) -> Result<DeviceReport, MomentError> {
    // A moment that only one device has must not hide the others.
    let moment = match (history.moment(at), at) {
        (Err(MomentError::NoOom { .. } | MomentError::NoHistory(_)), At::Oom(None) | At::Peak(_)) => {
            history.moment(At::Default)?
        }
        (moment, _) => moment?,
    };
    let oom = history.ooms.iter().find(|oom| moment.what == "oom" && Some(oom.event) == moment.event);
    let failure = oom.map(|oom| failure(history, oom));
    let capacity = process_capacity(history, failure.as_ref(), known_capacity);
    let options = SeriesOptions { capacity, ..SeriesOptions::default() };
    let leaks = leaks(history, sites, known_capacity);
    let questions = Questions { capacity: known_capacity, ..Questions::default() };
    let segments = segments(history, moment, sites, &questions);
    let diagnosis = verdict::diagnosis(history, sites, failure.as_ref(), &segments, &leaks, known_capacity, evidence);
    let next = if diagnosis.is_none() { next(history, &leaks) } else { Vec::new() };
    Ok(DeviceReport {
        next,
        at: moment,
        failure,
        capacity,
        segments,
        diagnosis,
        top: live(history, moment, sites, Attribution::Own),
        series: series(history, sites, &options),
        leaks,
    })
}

/// What to do next where nothing failed: about what grows, and about what the trace lacks.
fn next(history: &History, leaks: &Leaks) -> Vec<String> {
    let mut next = Vec::new();
    if let Some(keeper) = main_cause(leaks) {
        next.push(keeper.advice());
        next.push("`oomscope leaks FILE` shows the stacks of what grows".to_owned());
    }
    if history.health.complete || !history.ooms.is_empty() {
        return next;
    }
    let format = &history.snapshot.format;
    if history.health.cut {
        let again = "copy the file again, if it is whole where it was written: a failure may be in what is lost";
        next.push(again.to_owned());
    } else if !format.is_before_2_0() {
        let topic = if format.is_before_2_1() { "old" } else { "hook" };
        next.push(format!(
            "`oomscope howto {topic}` prints code that records from the start and writes a snapshot at the failure"
        ));
    }
    next
}

/// The JSON of a report: `info`, `segments`, `top` and `leaks` in the shapes of those commands.
#[derive(Serialize)]
pub struct Document<'a> {
    /// The verdict on the device that failed last; null without a failure.
    pub verdict: Option<crate::oom::Verdict>,
    /// The figures behind it.
    pub evidence: &'a [String],
    /// What to change first.
    pub remedies: &'a [crate::oom::remedies::Advice],
    /// What to do next, where the first device has no failure.
    pub next: &'a [String],
    /// All about each failure, by device.
    pub diagnoses: Vec<DeviceDiagnosis<'a>>,
    /// As of `info`.
    pub info: &'a Info,
    /// As of `segments`.
    pub segments: super::segments::Document<'a>,
    /// As of `top`.
    pub top: super::ranking::Document<'a>,
    /// As of `leaks`.
    pub leaks: leaks::Document<'a>,
    /// As of `whatif`, for the first device.
    pub whatif: Option<&'a WhatIf>,
}

/// A diagnosis and the device that it is of.
#[derive(Serialize)]
pub struct DeviceDiagnosis<'a> {
    /// Device ordinal.
    pub device: i64,
    /// As of `oom`.
    pub diagnosis: &'a Diagnosis,
}

impl Report {
    /// The diagnoses of all devices, in their order.
    pub fn diagnoses(&self) -> Vec<DeviceDiagnosis<'_>> {
        let of = |device: &'_ DeviceReport| device.segments.fragmentation.device;
        let found = self.devices.iter().filter_map(|report| Some((of(report), report.diagnosis.as_ref()?)));
        found.map(|(device, diagnosis)| DeviceDiagnosis { device, diagnosis }).collect()
    }
}
