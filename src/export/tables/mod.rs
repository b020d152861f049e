//! A snapshot as tables: for spreadsheets, data frames and SQL.
//!
//! One struct a row defines a table: its fields are the columns, its docs their meaning. A [`Table`] makes any range of
//! its rows as a [`Chunk`], so that no table is ever held whole; CSV, Parquet and SQL engines are fed from the same
//! chunks. The names of tables and columns are stable; [`VERSION`] grows when one changes its meaning or goes.
//!
//! ```no_run
//! use oomscope::export::tables::{Source, TableName};
//! use oomscope::history::History;
//! use oomscope::snapshot::{LoadOptions, load};
//!
//! let snapshot = load(&oomscope::snapshot::Source::Path("oom.pickle".into()), &LoadOptions::default())?;
//! let rules = &snapshot.settings.rules;
//! let histories: Vec<_> = snapshot.devices.iter().map(|device| History::new(&snapshot, device, rules)).collect();
//! let source = Source::new(&snapshot, &histories);
//! let events = source.table(TableName::Events);
//! println!("{} events, the first: {:?}", events.rows(), events.chunk(0..events.rows().min(1)));
//! # Ok::<(), oomscope::snapshot::LoadError>(())
//! ```

mod blocks;
mod chunk;
mod devices;
mod events;
mod frames;
mod leaks;
mod moments;
mod ooms;
mod record;
mod segments;
mod sites;
mod source;
mod steps;
mod timeline;

use std::marker::PhantomData;
use std::ops::Range;

pub use blocks::BlockRow;
pub use chunk::{Chunk, Column, ColumnSchema, Kind, Schema, Texts, Values};
pub use devices::DeviceRow;
pub use events::EventRow;
pub use frames::{FrameRow, StackRow};
pub use leaks::LeakRow;
pub use moments::MomentRow;
pub use ooms::OomRow;
pub use record::{Cell, OwnedCell, OwnedRecord, Record, TimeUs};
pub use segments::SegmentRow;
pub use sites::{SiteRow, TRACE};
pub use source::Source;
pub use steps::StepRow;
pub use timeline::TimelineRow;

/// Version of the schema. Columns may be added without a new one; a reader ignores those that it does not know.
pub const VERSION: u32 = 1;

/// Rows in one piece of a table: what is held in memory at a time.
pub const CHUNK: usize = 122_880;

/// Rows of one schema.
pub trait Table: Sync {
    /// Name and columns.
    fn schema(&self) -> Schema;

    /// Number of rows.
    fn rows(&self) -> usize;

    /// The rows in `rows`, which must be within [`Table::rows`].
    fn chunk(&self, rows: Range<usize>) -> Chunk;
}

/// The pieces of `table`, [`CHUNK`] rows each; none when it has no rows.
pub fn chunks(table: &dyn Table) -> impl Iterator<Item = Chunk> + '_ {
    let rows = table.rows();
    (0..rows).step_by(CHUNK).map(move |start| table.chunk(start..rows.min(start + CHUNK)))
}

/// The tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TableName {
    /// See [`DeviceRow`].
    Devices,
    /// See [`SegmentRow`].
    Segments,
    /// See [`BlockRow`].
    Blocks,
    /// See [`EventRow`].
    Events,
    /// See [`StackRow`].
    Stacks,
    /// See [`FrameRow`].
    Frames,
    /// See [`SiteRow`].
    Sites,
    /// See [`StepRow`].
    Steps,
    /// See [`OomRow`].
    Ooms,
    /// See [`MomentRow`].
    Moments,
    /// See [`LeakRow`].
    Leaks,
    /// See [`TimelineRow`].
    Timeline,
}

impl TableName {
    /// Every table.
    pub const ALL: [Self; 12] = [
        Self::Devices,
        Self::Segments,
        Self::Blocks,
        Self::Events,
        Self::Stacks,
        Self::Frames,
        Self::Sites,
        Self::Steps,
        Self::Ooms,
        Self::Moments,
        Self::Leaks,
        Self::Timeline,
    ];

    /// Its name and columns.
    pub fn schema(self) -> Schema {
        match self {
            Self::Devices => DeviceRow::SCHEMA,
            Self::Segments => SegmentRow::SCHEMA,
            Self::Blocks => BlockRow::SCHEMA,
            Self::Events => EventRow::SCHEMA,
            Self::Stacks => StackRow::SCHEMA,
            Self::Frames => FrameRow::SCHEMA,
            Self::Sites => SiteRow::SCHEMA,
            Self::Steps => StepRow::SCHEMA,
            Self::Ooms => OomRow::SCHEMA,
            Self::Moments => MomentRow::SCHEMA,
            Self::Leaks => LeakRow::SCHEMA,
            Self::Timeline => TimelineRow::SCHEMA,
        }
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        self.schema().name
    }
}

impl Source<'_> {
    /// The table `name`. What a table sums up is computed here, the rest when rows are asked for.
    pub fn table(&self, name: TableName) -> Box<dyn Table + '_> {
        match name {
            TableName::Devices => listed(devices::rows(self)),
            TableName::Segments => listed(segments::rows(self)),
            TableName::Blocks => {
                let blocks = blocks::Blocks::new(self);
                Box::new(BlockTable(blocks))
            }
            TableName::Events => Rows::boxed(events::rows(self), |row| events::row(self, row)),
            TableName::Stacks => {
                let starts = frames::stack_starts(self);
                let rows = starts.last().copied().unwrap_or(0);
                Rows::boxed(rows, move |row| frames::stack(self, &starts, row))
            }
            TableName::Frames => Rows::boxed(self.snapshot.frames.len(), |row| frames::frame(self, row)),
            TableName::Sites => listed(sites::rows(self)),
            TableName::Steps => listed(steps::rows(self)),
            TableName::Ooms => listed(ooms::rows(self)),
            TableName::Moments => listed(moments::rows(self)),
            TableName::Leaks => listed(leaks::rows(self)),
            TableName::Timeline => listed(timeline::rows(self)),
        }
    }
}

/// A table whose rows are made one by one.
struct Rows<R, F> {
    rows: usize,
    row: F,
    of: PhantomData<fn() -> R>,
}

impl<'s, R: Record + 's, F: Fn(usize) -> R + Sync + 's> Rows<R, F> {
    fn boxed(rows: usize, row: F) -> Box<dyn Table + 's> {
        Box::new(Self { rows, row, of: PhantomData })
    }
}

impl<R: Record, F: Fn(usize) -> R + Sync> Table for Rows<R, F> {
    fn schema(&self) -> Schema {
        R::SCHEMA
    }

    fn rows(&self) -> usize {
        self.rows
    }

    fn chunk(&self, rows: Range<usize>) -> Chunk {
        fill(rows, |row, chunk| (self.row)(row).push(chunk), &R::SCHEMA)
    }
}

/// A table of few rows that are there already.
struct Listed<R>(Vec<R>);

fn listed<'s, R: Record + Sync + 's>(rows: Vec<R>) -> Box<dyn Table + 's> {
    Box::new(Listed(rows))
}

impl<R: Record + Sync> Table for Listed<R> {
    fn schema(&self) -> Schema {
        R::SCHEMA
    }

    fn rows(&self) -> usize {
        self.0.len()
    }

    fn chunk(&self, rows: Range<usize>) -> Chunk {
        fill(rows, |row, chunk| self.0[row].push(chunk), &R::SCHEMA)
    }
}

struct BlockTable<'s, 'a>(blocks::Blocks<'s, 'a>);

impl Table for BlockTable<'_, '_> {
    fn schema(&self) -> Schema {
        BlockRow::SCHEMA
    }

    fn rows(&self) -> usize {
        self.0.rows()
    }

    fn chunk(&self, rows: Range<usize>) -> Chunk {
        fill(rows, |row, chunk| self.0.row(row).push(chunk), &BlockRow::SCHEMA)
    }
}

fn fill(rows: Range<usize>, push: impl Fn(usize, &mut Chunk), schema: &Schema) -> Chunk {
    let mut chunk = Chunk::new(schema);
    for row in rows {
        push(row, &mut chunk);
    }
    chunk
}
