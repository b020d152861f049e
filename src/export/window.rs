//! Which events an export keeps: `--window A..B`.

use std::ops::Range;
use std::str::FromStr;

use crate::history::{At, History, MomentError};

/// From the event of one moment to that of another, both included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// `None` is the start of the trace.
    pub from: Option<At>,
    /// `None` is the dump.
    pub to: Option<At>,
}

/// Why there is no such window. The text says what to name instead.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WindowError {
    /// Not `A..B`.
    #[error(
        "`{0}` is no window: write A..B with two moments, both included (100..200, @MICROSECONDS..@MICROSECONDS, \
         step:3..step:5, ..oom, peak..)"
    )]
    Syntax(String),
    /// One of the ends is no moment.
    #[error(transparent)]
    Moment(#[from] MomentError),
    /// Event numbers of several devices mean different times.
    #[error("events are numbered on each device: choose one with --device N, or name times (@MICROSECONDS) or steps")]
    ManyDevices,
    /// Nothing happened in it.
    #[error("the window holds no event: its end lies before its start, or nothing was recorded in between")]
    Empty,
    /// The segments after the last event do not follow from the trace.
    #[error(
        "device {device}: which memory was mapped after event {event} does not follow from the trace, so that no \
         snapshot can be made of it: end the window at the dump (A..)"
    )]
    Layout {
        /// Device ordinal.
        device: i64,
        /// The last event of the window.
        event: u32,
    },
}

impl FromStr for Window {
    type Err = WindowError;

    fn from_str(text: &str) -> Result<Self, WindowError> {
        let (from, to) = text.split_once("..").ok_or_else(|| WindowError::Syntax(text.to_owned()))?;
        let moment = |text: &str| if text.is_empty() { Ok(None) } else { text.parse().map(Some) };
        Ok(Self { from: moment(from)?, to: moment(to)? })
    }
}

impl Window {
    /// Whether it means the same on each device.
    pub fn is_common(&self) -> bool {
        let is_common = |at: &At| matches!(at, At::Time(_) | At::Step(_) | At::End);
        self.from.iter().chain(&self.to).all(is_common)
    }

    /// The events of `history` in it.
    pub fn events(&self, history: &History) -> Result<Range<u32>, WindowError> {
        // A device that is known at the dump only.
        if history.events() == 0 {
            return Ok(0..0);
        }
        let from = match self.from {
            Some(At::Step(step)) => Some(At::Time(history.step_start(step)?)),
            from => from,
        };
        let start = match from {
            None => 0,
            Some(At::Time(time)) => {
                // Fails where there are no times.
                history.moment(At::Time(u64::MAX))?;
                let events = 0..history.events();
                events.clone().find(|&event| history.time_us(event) >= Some(time)).unwrap_or(events.end)
            }
            Some(at) => history.moment(at)?.event.unwrap_or(0),
        };
        let end = match self.to {
            None => history.events(),
            Some(at) => history.moment(at)?.state,
        };
        Ok(start..end.max(start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_are_two_moments() {
        let window = |text: &str| text.parse::<Window>();
        assert_eq!(window("100..200"), Ok(Window { from: Some(At::Event(100)), to: Some(At::Event(200)) }));
        assert_eq!(window("@5.."), Ok(Window { from: Some(At::Time(5)), to: None }));
        assert_eq!(window("..oom"), Ok(Window { from: None, to: Some(At::Oom(None)) }));
        assert!(matches!(window("100"), Err(WindowError::Syntax(_))));
        assert!(matches!(window("a..b"), Err(WindowError::Moment(_))));
    }
}
