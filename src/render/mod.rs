//! Pictures and tables of analysis results. Nothing here computes a figure.

mod draw;
pub mod flame;
pub mod map;
pub mod palette;
pub mod sparkline;
pub mod svg;
pub mod table;
pub mod terminal;
pub mod timeline;
