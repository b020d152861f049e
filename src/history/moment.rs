//! The moment that an analysis looks at: the `--at` flag.

use std::str::FromStr;

use serde::Serialize;

use super::{History, Peak};
use crate::units::number_of;

/// A moment as the user names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum At {
    /// The last OOM when there is one, else the peak when there is a trace, else the end.
    #[default]
    Default,
    /// The dump.
    End,
    /// The peak of a counter; `None` is allocated when that is exact, else requested.
    Peak(Option<Counter>),
    /// A recorded failure, counted from 1; `None` is the last.
    Oom(Option<usize>),
    /// After this event.
    Event(u32),
    /// After the last event up to this time, in microseconds since 1970.
    Time(u64),
    /// The end of this `ProfilerStep#`.
    Step(u64),
}

/// One of the four counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counter {
    /// Bytes asked for.
    Requested,
    /// Bytes of live blocks.
    Allocated,
    /// Bytes of live and pending blocks.
    Active,
    /// Bytes taken from the device.
    Reserved,
}

/// Why there is no such moment. The text says what there is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MomentError {
    /// Not one of the forms.
    #[error(
        "`{0}` is no moment: use end, peak, peak:requested, peak:allocated, peak:active, peak:reserved, oom, oom:K, \
         an event number, @MICROSECONDS or step:S"
    )]
    Syntax(String),
    /// No trace.
    #[error("device {0} has no recorded history, so only `--at end` is known")]
    NoHistory(i64),
    /// No such failure.
    #[error("device {device} has {}: there is no OOM {wanted}", number_of(*count as u64, "recorded OOM"))]
    NoOom {
        /// Device ordinal.
        device: i64,
        /// How many there are.
        count: usize,
        /// Which was asked for.
        wanted: String,
    },
    /// Behind the end of the trace.
    #[error("device {device} has {count} events, numbered from 0: there is no event {wanted}")]
    NoEvent {
        /// Device ordinal.
        device: i64,
        /// How many there are.
        count: u32,
        /// Which was asked for.
        wanted: u32,
    },
    /// The file has no times.
    #[error("device {0} has events without times (torch 2.1 and older): name an event number")]
    NoTimes(i64),
    /// No such annotation.
    #[error(
        "there is no annotation `ProfilerStep#{0}`, and a moment can be named by profiler marks only: steps that the trace \
         itself shows are known to `--window step:{0}` (of top, flame, timeline and export); or name an event number"
    )]
    NoStep(u64),
}

impl FromStr for At {
    type Err = MomentError;

    fn from_str(text: &str) -> Result<Self, MomentError> {
        let syntax = || MomentError::Syntax(text.to_owned());
        Ok(match text.split_once(':') {
            None if text == "end" => Self::End,
            None if text == "peak" => Self::Peak(None),
            None if text == "oom" => Self::Oom(None),
            Some(("peak", "requested")) => Self::Peak(Some(Counter::Requested)),
            Some(("peak", "allocated")) => Self::Peak(Some(Counter::Allocated)),
            Some(("peak", "active")) => Self::Peak(Some(Counter::Active)),
            Some(("peak", "reserved")) => Self::Peak(Some(Counter::Reserved)),
            Some(("oom", number)) => Self::Oom(Some(number.parse().map_err(|_| syntax())?)),
            Some(("step", number)) => Self::Step(number.parse().map_err(|_| syntax())?),
            None => match text.strip_prefix('@') {
                Some(time) => Self::Time(time.parse().map_err(|_| syntax())?),
                None => Self::Event(text.parse().map_err(|_| syntax())?),
            },
            _ => return Err(syntax()),
        })
    }
}

/// A moment in one device's history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Moment {
    /// What it is: `end`, `peak`, `oom` or `event`.
    pub what: &'static str,
    /// The event that led to it; `None` at the start of the trace, and at the end of a file without one.
    pub event: Option<u32>,
    /// Time of that event in microseconds since 1970.
    pub time_us: Option<u64>,
    /// The number of its state.
    #[serde(skip)]
    pub state: u32,
}

impl History<'_> {
    /// The moment that `at` names on this device.
    pub fn moment(&self, at: At) -> Result<Moment, MomentError> {
        let device = self.device.ordinal;
        match at {
            At::Default if !self.ooms.is_empty() => self.moment(At::Oom(None)),
            At::Default if self.peaks.is_some() => self.moment(At::Peak(None)),
            At::Default | At::End => {
                let event = self.events().checked_sub(1);
                Ok(self.at_event("end", event))
            }
            At::Peak(counter) => {
                let peak = self.peak(counter).ok_or(MomentError::NoHistory(device))?;
                Ok(self.at_event("peak", peak.event))
            }
            At::Oom(number) => {
                let count = self.ooms.len();
                let missing = || MomentError::NoOom {
                    device,
                    count,
                    wanted: number.map_or("at all".to_owned(), |number| number.to_string()),
                };
                let at = number.unwrap_or(count).checked_sub(1).ok_or_else(missing)?;
                let oom = self.ooms.get(at).ok_or_else(missing)?;
                Ok(self.at_event("oom", Some(oom.event)))
            }
            At::Event(wanted) => match wanted < self.events() {
                true => Ok(self.at_event("event", Some(wanted))),
                false => Err(MomentError::NoEvent { device, count: self.events(), wanted }),
            },
            At::Time(time) => {
                let (first, _) = self.time_span().ok_or(MomentError::NoTimes(device))?;
                let up_to = (0..self.events()).rev().find(|&event| self.time_us(event).is_some_and(|at| at <= time));
                Ok(self.at_event("event", up_to.filter(|_| time >= first)))
            }
            At::Step(step) => {
                let name = format!("ProfilerStep#{step}");
                let ends = self.snapshot.annotations.iter().rev();
                let end = ends.clone().find(|mark| !mark.starts && self.snapshot.text(mark.name) == name);
                self.moment(At::Time(end.ok_or(MomentError::NoStep(step))?.time_us))
            }
        }
    }

    /// The peak of `counter`; without one, of allocated when that is exact, else of requested.
    pub fn peak(&self, counter: Option<Counter>) -> Option<Peak> {
        let peaks = self.peaks?;
        Some(match counter {
            Some(Counter::Requested) => peaks.requested,
            Some(Counter::Allocated) => peaks.allocated,
            Some(Counter::Active) => peaks.active,
            Some(Counter::Reserved) => peaks.reserved,
            None if peaks.allocated.exact => peaks.allocated,
            None => peaks.requested,
        })
    }

    fn at_event(&self, what: &'static str, event: Option<u32>) -> Moment {
        // At the end of a file without events the state is 0 all the same.
        let state = event.map_or(0, |event| event + 1);
        Moment { what, event, time_us: event.and_then(|event| self.time_us(event)), state }
    }
}
