//! What a query gave, as text or as a file.

use std::io::Write;

use anyhow::Result;
use datafusion::arrow::csv;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::json::ArrayWriter;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::arrow::util::pretty::pretty_format_batches_with_schema;
use datafusion::parquet::arrow::ArrowWriter;

/// How results are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// Columns for people
    Table,
    /// Comma-separated, with a heading
    Csv,
    /// An array with an object a row
    Json,
    /// A Parquet file
    Parquet,
}

/// Writes `batches` of `schema` to `out`.
pub fn write(format: Format, schema: &SchemaRef, batches: &[RecordBatch], mut out: impl Write + Send) -> Result<()> {
    match format {
        Format::Table => {
            let text = pretty_format_batches_with_schema(schema.clone(), batches)?.to_string();
            // Names come from files: what would be obeyed by a terminal is shown instead.
            for line in text.lines() {
                writeln!(out, "{}", oomscope::text::printable(line))?;
            }
        }
        Format::Csv => {
            let mut writer = csv::WriterBuilder::new().with_header(true).build(&mut out);
            writer.write(&RecordBatch::new_empty(schema.clone()))?;
            for batch in batches {
                writer.write(batch)?;
            }
        }
        Format::Json => {
            let mut writer = ArrayWriter::new(&mut out);
            writer.write_batches(&batches.iter().collect::<Vec<_>>())?;
            writer.finish()?;
            drop(writer);
            writeln!(out)?;
        }
        Format::Parquet => {
            let mut writer = ArrowWriter::try_new(&mut out, schema.clone(), None)?;
            for batch in batches {
                writer.write(batch)?;
            }
            writer.close()?;
        }
    }
    Ok(())
}
