//! A part of the trace: the `--window` flag.

use std::str::FromStr;

use serde::Serialize;

use super::super::steps::Steps;
use crate::history::{At, History, MomentError};

/// Events of one device, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Window {
    /// First event.
    pub first: u32,
    /// Last event.
    pub last: u32,
}

/// One end of a window as the user names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// An event number.
    Event(u32),
    /// A time in microseconds since 1970.
    Time(u64),
    /// A step: its begin as a first bound, its end as a last one.
    Step(u64),
    /// An OOM, counted from 1, or the last; the peak.
    Moment(At),
}

/// A window as the user names it: `A..B`, `A..`, `..B` or one bound alone, each an event number, `@MICROSECONDS`,
/// `step:N`, `oom`, `oom:K` or `peak`. Both ends are included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WindowSpec {
    first: Option<Bound>,
    last: Option<Bound>,
}

/// Why there is no such window. The text says what there is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WindowError {
    /// Not one of the forms.
    #[error(
        "`{0}` is no window: write A..B, A.. or ..B, where A and B are event numbers, @MICROSECONDS, step:N, oom, oom:K \
         or peak"
    )]
    Syntax(String),
    /// No trace.
    #[error("device {0} has no recorded history, so only `--metric live` is known; --device N chooses another")]
    NoHistory(i64),
    /// Nothing in between.
    #[error("the window ends before it begins: its first event would be {first}, its last {last}")]
    Empty {
        /// First event.
        first: u64,
        /// Last event.
        last: i64,
    },
    /// No step has the number.
    #[error("there is no step {wanted}: {known}")]
    NoStep {
        /// Which was asked for.
        wanted: u64,
        /// Which there are.
        known: String,
    },
    /// A bound that does not exist.
    #[error(transparent)]
    Bound(#[from] MomentError),
}

impl FromStr for WindowSpec {
    type Err = WindowError;

    fn from_str(text: &str) -> Result<Self, WindowError> {
        let syntax = || WindowError::Syntax(text.to_owned());
        let bound = |part: &str| -> Result<Option<Bound>, WindowError> {
            if part.is_empty() {
                return Ok(None);
            }
            let bound = match (part.strip_prefix('@'), part.strip_prefix("step:")) {
                (Some(time), _) => time.parse().map(Bound::Time),
                (_, Some(step)) => step.parse().map(Bound::Step),
                _ => match part.parse() {
                    Ok(at @ (At::Oom(_) | At::Peak(_))) => Ok(Bound::Moment(at)),
                    _ => part.parse().map(Bound::Event),
                },
            };
            bound.map(Some).map_err(|_| syntax())
        };
        let (first, last) = text.split_once("..").unwrap_or((text, text));
        // `A..=B` means what `A..B` does.
        let (first, last) = (bound(first)?, bound(last.strip_prefix('=').unwrap_or(last))?);
        if first.is_none() && last.is_none() && text != ".." {
            return Err(syntax());
        }
        Ok(Self { first, last })
    }
}

impl WindowSpec {
    /// Whether a bound is a step.
    pub fn names_steps(self) -> bool {
        [self.first, self.last].iter().any(|bound| matches!(bound, Some(Bound::Step(_))))
    }

    /// The events that it names on `history`'s device, whose steps are `steps`.
    pub fn resolve(self, history: &History, steps: Option<&Steps>) -> Result<Window, WindowError> {
        let device = history.device.ordinal;
        if !history.health.recorded {
            return Err(WindowError::NoHistory(device));
        }
        let first = match self.first {
            None => 0,
            Some(Bound::Event(event)) => u64::from(history.moment(At::Event(event)).map(|_| event)?),
            Some(Bound::Time(time)) => first_from(history, time)?,
            Some(Bound::Step(step)) => states_of(steps, step)?.start.into(),
            Some(Bound::Moment(at)) => history.moment(at)?.event.unwrap_or(0).into(),
        };
        let end = i64::from(history.events()) - 1;
        let last = match self.last {
            None => end,
            Some(Bound::Event(event)) => i64::from(event).min(end),
            Some(Bound::Time(time)) => event_of(history, time)?,
            Some(Bound::Step(step)) => i64::from(states_of(steps, step)?.end) - 1,
            Some(Bound::Moment(at)) => history.moment(at)?.event.map_or(-1, i64::from),
        };
        match (u32::try_from(first), u32::try_from(last)) {
            (Ok(first), Ok(last)) if first <= last => Ok(Window { first, last }),
            _ => Err(WindowError::Empty { first, last }),
        }
    }
}

/// The last event up to `time`; −1 when there is none.
fn event_of(history: &History, time: u64) -> Result<i64, MomentError> {
    Ok(history.moment(At::Time(time))?.event.map_or(-1, i64::from))
}

/// The first event not before `time`.
fn first_from(history: &History, time: u64) -> Result<u64, MomentError> {
    let before = time.checked_sub(1).map_or(Ok(-1), |before| event_of(history, before))?;
    Ok((before + 1) as u64)
}

/// States between which step `wanted` lies.
fn states_of(steps: Option<&Steps>, wanted: u64) -> Result<std::ops::Range<u32>, WindowError> {
    let steps = steps.filter(|steps| steps.source.is_program());
    let numbers = steps.and_then(|steps| Some((steps.numbers.first()?, steps.numbers.last()?)));
    let known = || match (steps, numbers) {
        (Some(steps), Some((first, last))) => format!("steps {first} to {last} are {}", steps.source),
        _ => "nothing marks steps in this trace".to_owned(),
    };
    let found = steps.and_then(|steps| steps.numbered(wanted));
    found.ok_or_else(|| WindowError::NoStep { wanted, known: known() })
}

impl Window {
    /// The whole trace of `history`.
    pub fn whole(history: &History) -> Result<Self, WindowError> {
        WindowSpec::default().resolve(history, None)
    }

    /// Whether `event` is in it.
    pub fn contains(self, event: u32) -> bool {
        (self.first..=self.last).contains(&event)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_read() {
        let spec = |text: &str| text.parse::<WindowSpec>();
        assert_eq!(spec("3..7").unwrap().last, Some(Bound::Event(7)));
        assert_eq!(spec("3..=7").unwrap(), spec("3..7").unwrap());
        assert_eq!(spec("@5..").unwrap(), WindowSpec { first: Some(Bound::Time(5)), last: None });
        assert_eq!(spec("step:3").unwrap(), WindowSpec { first: Some(Bound::Step(3)), last: Some(Bound::Step(3)) });
        assert_eq!(spec("..").unwrap(), WindowSpec::default());
        assert_eq!(spec("..oom:2").unwrap().last, Some(Bound::Moment(At::Oom(Some(2)))));
        for wrong in ["", "a..b", "3-7", "step:x..", "-1..3"] {
            assert_eq!(spec(wrong), Err(WindowError::Syntax(wrong.into())), "{wrong}");
        }
    }
}
