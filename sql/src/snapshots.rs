//! Snapshots as tables, without an export: each file is read when a query scans a table of it.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::streaming::PartitionStream;
use datafusion::prelude::SessionContext;
use oomscope::analysis::fleet::RankFile;
use oomscope::export::tables::{Source, TableName, chunks};
use oomscope::history::History;
use oomscope::snapshot::{self, LoadOptions, load};

use crate::convert;

/// Batches that wait for the query at most.
const AHEAD: usize = 2;

/// Makes every table of `files` known to `context`, as rows of `job`.
///
/// The files are dealt out to as many partitions as the engine runs at a time; each reads one file after the other, so
/// that the snapshots in memory are no more than the partitions.
pub fn register(context: &SessionContext, job: &str, files: &[RankFile]) -> Result<()> {
    let partitions = context.copied_config().target_partitions().clamp(1, files.len().max(1));
    for table in TableName::ALL {
        let schema = convert::schema(&table.schema());
        let streams = (0..partitions).map(|first| {
            let files = files.iter().skip(first).step_by(partitions).cloned().collect();
            Arc::new(Files { table, schema: schema.clone(), job: job.to_owned(), files }) as Arc<dyn PartitionStream>
        });
        let provider = StreamingTable::try_new(schema.clone(), streams.collect())?;
        context.register_table(table.name(), Arc::new(provider))?;
    }
    Ok(())
}

/// The rows of one table of some files.
#[derive(Debug)]
struct Files {
    table: TableName,
    schema: SchemaRef,
    job: String,
    files: Vec<RankFile>,
}

impl PartitionStream for Files {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let mut builder = RecordBatchReceiverStream::builder(self.schema.clone(), AHEAD);
        let sender = builder.tx();
        let (table, schema, job, files) = (self.table, self.schema.clone(), self.job.clone(), self.files.clone());
        builder.spawn_blocking(move || {
            for file in &files {
                let mut send = |batch| sender.blocking_send(Ok(batch)).is_ok();
                // Whoever reads the rows may have enough of them.
                let goes_on = scan(table, &schema, &job, file, &mut send)
                    .with_context(|| file.file.clone())
                    .map_err(|error| DataFusionError::External(error.into()))?;
                if !goes_on {
                    break;
                }
            }
            Ok(())
        });
        builder.build()
    }
}

/// Sends the rows of `table` of `file`; whether more are wanted.
fn scan(
    table: TableName,
    schema: &SchemaRef,
    job: &str,
    file: &RankFile,
    send: &mut dyn FnMut(datafusion::arrow::record_batch::RecordBatch) -> bool,
) -> Result<bool> {
    let snapshot = load(&snapshot::Source::from_arg(Path::new(&file.file)), &LoadOptions::default())?;
    let rules = &snapshot.settings.rules;
    let histories: Vec<History> =
        snapshot.devices.iter().map(|device| History::new(&snapshot, device, rules)).collect();
    let source = Source::new(&snapshot, &histories);
    let rows = source.table(table);
    for chunk in chunks(&*rows) {
        let batch = convert::batch(&table.schema(), schema, &chunk, job, file.rank.into())?;
        if !send(batch) {
            return Ok(false);
        }
    }
    Ok(true)
}
