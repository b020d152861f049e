//! Writing results: to standard output, or to files that appear whole or not at all.

use std::env;
use std::fs;
use std::io::{self, IsTerminal, Write};
use std::path::Path;

use anyhow::{Context, Result};
use serde::Serialize;

use super::atomic::{self, Existing};
use super::input::Loaded;
use super::sources;

/// Every JSON document.
#[derive(Serialize)]
struct Document<'a, T> {
    oomscope: &'static str,
    command: &'static str,
    file: &'a str,
    warnings: Vec<String>,
    #[serde(flatten)]
    result: &'a T,
}

/// `result` of `command` as a JSON text.
pub fn json<T: Serialize>(command: &'static str, loaded: &Loaded, result: &T) -> Result<String> {
    let warnings = loaded.snapshot.warnings.iter().map(ToString::to_string).collect();
    let document = Document { oomscope: env!("CARGO_PKG_VERSION"), command, file: &loaded.path, warnings, result };
    let mut text = serde_json::to_string_pretty(&document)?;
    text.push('\n');
    Ok(text)
}

/// Prints `text`.
pub fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()?;
    Ok(())
}

/// Writes `text` to `path`, in the place of what was there: whole, or not at all.
pub fn write(path: &Path, text: &str) -> Result<()> {
    atomic::write(path, Existing::Replace, |out| Ok(out.write_all(text.as_bytes())?))
}

/// Makes the directory `path`, for files that are written into it.
pub fn make_directory(path: &Path) -> Result<()> {
    sources::protect(path)?;
    fs::create_dir_all(path).with_context(|| format!("cannot make the directory {}", path.display()))
}

/// Columns of the terminal, else those that `COLUMNS` gives; `None` where neither tells.
pub fn width() -> Option<usize> {
    let columns = || env::var("COLUMNS").ok()?.parse().ok().filter(|&columns| columns > 0);
    let terminal = if io::stdout().is_terminal() { terminal_size::terminal_size() } else { None };
    terminal.map(|(columns, _)| columns.0.into()).or_else(columns)
}
