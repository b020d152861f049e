//! Folded stacks: one line a stack, as `flamegraph.pl`, inferno and speedscope read them.

use std::io::Write;

use super::{Result, SeriesFormat};
use crate::analysis::folded::{Folded as Stacks, Frames, fold};
use crate::analysis::ranking::Measure;
use crate::analysis::sites::{By, Sites};
use crate::history::{At, History};

/// Folded stacks with their live bytes at a moment. Those of several devices stand below a frame of their device.
#[derive(Clone, Copy, Debug, Default)]
pub struct Folded {
    /// The moment.
    pub at: At,
    /// Frames that are kept.
    pub frames: Frames,
}

impl SeriesFormat for Folded {
    fn write(&self, histories: &[History], out: &mut dyn Write) -> Result<()> {
        let Some(first) = histories.first() else { return Ok(()) };
        let sites = Sites::new(first.snapshot, By::Stack);
        let mut parts = Vec::new();
        for history in histories {
            let measure = Measure::Live(history.moment(self.at)?);
            parts.push((format!("device {}", history.device.ordinal), fold(history, &sites, measure, self.frames)));
        }
        let stacks = if parts.len() == 1 { parts.pop().map(|(_, part)| part) } else { Stacks::below(parts) };
        for line in stacks.iter().flat_map(Stacks::lines) {
            writeln!(out, "{line}")?;
        }
        Ok(())
    }
}
