//! What a panel shows.

use super::data::Data;
use crate::analysis::series::{Mark, Series, Unit};
use crate::render::palette::Paint;
use crate::units::{count, duration};

/// A device's data, ready to be laid out.
pub(super) struct Panel<'a> {
    pub series: &'a Series,
    pub data: Data,
    pub paints: Vec<Paint>,
    pub marks: Vec<Mark>,
    /// Most marks of a kind that are drawn.
    pub max_marks: usize,
}

impl Panel<'_> {
    /// The tooltip of `mark`.
    pub fn about(&self, mark: &Mark) -> String {
        let place = |x: u64| match self.series.unit {
            Unit::Event => format!("event {}", count(x)),
            Unit::Microseconds => format!("{} after the first event", duration(x)),
        };
        match (mark.x_end, self.series.unit) {
            (None, _) => format!("{}\n{}", mark.label, place(mark.x)),
            (Some(end), Unit::Event) => format!("{}\n{} to {}", mark.label, place(mark.x), count(end)),
            (Some(end), Unit::Microseconds) => {
                format!("{}\n{}, for {}", mark.label, place(mark.x), duration(end.saturating_sub(mark.x)))
            }
        }
    }
}
