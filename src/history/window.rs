//! A part of the trace: the `--window` flag.

use std::ops::Range;
use std::str::FromStr;

use super::{At, History, MomentError};

/// A part of the trace as the user names it: from one moment to another, both included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// Where it begins; `None` is the first event.
    pub from: Option<At>,
    /// Where it ends; `None` is the last event.
    pub to: Option<At>,
}

/// Why there is no such part. The text says what there is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WindowError {
    /// Not one of the forms.
    #[error(
        "`{0}` is no window: use A..B, where A and B are event numbers, @MICROSECONDS, step:S, oom, oom:K or peak and \
         either may be left out; step:S alone is that step"
    )]
    Syntax(String),
    /// One of the ends is nowhere.
    #[error(transparent)]
    Moment(#[from] MomentError),
    /// Nothing lies in it.
    #[error("device {device} has no event in that window: its {count} events are numbered from 0{times}")]
    Empty {
        /// Device ordinal.
        device: i64,
        /// How many events it has.
        count: u32,
        /// First and last time, in words; empty where none are recorded.
        times: String,
    },
}

impl FromStr for Window {
    type Err = WindowError;

    fn from_str(text: &str) -> Result<Self, WindowError> {
        let syntax = || WindowError::Syntax(text.to_owned());
        let bound = |part: &str| match part.trim() {
            "" => Ok(None),
            part => part.parse().map(Some).map_err(|_| syntax()),
        };
        match text.split_once("..") {
            Some((from, to)) => Ok(Self { from: bound(from)?, to: bound(to)? }),
            None => match bound(text)? {
                step @ Some(At::Step(_)) => Ok(Self { from: step, to: step }),
                _ => Err(syntax()),
            },
        }
    }
}

impl History<'_> {
    /// The events of `window`, never empty; steps are those that a profiler marked.
    pub fn window(&self, window: Window) -> Result<Range<u32>, WindowError> {
        self.window_by(window, |step| self.profiler_step(step))
    }

    /// The events of `window`, never empty; `step` tells the events of a step.
    pub fn window_by(
        &self,
        window: Window,
        step: impl Fn(u64) -> Option<Range<u32>>,
    ) -> Result<Range<u32>, WindowError> {
        let around = |at: At| -> Result<Range<u32>, MomentError> {
            match at {
                At::Step(number) => step(number).ok_or(MomentError::NoStep(number)),
                At::Time(time) => {
                    let (first, last) = self.time_span().ok_or(MomentError::NoTimes(self.device.ordinal))?;
                    let is_before = |event: &u32| self.time_us(*event).is_some_and(|at| at < time);
                    let is_after = |event: &u32| self.time_us(*event).is_some_and(|at| at > time);
                    let from = if time <= first { 0 } else { (0..self.events()).rfind(is_before).map_or(0, |e| e + 1) };
                    let to = if time >= last { self.events() } else { (0..self.events()).find(is_after).unwrap_or(0) };
                    Ok(from..to)
                }
                // A moment is the state after its event, and the event belongs to the window.
                at => self.moment(at).map(|moment| moment.state.saturating_sub(1)..moment.state),
            }
        };
        let from = window.from.map_or(Ok(0), |at| around(at).map(|events| events.start))?;
        let to = window.to.map_or(Ok(self.events()), |at| around(at).map(|events| events.end))?;
        if from >= to {
            let times = self.time_span().map_or_else(String::new, |(first, last)| format!(", @{first} to @{last}"));
            return Err(WindowError::Empty { device: self.device.ordinal, count: self.events(), times });
        }
        Ok(from..to)
    }

    /// The events of the annotation `ProfilerStep#step`.
    fn profiler_step(&self, step: u64) -> Option<Range<u32>> {
        let name = format!("ProfilerStep#{step}");
        let marks = || self.snapshot.annotations.iter().filter(|mark| self.snapshot.text(mark.name) == name);
        let start = marks().find(|mark| mark.starts)?.time_us;
        let end = marks().rev().find(|mark| !mark.starts).map_or(u64::MAX, |mark| mark.time_us);
        let within = |event: &u32| self.time_us(*event).is_some_and(|at| (start..=end).contains(&at));
        let first = (0..self.events()).find(within)?;
        let last = (first..self.events()).rfind(within)?;
        Some(first..last + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_have_two_ends_that_may_be_open() {
        let window = |text: &str| text.parse::<Window>();
        assert_eq!(window("10..20"), Ok(Window { from: Some(At::Event(10)), to: Some(At::Event(20)) }));
        assert_eq!(window("..oom"), Ok(Window { from: None, to: Some(At::Oom(None)) }));
        assert_eq!(window("@5.."), Ok(Window { from: Some(At::Time(5)), to: None }));
        assert_eq!(window(".."), Ok(Window::default()));
        let step = Some(At::Step(3));
        assert_eq!(window("step:3"), Ok(Window { from: step, to: step }));
        assert_eq!(window("step:3..step:5"), Ok(Window { from: step, to: Some(At::Step(5)) }));
        for wrong in ["", "10", "oom", "a..b", "1..2..3", "1...3", "-1..5"] {
            assert!(window(wrong).is_err(), "{wrong}");
        }
    }
}
