//! Rows of named columns, as table formats take them.

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// Signed integers.
    Int,
    /// Unsigned integers: bytes, addresses, microseconds, row numbers.
    UInt,
    /// Numbers with a fraction.
    Float,
    /// `true` or `false`.
    Bool,
    /// Text. `repeats` tells that few distinct values fill many rows.
    Text {
        /// Whether a dictionary saves room.
        repeats: bool,
    },
}

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name, in snake case.
    pub name: &'static str,
    /// What it holds.
    pub kind: FieldKind,
    /// Whether a row may have no value.
    pub nullable: bool,
}

/// One value of a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cell<'a> {
    /// No value.
    Null,
    /// See [`FieldKind::Int`].
    Int(i64),
    /// See [`FieldKind::UInt`].
    UInt(u64),
    /// See [`FieldKind::Float`].
    Float(f64),
    /// See [`FieldKind::Bool`].
    Bool(bool),
    /// See [`FieldKind::Text`].
    Text(&'a str),
}

/// Rows of named columns. Cells are made when they are asked for.
pub trait Table {
    /// Name of the table, in snake case.
    fn name(&self) -> &'static str;
    /// The columns in order.
    fn fields(&self) -> &[Field];
    /// Number of rows.
    fn rows(&self) -> usize;
    /// The value of `field` (its position) in `row`.
    fn cell(&self, row: usize, field: usize) -> Cell<'_>;
}
