//! Zip archives: a snapshot that somebody zipped, or the container of `torch.save`.

use std::io::{Cursor, Read};

use zip::ZipArchive;

use super::{LoadError, Snapshot};

/// Reads the one snapshot in the archive with `load`.
pub(super) fn with_snapshot(
    bytes: &[u8],
    load: impl FnOnce(Box<dyn Read + '_>) -> Result<Snapshot, LoadError>,
) -> Result<Snapshot, LoadError> {
    let unreadable =
        |error: zip::result::ZipError| LoadError::Archive(format!("is a zip archive that cannot be read: {error}"));
    let mut archive = ZipArchive::new(Cursor::new(bytes)).map_err(unreadable)?;
    let names = archive.file_names().filter_map(Result::ok).map(|name| name.into_owned());
    let names: Vec<String> = names.filter(|name| !name.ends_with('/')).collect();
    let member = choose(&names)?.to_owned();
    let file = archive.by_name(&member).map_err(unreadable)?;
    load(Box::new(file))
}

/// The member that is the snapshot.
fn choose(names: &[String]) -> Result<&str, LoadError> {
    // torch.save keeps its object in `NAME/data.pkl`, beside bookkeeping files.
    if let Some(saved) = names.iter().find(|name| *name == "data.pkl" || name.ends_with("/data.pkl")) {
        return Ok(saved);
    }
    let by_name: Vec<&String> = names
        .iter()
        .filter(|name| {
            let name = name.trim_end_matches(".gz").trim_end_matches(".zst");
            [".pickle", ".pkl", ".json", ".html"].iter().any(|ending| name.ends_with(ending))
        })
        .collect();
    match (&by_name[..], names) {
        ([one], _) => Ok(one),
        ([], [one]) => Ok(one),
        ([], _) => Err(LoadError::Archive(format!(
            "is a zip archive of {} files, none of which looks like a snapshot: unpack it and name one",
            names.len()
        ))),
        (several, _) => Err(LoadError::Archive(format!(
            "is a zip archive of {} snapshots ({}, {} …): unpack it and name one",
            several.len(),
            several[0],
            several[1]
        ))),
    }
}
