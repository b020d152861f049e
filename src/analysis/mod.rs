//! One file a question. Results are plain structs: text, JSON and pictures are views of them.

pub mod series;
