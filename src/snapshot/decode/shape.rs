//! The kinds of rows.

/// What a dict's keys make it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Shape {
    Frame,
    Event,
    Block,
    Segment,
    History,
    Annotation,
}
