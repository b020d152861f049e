//! Pictures and tables of analysis results. Nothing here computes a figure.

mod draw;
pub mod flame;
pub mod fleet;
pub mod html;
pub mod junit;
pub mod map;
pub mod markdown;
pub mod palette;
pub mod sparkline;
pub mod svg;
pub mod table;
pub mod terminal;
pub mod timeline;
