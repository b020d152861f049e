//! Pictures and tables of analysis results. Nothing here computes a figure.

pub mod sparkline;
pub mod table;
pub mod text;
pub mod units;
