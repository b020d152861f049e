//! Reading a table back.

use std::fs::File;
use std::path::Path;

use parquet::column::reader::{ColumnReader, get_typed_column_reader};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, RowGroupReader, SerializedFileReader};

use super::VERSION_KEY;
use super::write::physical;
use crate::export::tables::{Chunk, Column, ColumnSchema, Kind, OwnedRecord, Schema, Texts, VERSION, Values};
use crate::export::{ExportError, Result};

/// A table in a file.
pub struct ParquetTable {
    reader: SerializedFileReader<File>,
    schema: Schema,
    /// Where each column of the schema is in the file; `None` where the file has none.
    columns: Vec<Option<usize>>,
}

impl ParquetTable {
    /// The table of `schema` in the file `path`. Columns that the file has beside it are ignored; columns that it lacks
    /// are null, or an error where the schema has no null.
    pub fn open(path: &Path, schema: Schema) -> Result<Self> {
        let reader = SerializedFileReader::new(File::open(path)?)?;
        let metadata = reader.metadata().file_metadata();
        let keys = metadata.key_value_metadata().into_iter().flatten();
        let version = keys.filter(|pair| pair.key == VERSION_KEY).find_map(|pair| pair.value.as_deref());
        match version.and_then(|version| version.parse::<u32>().ok()) {
            Some(version) if version <= VERSION => {}
            Some(version) => return Err(ExportError::NewerTable(version)),
            None => return Err(ExportError::NotATable(schema.name)),
        }
        let found = metadata.schema_descr().columns();
        let place = |column: &ColumnSchema| {
            let at = found.iter().position(|found| found.path().parts() == [column.name]);
            match at {
                Some(at) if found[at].physical_type() == physical(column.kind) && found[at].max_rep_level() == 0 => {
                    Ok(Some(at))
                }
                None if column.nullable => Ok(None),
                _ => Err(ExportError::Column { table: schema.name, column: column.name, kind: column.kind.name() }),
            }
        };
        let columns = schema.columns.iter().map(place).collect::<Result<_>>()?;
        Ok(Self { reader, schema, columns })
    }

    /// Number of rows.
    pub fn rows(&self) -> u64 {
        u64::try_from(self.reader.metadata().file_metadata().num_rows()).unwrap_or(0)
    }

    /// The pieces in which it was written.
    pub fn chunks(&self) -> impl Iterator<Item = Result<Chunk>> + '_ {
        (0..self.reader.num_row_groups()).map(|group| self.chunk(&*self.reader.get_row_group(group)?))
    }

    fn chunk(&self, group: &dyn RowGroupReader) -> Result<Chunk> {
        let rows = usize::try_from(group.metadata().num_rows()).unwrap_or(0);
        let columns = self.schema.columns.iter().zip(&self.columns);
        let columns = columns.map(|(schema, at)| match at {
            Some(at) => column(schema, group.get_column_reader(*at)?, rows),
            None => Ok(missing(schema, rows)),
        });
        Ok(Chunk { rows, columns: columns.collect::<Result<_>>()? })
    }
}

/// All rows of the file `path` as structs.
pub fn records<R: OwnedRecord>(path: &Path) -> Result<Vec<R>> {
    let table = ParquetTable::open(path, R::SCHEMA)?;
    let mut rows = Vec::new();
    for chunk in table.chunks() {
        rows.extend(R::read_all(&chunk?));
    }
    Ok(rows)
}

fn column(schema: &ColumnSchema, reader: ColumnReader, rows: usize) -> Result<Column> {
    let (values, valid) = match schema.kind {
        Kind::U64 => {
            let (values, valid) = get::<Int64Type>(reader, rows, schema, 0)?;
            (Values::U64(values.into_iter().map(|value| value as u64).collect()), valid)
        }
        Kind::I64 | Kind::TimeUs => {
            let (values, valid) = get::<Int64Type>(reader, rows, schema, 0)?;
            (Values::I64(values), valid)
        }
        Kind::F64 => {
            let (values, valid) = get::<DoubleType>(reader, rows, schema, 0.0)?;
            (Values::F64(values), valid)
        }
        Kind::Bool => {
            let (values, valid) = get::<BoolType>(reader, rows, schema, false)?;
            (Values::Bool(values), valid)
        }
        Kind::Text => {
            let (values, valid) = get::<ByteArrayType>(reader, rows, schema, ByteArray::from(""))?;
            let mut texts = Texts::default();
            for value in &values {
                texts.push(value.as_utf8()?);
            }
            (Values::Text(texts), valid)
        }
    };
    Ok(Column { values, valid })
}

/// Values, and which of them are there.
type Read<T> = (Vec<<T as DataType>::T>, Option<Vec<bool>>);

/// The values of `rows` rows, `blank` where they are missing, and which are there.
fn get<T: DataType>(reader: ColumnReader, rows: usize, schema: &ColumnSchema, blank: T::T) -> Result<Read<T>> {
    let mut reader = get_typed_column_reader::<T>(reader);
    let (mut present, mut levels) = (Vec::new(), Vec::new());
    let mut read = 0;
    while read < rows {
        let (more, ..) = reader.read_records(rows - read, Some(&mut levels), None, &mut present)?;
        if more == 0 {
            let text = format!("the column `{}` ends after {read} of {rows} rows", schema.name);
            return Err(ParquetError::EOF(text).into());
        }
        read += more;
    }
    if levels.is_empty() {
        let valid = schema.nullable.then(|| vec![true; rows]);
        return Ok((present, valid));
    }
    if !schema.nullable && levels.contains(&0) {
        return Err(ParquetError::General(format!("the column `{}` has gaps", schema.name)).into());
    }
    let mut present = present.into_iter();
    let values =
        levels.iter().map(|&level| if level > 0 { present.next() } else { None }.unwrap_or_else(|| blank.clone()));
    let values = values.collect();
    Ok((values, schema.nullable.then(|| levels.iter().map(|&level| level > 0).collect())))
}

fn missing(schema: &ColumnSchema, rows: usize) -> Column {
    let mut column = Column::new(schema);
    match &mut column.values {
        Values::U64(values) => values.resize(rows, 0),
        Values::I64(values) => values.resize(rows, 0),
        Values::F64(values) => values.resize(rows, 0.0),
        Values::Bool(values) => values.resize(rows, false),
        Values::Text(texts) => (0..rows).for_each(|_| texts.push("")),
    }
    column.valid = Some(vec![false; rows]);
    column
}
