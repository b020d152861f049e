//! A part of the trace: the `--window` flag.

use std::ops::Range;
use std::str::FromStr;

use serde::Serialize;

use super::steps::Steps;
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
    /// `None` is the start of the trace.
    pub first: Option<Bound>,
    /// `None` is the dump.
    pub last: Option<Bound>,
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
        first: u32,
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
        // `A..=B` means what `A..B` does, and `A..end` what `A..` does.
        let last = last.strip_prefix('=').unwrap_or(last);
        let (first, last) = (bound(first)?, if last == "end" { None } else { bound(last)? });
        if first.is_none() && last.is_none() && !text.contains("..") {
            return Err(syntax());
        }
        Ok(Self { first, last })
    }
}

impl WindowSpec {
    /// Whether it means the same on each device.
    pub fn is_common(self) -> bool {
        let is_common = |bound: &Bound| matches!(bound, Bound::Time(_) | Bound::Step(_));
        self.first.iter().chain(&self.last).all(is_common)
    }

    /// The steps of `history`, when a bound is one of them.
    pub fn steps(self, history: &History) -> Option<Steps> {
        let names_steps = [self.first, self.last].iter().any(|bound| matches!(bound, Some(Bound::Step(_))));
        if names_steps { Steps::find(history) } else { None }
    }

    /// The events that it names on `history`'s device.
    ///
    /// # Errors
    /// When there is none, or what it names does not exist.
    pub fn resolve(self, history: &History) -> Result<Window, WindowError> {
        let (first, end) = self.ends(history)?;
        if first < end {
            Ok(Window { first, last: end - 1 })
        } else {
            Err(WindowError::Empty { first, last: i64::from(end) - 1 })
        }
    }

    /// As [`resolve`](Self::resolve), but there may be no event: then where one would be.
    pub fn range(self, history: &History) -> Result<Range<u32>, WindowError> {
        let (first, end) = self.ends(history)?;
        Ok(first..end.max(first))
    }

    /// The first event and the one behind the last, which may lie before it.
    fn ends(self, history: &History) -> Result<(u32, u32), WindowError> {
        if !history.health.recorded {
            return Err(WindowError::NoHistory(history.device.ordinal));
        }
        let steps = self.steps(history);
        let first = match self.first {
            None => 0,
            Some(Bound::Event(event)) => history.moment(At::Event(event)).map(|_| event)?,
            Some(Bound::Time(time)) => time.checked_sub(1).map_or(Ok(0), |before| until(history, At::Time(before)))?,
            Some(Bound::Step(step)) => states_of(steps.as_ref(), step)?.start,
            Some(Bound::Moment(at)) => history.moment(at)?.event.unwrap_or(0),
        };
        let end = match self.last {
            None => history.events(),
            Some(Bound::Event(event)) => event.saturating_add(1).min(history.events()),
            Some(Bound::Time(time)) => until(history, At::Time(time))?,
            Some(Bound::Step(step)) => states_of(steps.as_ref(), step)?.end,
            Some(Bound::Moment(at)) => until(history, at)?,
        };
        Ok((first, end))
    }
}

/// Number of events up to the one of `at`, which is included.
fn until(history: &History, at: At) -> Result<u32, MomentError> {
    Ok(history.moment(at)?.event.map_or(0, |event| event + 1))
}

/// States between which step `wanted` lies.
fn states_of(steps: Option<&Steps>, wanted: u64) -> Result<Range<u32>, WindowError> {
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
        WindowSpec::default().resolve(history)
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
        assert_eq!(spec("3..end").unwrap(), spec("3..").unwrap());
        assert_eq!(spec("..oom:2").unwrap().last, Some(Bound::Moment(At::Oom(Some(2)))));
        for wrong in ["", "end", "a..b", "3-7", "step:x..", "-1..3"] {
            assert_eq!(spec(wrong), Err(WindowError::Syntax(wrong.into())), "{wrong}");
        }
    }
}
