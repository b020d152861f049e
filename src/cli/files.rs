//! Which files a command with many inputs reads.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::sources;
use crate::analysis::fleet::{RankFile, RankPattern, assign, place};

/// Endings of the files that are taken from a directory.
pub const ENDINGS: [&str; 5] = [".pickle", ".pkl", ".pickle.gz", ".pickle.zst", ".pkl.gz"];

/// The snapshots that `arguments` name, in natural order (`rank2` before `rank10`), each once: files as they are named,
/// what lies in directories and below them, what patterns match, and what `@LIST` lists, a name a line.
pub fn expand(arguments: &[PathBuf]) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for argument in arguments {
        let text = argument.to_string_lossy();
        if let Some(list) = text.strip_prefix('@') {
            let names =
                sources::read_text(Path::new(list)).with_context(|| format!("{list}: the list cannot be read"))?;
            let named = names.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
            let before = found.len();
            found.extend(named.map(PathBuf::from));
            ensure!(found.len() > before, "{list}: the list names no file");
        } else if argument.is_dir() {
            let before = found.len();
            below(argument, &mut found)?;
            ensure!(
                found.len() > before,
                "{}: there is no snapshot in it (files ending in {})",
                argument.display(),
                ENDINGS.join(", ")
            );
        } else if !argument.exists() && text.contains(['*', '?', '[']) {
            let matches = glob::glob(&text).with_context(|| format!("{text}: not a pattern for file names"))?;
            let before = found.len();
            for path in matches {
                found.push(path.with_context(|| format!("{text}: cannot be listed"))?);
            }
            ensure!(found.len() > before, "{text}: no file matches it");
        } else {
            found.push(argument.clone());
        }
    }
    found.sort_by_cached_key(|path| natural(&path.to_string_lossy()));
    found.dedup();
    Ok(found)
}

/// The files that `arguments` name with their ranks, and how those were found where it is not obvious.
///
/// `pattern` reads the names; without it they are read as frameworks write them.
pub fn rank_files(arguments: &[PathBuf], pattern: Option<&RankPattern>) -> Result<(Vec<RankFile>, Vec<String>)> {
    let names: Vec<String> = expand(arguments)?.iter().map(|path| path.display().to_string()).collect();
    let read = |name: &String| pattern.map_or_else(|| place(name), |pattern| pattern.place(name));
    let assigned = assign(&names.iter().map(read).collect::<Vec<_>>());
    let files = assigned.files.into_iter().map(|(at, rank, node)| RankFile { rank, node, file: names[at].clone() });
    Ok((files.collect(), assigned.notes))
}

/// The snapshots directly in `directory`, in natural order.
pub fn directly_in(directory: &Path) -> Result<Vec<PathBuf>> {
    let mut found: Vec<PathBuf> =
        entries(directory)?.into_iter().filter(|path| path.is_file() && is_snapshot(path)).collect();
    found.sort_by_cached_key(|path| natural(&path.to_string_lossy()));
    Ok(found)
}

fn below(directory: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    for path in entries(directory)? {
        // A link to a directory may lead back up.
        if path.is_dir() && !path.is_symlink() {
            below(&path, found)?;
        } else if path.is_file() && is_snapshot(&path) {
            found.push(path);
        }
    }
    Ok(())
}

fn entries(directory: &Path) -> Result<Vec<PathBuf>> {
    let describe = || format!("{}: cannot be listed", directory.display());
    let entries = fs::read_dir(directory).with_context(describe)?;
    entries.map(|entry| Ok(entry.with_context(describe)?.path())).collect()
}

fn is_snapshot(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    ENDINGS.iter().any(|ending| name.ends_with(ending))
}

/// A key that orders digits by their number.
fn natural(name: &str) -> Vec<(String, u64)> {
    let mut key = Vec::new();
    let mut rest = name;
    while !rest.is_empty() {
        let text = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        let (head, tail) = rest.split_at(text);
        let digits = tail.find(|c: char| !c.is_ascii_digit()).unwrap_or(tail.len());
        key.push((head.to_owned(), tail[..digits].parse().unwrap_or(u64::MAX)));
        rest = &tail[digits..];
    }
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names_count() {
        let mut names = ["rank10.pickle", "rank2.pickle", "rank.pickle", "a", "rank2b.pickle"];
        names.sort_by_key(|name| natural(name));
        assert_eq!(names, ["a", "rank2.pickle", "rank2b.pickle", "rank10.pickle", "rank.pickle"]);
    }
}
