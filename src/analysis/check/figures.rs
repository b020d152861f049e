//! What a gate is held against: the figures of one file.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::analysis::fragmentation::fragmentation;
use crate::analysis::leaks::{Leaks, leaks};
use crate::analysis::sites::Sites;
use crate::history::{At, Counter, History};

/// The figures of one device in one file. They are written into the JSON of `check`, to be compared with later.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct DeviceFigures {
    /// Device ordinal.
    pub device: i64,
    /// Peaks along the trace; `None` without history.
    pub peak: Option<PeakFigures>,
    /// What the trace lacks.
    pub trace: TraceFigures,
    /// Recorded failures.
    pub ooms: u64,
}

/// The highest value of the counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeakFigures {
    /// Asked for.
    pub requested: PeakFigure,
    /// In live blocks.
    pub allocated: PeakFigure,
    /// Taken from the device.
    pub reserved: PeakFigure,
}

/// One peak.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeakFigure {
    /// Bytes.
    pub bytes: u64,
    /// Whether PyTorch counted as much in this window, to the byte.
    pub exact: bool,
}

/// What a trace tells of the past.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TraceFigures {
    /// Whether there is a history.
    pub recorded: bool,
    /// Whether nothing is missing in it.
    pub complete: bool,
    /// What is missing, in words.
    pub reasons: Vec<String>,
    /// Whether nothing was in use when it began, so that no earlier peak is lost.
    #[serde(default)]
    pub starts_empty: bool,
}

/// What only a snapshot tells.
#[derive(Clone, Debug, PartialEq)]
pub struct NewFigures {
    /// What grows from step to step.
    pub leaks: Option<Leaks>,
    /// Stranded share of the reserved memory at its peak.
    pub fragmentation: Option<f64>,
}

/// Why a JSON document is nothing to compare with.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BaselineError {
    /// Not JSON.
    #[error("it is no valid JSON: {0}")]
    Syntax(String),
    /// Of another command.
    #[error(
        "it is the JSON of `{0}`, which lacks the peaks: keep what `check --json`, `report --json` or `info --json` wrote"
    )]
    Command(String),
    /// Lacks a figure.
    #[error("device {device} in it cannot be read: {why}")]
    Device {
        /// Its place in the list.
        device: usize,
        /// What is wrong.
        why: String,
    },
    /// Made from a part of a snapshot.
    #[error("it was made from a damaged snapshot, of which only a part was read: make it again from a whole one")]
    Salvaged,
}

/// The figures of `history`'s device.
pub fn figures(history: &History) -> DeviceFigures {
    let health = &history.health;
    let figure = |peak: crate::history::Peak| PeakFigure { bytes: peak.bytes, exact: peak.exact };
    let start = history.counters(0);
    DeviceFigures {
        device: history.device.ordinal,
        peak: history.peaks.map(|peaks| PeakFigures {
            requested: figure(peaks.requested),
            allocated: figure(peaks.allocated),
            reserved: figure(peaks.reserved),
        }),
        trace: TraceFigures {
            recorded: health.recorded && !health.cut && history.device.consistent,
            complete: health.complete,
            reasons: match history.device.consistent {
                true => health.reasons.clone(),
                false => vec!["the segments of the file contradict themselves".to_owned()],
            },
            starts_empty: health.recorded && start.active == 0 && start.reserved == 0,
        },
        ooms: history.ooms.len() as u64,
    }
}

/// What only the snapshot tells; `with_leaks` says whether growth is asked for, which takes longest.
pub fn new_figures(history: &History, sites: &Sites, with_leaks: bool) -> NewFigures {
    let at = history.moment(At::Peak(Some(Counter::Reserved)));
    let totals = at.ok().map(|moment| fragmentation(history, moment).totals);
    NewFigures {
        leaks: with_leaks.then(|| leaks(history, sites, None)),
        fragmentation: totals.and_then(|totals| match totals.reserved {
            0 => Some(0.0),
            reserved => totals.stranded.map(|stranded| stranded as f64 / reserved as f64),
        }),
    }
}

/// Whether `text` is JSON that this program wrote, and no snapshot.
pub fn is_baseline(text: &[u8]) -> bool {
    let start = text.trim_ascii_start();
    start.starts_with(b"{") && start[1..].trim_ascii_start().starts_with(b"\"oomscope\"")
}

/// The figures in the JSON that `check`, `report` or `info` wrote.
pub fn baseline(text: &[u8]) -> Result<Vec<DeviceFigures>, BaselineError> {
    let document: Value = serde_json::from_slice(text).map_err(|error| BaselineError::Syntax(error.to_string()))?;
    let warnings = document["warnings"].as_array().map_or(&[][..], Vec::as_slice);
    if warnings.iter().filter_map(Value::as_str).any(|warning| warning.starts_with("salvaged")) {
        return Err(BaselineError::Salvaged);
    }
    let devices = match document["command"].as_str().unwrap_or_default() {
        "check" => &document["figures"]["devices"],
        "report" => &document["info"]["devices"],
        "info" => &document["devices"],
        other => return Err(BaselineError::Command(other.to_owned())),
    };
    let devices = devices.as_array().map_or(&[][..], Vec::as_slice);
    devices.iter().enumerate().map(|(at, value)| device(at, value)).collect()
}

fn device(at: usize, value: &Value) -> Result<DeviceFigures, BaselineError> {
    let wrong = |why: String| BaselineError::Device { device: at, why };
    let peak: Option<PeakFigures> =
        serde_json::from_value(value["peak"].clone()).map_err(|error| wrong(format!("peak: {error}")))?;
    let mut trace: TraceFigures =
        serde_json::from_value(value["trace"].clone()).map_err(|error| wrong(format!("trace: {error}")))?;
    // What is exact in blocks starts with none.
    trace.starts_empty |= trace.complete || peak.is_some_and(|peak| peak.allocated.exact);
    Ok(DeviceFigures {
        device: value["device"].as_i64().ok_or_else(|| wrong("it has no number".to_owned()))?,
        peak,
        trace,
        ooms: match &value["ooms"] {
            Value::Array(list) => list.len() as u64,
            count => count.as_u64().ok_or_else(|| wrong("its failures are not counted".to_owned()))?,
        },
    })
}
