//! What tables are made of: schemas, and columns of values in pieces of bounded size.

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Unsigned 64-bit integers: bytes, addresses, counts, numbers of rows.
    U64,
    /// Signed 64-bit integers.
    I64,
    /// 64-bit floats.
    F64,
    /// True or false.
    Bool,
    /// UTF-8 text.
    Text,
    /// Microseconds since 1970 (UTC), as signed 64-bit integers.
    TimeUs,
}

impl Kind {
    /// Its name in the documentation.
    pub fn name(self) -> &'static str {
        match self {
            Self::U64 => "u64",
            Self::I64 => "i64",
            Self::F64 => "f64",
            Self::Bool => "bool",
            Self::Text => "text",
            Self::TimeUs => "time (µs)",
        }
    }
}

/// One column of a [`Schema`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ColumnSchema {
    /// Stable name.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// Whether values may be missing: what cannot be known is null, never 0.
    pub nullable: bool,
    /// What the values mean, one or several lines as written in the source.
    pub doc: &'static str,
}

/// Name, meaning and columns of a table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schema {
    /// Stable name; also the name of its file.
    pub name: &'static str,
    /// What a row is.
    pub doc: &'static str,
    /// Its columns, in the order of every [`Chunk`].
    pub columns: &'static [ColumnSchema],
}

/// Strings of one column: one buffer, and where each ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Texts {
    text: String,
    ends: Vec<usize>,
}

impl Texts {
    /// Adds `text`.
    pub fn push(&mut self, text: &str) {
        self.text.push_str(text);
        self.ends.push(self.text.len());
    }

    /// The string in `row`.
    pub fn get(&self, row: usize) -> &str {
        &self.text[self.bounds(row)]
    }

    /// Where the string of `row` lies in [`Texts::buffer`].
    pub fn bounds(&self, row: usize) -> std::ops::Range<usize> {
        let start = row.checked_sub(1).map_or(0, |before| self.ends[before]);
        start..self.ends[row]
    }

    /// All strings, one after another.
    pub fn buffer(&self) -> &str {
        &self.text
    }

    /// Number of strings.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }
}

/// The values of a column. [`Kind::TimeUs`] is kept as `I64`.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// See [`Kind::U64`].
    U64(Vec<u64>),
    /// See [`Kind::I64`] and [`Kind::TimeUs`].
    I64(Vec<i64>),
    /// See [`Kind::F64`].
    F64(Vec<f64>),
    /// See [`Kind::Bool`].
    Bool(Vec<bool>),
    /// See [`Kind::Text`].
    Text(Texts),
}

/// A column of a chunk.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// One value a row; an arbitrary one where it is missing.
    pub values: Values,
    /// Which values are there; `None` when the column is not nullable.
    pub valid: Option<Vec<bool>>,
}

impl Column {
    /// An empty column for `schema`.
    pub fn new(schema: &ColumnSchema) -> Self {
        let values = match schema.kind {
            Kind::U64 => Values::U64(Vec::new()),
            Kind::I64 | Kind::TimeUs => Values::I64(Vec::new()),
            Kind::F64 => Values::F64(Vec::new()),
            Kind::Bool => Values::Bool(Vec::new()),
            Kind::Text => Values::Text(Texts::default()),
        };
        Self { values, valid: schema.nullable.then(Vec::new) }
    }

    /// Whether the value of `row` is there.
    pub fn is_valid(&self, row: usize) -> bool {
        self.valid.as_ref().is_none_or(|valid| valid[row])
    }
}

/// Some rows of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct Chunk {
    /// Number of rows.
    pub rows: usize,
    /// As many columns as the schema has, in its order.
    pub columns: Vec<Column>,
}

impl Chunk {
    /// A chunk of `schema` without rows.
    pub fn new(schema: &Schema) -> Self {
        Self { rows: 0, columns: schema.columns.iter().map(Column::new).collect() }
    }
}
