//! The Parquet files that `oomscope export --format parquet --tables` wrote, partitioned by job and rank.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, Result};
use datafusion::datasource::file_format::parquet::ParquetFormat;
use datafusion::datasource::listing::{ListingOptions, ListingTable, ListingTableConfig, ListingTableUrl};
use datafusion::prelude::SessionContext;
use oomscope::export::tables::TableName;

use crate::convert;

/// Makes every table of the dataset below `root` known to `context`. On a cluster `root` must be the same place for all
/// executors.
pub fn register(context: &SessionContext, root: &Path) -> Result<()> {
    let root = root.canonicalize().with_context(|| root.display().to_string())?;
    for table in TableName::ALL {
        let directory = root.join(table.name());
        let url = format!("{}/", directory.display());
        let options = ListingOptions::new(Arc::new(ParquetFormat::default()))
            .with_file_extension(".parquet")
            .with_table_partition_cols(convert::partition_types());
        // The schema is known, so that a table without files is an empty one.
        let config = ListingTableConfig::new(ListingTableUrl::parse(&url)?)
            .with_listing_options(options)
            .with_schema(Arc::new(convert::file_schema(&table.schema())));
        context.register_table(table.name(), Arc::new(ListingTable::try_new(config)?))?;
    }
    Ok(())
}
