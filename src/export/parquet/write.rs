//! Writing a table: each of its pieces is one row group.

use std::io::Write;
use std::sync::Arc;

use parquet::basic::{Compression, ConvertedType, LogicalType, Repetition, TimeUnit, Type as Physical, ZstdLevel};
use parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::Result;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::{Type, TypePtr};

use super::VERSION_KEY;
use crate::export::tables::{Chunk, Column, ColumnSchema, Kind, Schema, Table, Texts, VERSION, Values, chunks};
use crate::export::{self, TableFormat};

/// The Parquet format.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parquet;

impl TableFormat for Parquet {
    fn write(&self, table: &dyn Table, out: &mut dyn Write) -> export::Result<()> {
        // The writer wants to own its output: what it made is passed on after each row group.
        let mut file = SerializedFileWriter::new(Vec::new(), message(&table.schema())?, Arc::new(properties()?))?;
        for chunk in chunks(table) {
            write_group(&mut file, &chunk)?;
            file.flush()?;
            out.write_all(file.inner())?;
            file.inner_mut().clear();
        }
        out.write_all(&file.into_inner()?)?;
        Ok(())
    }
}

fn properties() -> Result<WriterProperties> {
    let version = KeyValue::new(VERSION_KEY.to_owned(), VERSION.to_string());
    let created_by = format!("oomscope version {}", env!("CARGO_PKG_VERSION"));
    Ok(WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::try_new(3)?))
        .set_key_value_metadata(Some(vec![version]))
        .set_created_by(created_by)
        .build())
}

fn message(schema: &Schema) -> Result<TypePtr> {
    let fields = schema.columns.iter().map(field).collect::<Result<Vec<_>>>()?;
    Ok(Arc::new(Type::group_type_builder(schema.name).with_fields(fields).build()?))
}

fn field(column: &ColumnSchema) -> Result<TypePtr> {
    let logical = match column.kind {
        Kind::U64 => Some(LogicalType::integer(64, false)),
        Kind::Text => Some(LogicalType::String),
        Kind::TimeUs => Some(LogicalType::timestamp(true, TimeUnit::MICROS)),
        Kind::I64 | Kind::F64 | Kind::Bool => None,
    };
    let repetition = if column.nullable { Repetition::OPTIONAL } else { Repetition::REQUIRED };
    let field = Type::primitive_type_builder(column.name, physical(column.kind))
        .with_repetition(repetition)
        .with_logical_type(logical)
        .with_converted_type(ConvertedType::NONE)
        .build()?;
    Ok(Arc::new(field))
}

/// How values of `kind` are stored.
pub(super) fn physical(kind: Kind) -> Physical {
    match kind {
        Kind::U64 | Kind::I64 | Kind::TimeUs => Physical::INT64,
        Kind::F64 => Physical::DOUBLE,
        Kind::Bool => Physical::BOOLEAN,
        Kind::Text => Physical::BYTE_ARRAY,
    }
}

fn write_group(file: &mut SerializedFileWriter<Vec<u8>>, chunk: &Chunk) -> Result<()> {
    let mut group = file.next_row_group()?;
    for column in &chunk.columns {
        let Some(mut writer) = group.next_column()? else { break };
        write_column(&mut writer, column)?;
        writer.close()?;
    }
    group.close()?;
    Ok(())
}

fn write_column(writer: &mut SerializedColumnWriter, column: &Column) -> Result<()> {
    match &column.values {
        // Unsigned integers are stored as the signed ones of the same bits.
        Values::U64(values) => put::<Int64Type>(writer, column, values.iter().map(|&value| value as i64)),
        Values::I64(values) => put::<Int64Type>(writer, column, values.iter().copied()),
        Values::F64(values) => put::<DoubleType>(writer, column, values.iter().copied()),
        Values::Bool(values) => put::<BoolType>(writer, column, values.iter().copied()),
        Values::Text(texts) => put::<ByteArrayType>(writer, column, slices(texts)),
    }
}

/// The strings as slices of one shared buffer.
fn slices(texts: &Texts) -> impl Iterator<Item = ByteArray> + '_ {
    let buffer = ByteArray::from(texts.buffer().as_bytes().to_vec());
    (0..texts.len()).map(move |row| {
        let bounds = texts.bounds(row);
        buffer.slice(bounds.start, bounds.len())
    })
}

/// Writes the values that are there, and which are.
fn put<T: DataType>(
    writer: &mut SerializedColumnWriter,
    column: &Column,
    values: impl Iterator<Item = T::T>,
) -> Result<()> {
    let writer = writer.typed::<T>();
    match &column.valid {
        None => writer.write_batch(&values.collect::<Vec<_>>(), None, None)?,
        Some(valid) => {
            let present: Vec<T::T> = values.zip(valid).filter(|(_, valid)| **valid).map(|(value, _)| value).collect();
            let levels: Vec<i16> = valid.iter().map(|&valid| i16::from(valid)).collect();
            writer.write_batch(&present, Some(&levels), None)?
        }
    };
    Ok(())
}
