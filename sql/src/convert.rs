//! Rows of oomscope's tables as Arrow record batches.

use std::sync::Arc;

use datafusion::arrow::array::{
    ArrayRef, BooleanArray, Float64Array, Int64Array, StringArray, TimestampMicrosecondArray, UInt64Array,
};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::record_batch::RecordBatch;
use oomscope::export::tables::{self, Chunk, Column, Kind, Values};

/// Columns that tell whose rows they are, behind those of every table.
pub const PARTITION: [&str; 2] = ["job", "rank"];

/// The types of [`PARTITION`].
pub fn partition_types() -> Vec<(String, DataType)> {
    vec![(PARTITION[0].to_owned(), DataType::Utf8), (PARTITION[1].to_owned(), DataType::UInt64)]
}

/// The columns of `table` as they are in a Parquet file.
pub fn file_schema(table: &tables::Schema) -> Schema {
    let field = |column: &tables::ColumnSchema| Field::new(column.name, data_type(column.kind), column.nullable);
    Schema::new(table.columns.iter().map(field).collect::<Vec<_>>())
}

/// The columns of `table` with those of [`PARTITION`].
pub fn schema(table: &tables::Schema) -> SchemaRef {
    let mut fields: Vec<_> = file_schema(table).fields().iter().cloned().collect();
    fields.extend(partition_types().into_iter().map(|(name, kind)| Arc::new(Field::new(name, kind, false))));
    Arc::new(Schema::new(fields))
}

fn data_type(kind: Kind) -> DataType {
    match kind {
        Kind::U64 => DataType::UInt64,
        Kind::I64 => DataType::Int64,
        Kind::F64 => DataType::Float64,
        Kind::Bool => DataType::Boolean,
        Kind::Text => DataType::Utf8,
        Kind::TimeUs => DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into())),
    }
}

/// `chunk` of `table` as a batch of `schema`, which is that of [`schema`], for one rank.
pub fn batch(
    table: &tables::Schema,
    schema: &SchemaRef,
    chunk: &Chunk,
    job: &str,
    rank: u64,
) -> Result<RecordBatch, ArrowError> {
    let columns = chunk.columns.iter().zip(table.columns);
    let mut arrays: Vec<ArrayRef> = columns.map(|(column, schema)| array(column, schema.kind)).collect();
    arrays.push(Arc::new(StringArray::from_iter_values(std::iter::repeat_n(job, chunk.rows))));
    arrays.push(Arc::new(UInt64Array::from_value(rank, chunk.rows)));
    RecordBatch::try_new(schema.clone(), arrays)
}

fn array(column: &Column, kind: Kind) -> ArrayRef {
    match &column.values {
        Values::U64(values) => Arc::new(present(column, values).collect::<UInt64Array>()),
        Values::I64(values) if kind == Kind::TimeUs => {
            Arc::new(present(column, values).collect::<TimestampMicrosecondArray>().with_timezone("UTC"))
        }
        Values::I64(values) => Arc::new(present(column, values).collect::<Int64Array>()),
        Values::F64(values) => Arc::new(present(column, values).collect::<Float64Array>()),
        Values::Bool(values) => Arc::new(present(column, values).collect::<BooleanArray>()),
        Values::Text(texts) => {
            let texts = (0..texts.len()).map(|row| column.is_valid(row).then(|| texts.get(row)));
            Arc::new(texts.collect::<StringArray>())
        }
    }
}

/// The values of `column`, `None` where there is none.
fn present<T: Copy>(column: &Column, values: &[T]) -> impl Iterator<Item = Option<T>> {
    values.iter().enumerate().map(|(row, &value)| column.is_valid(row).then_some(value))
}
