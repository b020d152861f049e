//! SQL over the tables of many snapshots.
//!
//! The same queries run on snapshots, which are read when a query wants them, on a dataset of Parquet files, and on a
//! Ballista cluster that sees the dataset on a shared file system. The engine is DataFusion; nothing here plans or
//! executes anything itself.

pub mod convert;
pub mod dataset;
pub mod queries;
pub mod results;
pub mod snapshots;

use datafusion::prelude::{SessionConfig, SessionContext};

/// A session that shows columns and tables by `SHOW`.
pub fn config() -> SessionConfig {
    SessionConfig::new().with_information_schema(true)
}

/// An embedded engine.
pub fn embedded() -> SessionContext {
    SessionContext::new_with_config(config())
}
