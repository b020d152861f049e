//! Rows as structs: one definition gives the struct, its schema, the way into a chunk and the way back.

use super::chunk::{Chunk, Column, Kind, Schema, Values};

/// Microseconds since 1970 (UTC).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimeUs(pub i64);

impl TimeUs {
    /// The time in a file; `None` for one beyond the year 294 000.
    pub fn new(micros: u64) -> Option<Self> {
        i64::try_from(micros).ok().map(Self)
    }
}

/// A type of field, and the column that it becomes.
pub trait Cell {
    /// What the column holds.
    const KIND: Kind;
    /// Whether the column may have gaps.
    const NULLABLE: bool = false;

    /// Adds the value to `column`, which is of [`Cell::KIND`].
    fn put(&self, column: &mut Column);
}

/// A field that can be read back.
pub trait OwnedCell: Cell + Sized {
    /// The value in `row` of `column`, which is of [`Cell::KIND`].
    fn get(column: &Column, row: usize) -> Self;
}

macro_rules! cell {
    ($type:ty, $kind:ident, $values:ident, $put:expr, $get:expr) => {
        impl Cell for $type {
            const KIND: Kind = Kind::$kind;

            fn put(&self, column: &mut Column) {
                match &mut column.values {
                    Values::$values(values) => values.push($put(self)),
                    _ => unreachable!("columns are made from the schema"),
                }
            }
        }

        impl OwnedCell for $type {
            fn get(column: &Column, row: usize) -> Self {
                match &column.values {
                    Values::$values(values) => $get(values[row]),
                    _ => unreachable!("columns are made from the schema"),
                }
            }
        }
    };
}

cell!(u64, U64, U64, |value: &u64| *value, |value| value);
cell!(i64, I64, I64, |value: &i64| *value, |value| value);
cell!(f64, F64, F64, |value: &f64| *value, |value| value);
cell!(bool, Bool, Bool, |value: &bool| *value, |value| value);
cell!(TimeUs, TimeUs, I64, |value: &TimeUs| value.0, TimeUs);

impl Cell for &str {
    const KIND: Kind = Kind::Text;

    fn put(&self, column: &mut Column) {
        match &mut column.values {
            Values::Text(texts) => texts.push(self),
            _ => unreachable!("columns are made from the schema"),
        }
    }
}

impl Cell for String {
    const KIND: Kind = Kind::Text;

    fn put(&self, column: &mut Column) {
        self.as_str().put(column);
    }
}

impl OwnedCell for String {
    fn get(column: &Column, row: usize) -> Self {
        match &column.values {
            Values::Text(texts) => texts.get(row).to_owned(),
            _ => unreachable!("columns are made from the schema"),
        }
    }
}

impl<T: Cell + Default> Cell for Option<T> {
    const KIND: Kind = T::KIND;
    const NULLABLE: bool = true;

    fn put(&self, column: &mut Column) {
        if let Some(valid) = &mut column.valid {
            valid.push(self.is_some());
        }
        match self {
            Some(value) => value.put(column),
            None => T::default().put(column),
        }
    }
}

impl<T: OwnedCell + Default> OwnedCell for Option<T> {
    fn get(column: &Column, row: usize) -> Self {
        column.is_valid(row).then(|| T::get(column, row))
    }
}

/// A row of a table.
pub trait Record {
    /// The table.
    const SCHEMA: Schema;

    /// Adds the row to `chunk`, which was made for [`Record::SCHEMA`].
    fn push(&self, chunk: &mut Chunk);
}

/// A row that can be read back.
pub trait OwnedRecord: Record + Sized {
    /// Row `row` of `chunk`, which is of [`Record::SCHEMA`].
    fn read(chunk: &Chunk, row: usize) -> Self;

    /// All rows of `chunk`.
    fn read_all(chunk: &Chunk) -> Vec<Self> {
        (0..chunk.rows).map(|row| Self::read(chunk, row)).collect()
    }
}

/// Defines a row: the struct's fields, with their docs, are the table's columns. A struct with a lifetime borrows its
/// text and cannot be read back. `..Totals,` stands for the parts of the reserved memory, a column each;
/// [`with_totals`] fills them.
macro_rules! record {
    ($(#[doc = $doc:literal])+ struct $name:ident in $table:literal {
        $($(#[doc = $before_doc:literal])+ $before:ident: $before_type:ty,)+
        ..Totals,
        $($after:tt)*
    }) => {
        record! {
            $(#[doc = $doc])+
            struct $name in $table {
                $($(#[doc = $before_doc])+ $before: $before_type,)+
                /// Taken from the device.
                reserved: u64,
                /// In blocks that tensors own.
                allocated: u64,
                /// In blocks that are freed but wait for another stream.
                pending: u64,
                /// allocated + pending.
                active: u64,
                /// Asked for by the program, in active blocks.
                requested: u64,
                /// Lost inside active blocks.
                rounding: Option<u64>,
                /// In free blocks.
                free: Option<u64>,
                /// What `torch.cuda.empty_cache()` would give back.
                releasable: Option<u64>,
                /// Free in private pools.
                pool_idle: Option<u64>,
                /// Free next to a live block, or in less than a granule.
                stranded: Option<u64>,
                /// The largest free block.
                largest_free: Option<u64>,
                $($after)*
            }
        }

        impl $name {
            /// The parts of the reserved memory.
            pub fn totals(&self) -> $crate::analysis::totals::Totals {
                use $crate::analysis::totals::Totals;
                $crate::export::tables::record::with_totals!(self, Totals {})
            }
        }
    };
    ($(#[doc = $doc:literal])+ struct $name:ident in $table:literal $fields:tt) => {
        record!(@define $name, [], $table, [$($doc)+] $fields);
        record!(@owned $name $fields);
    };
    ($(#[doc = $doc:literal])+ struct $name:ident<$life:lifetime> in $table:literal $fields:tt) => {
        record!(@define $name, [$life], $table, [$($doc)+] $fields);
    };
    (@define $name:ident, [$($life:lifetime)?], $table:literal, [$($doc:literal)+] {
        $($(#[doc = $field_doc:literal])+ $field:ident: $type:ty,)+
    }) => {
        $(#[doc = $doc])+
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name$(<$life>)? {
            $($(#[doc = $field_doc])+ pub $field: $type,)+
        }

        impl$(<$life>)? $crate::export::tables::Record for $name$(<$life>)? {
            const SCHEMA: $crate::export::tables::Schema = $crate::export::tables::Schema {
                name: $table,
                doc: concat!($($doc, "\n"),+),
                columns: &[$($crate::export::tables::ColumnSchema {
                    name: stringify!($field),
                    kind: <$type as $crate::export::tables::Cell>::KIND,
                    nullable: <$type as $crate::export::tables::Cell>::NULLABLE,
                    doc: concat!($($field_doc, "\n"),+),
                }),+],
            };

            fn push(&self, chunk: &mut $crate::export::tables::Chunk) {
                let mut columns = chunk.columns.iter_mut();
                $(if let Some(column) = columns.next() {
                    $crate::export::tables::Cell::put(&self.$field, column);
                })+
                chunk.rows += 1;
            }
        }
    };
    (@owned $name:ident { $($(#[doc = $field_doc:literal])+ $field:ident: $type:ty,)+ }) => {
        impl $crate::export::tables::OwnedRecord for $name {
            fn read(chunk: &$crate::export::tables::Chunk, row: usize) -> Self {
                let mut columns = chunk.columns.iter();
                let mut next = || columns.next().unwrap_or_else(|| unreachable!("chunks have every column"));
                Self { $($field: $crate::export::tables::OwnedCell::get(next(), row)),+ }
            }
        }
    };
}

/// The struct `$row` whose parts of the reserved memory are those of `$from`, and whose other fields are given.
macro_rules! with_totals {
    ($from:expr, $row:ident { $($fields:tt)* }) => {
        $row {
            reserved: $from.reserved,
            allocated: $from.allocated,
            pending: $from.pending,
            active: $from.active,
            requested: $from.requested,
            rounding: $from.rounding,
            free: $from.free,
            releasable: $from.releasable,
            pool_idle: $from.pool_idle,
            stranded: $from.stranded,
            largest_free: $from.largest_free,
            $($fields)*
        }
    };
}

pub(super) use {record, with_totals};
