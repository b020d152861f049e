//! Tables as Parquet files: 64-bit columns, zstd, the logical types that readers show as unsigned integers, text and
//! UTC timestamps.

mod read;
mod write;

pub use read::{ParquetTable, records};
pub use write::Parquet;

/// Key of the schema's version in a file's metadata.
const VERSION_KEY: &str = "oomscope.tables";
