//! Zip archives: a snapshot that somebody zipped, or the container of `torch.save`.

use std::io::{Cursor, Read};

use zip::ZipArchive;

use super::{LoadError, Snapshot};

/// Reads the one snapshot in the archive with `load`. Where the archive breaks off before its table of contents, as it
/// may for `salvage`, the first member that can be a snapshot is taken, as far as it goes.
pub(super) fn with_snapshot(
    bytes: &[u8],
    salvage: bool,
    load: impl FnOnce(Box<dyn Read + '_>) -> Result<Snapshot, LoadError>,
) -> Result<Snapshot, LoadError> {
    let unreadable =
        |error: zip::result::ZipError| LoadError::Archive(format!("is a zip archive that cannot be read: {error}"));
    let mut archive = match ZipArchive::new(Cursor::new(bytes)) {
        Err(_) if salvage => {
            let nothing = || LoadError::Archive("is a zip archive that breaks off before any snapshot".to_owned());
            return load(first_member(bytes).ok_or_else(nothing)?);
        }
        archive => archive.map_err(unreadable)?,
    };
    let names = archive.file_names().filter_map(Result::ok).map(|name| name.into_owned());
    let names: Vec<String> = names.filter(|name| !name.ends_with('/')).collect();
    let member = choose(&names)?.to_owned();
    let file = archive.by_name(&member).map_err(unreadable)?;
    load(Box::new(file))
}

/// The content of the first member that can be a snapshot, by the headers in front of each.
fn first_member(bytes: &[u8]) -> Option<Box<dyn Read + '_>> {
    const HEADER: usize = 30;
    /// The size is only stated behind the content, or in an extra field.
    const UNKNOWN: u32 = u32::MAX;
    let mut rest = bytes;
    loop {
        let header = rest.get(..HEADER).filter(|header| header.starts_with(b"PK\x03\x04"))?;
        let short = |at: usize| usize::from(u16::from_le_bytes([header[at], header[at + 1]]));
        let (flags, method, name, extra) = (short(6), short(8), short(26), short(28));
        let size = u32::from_le_bytes([header[18], header[19], header[20], header[21]]);
        let content = rest.get(HEADER + name + extra..)?;
        let name = String::from_utf8_lossy(&rest[HEADER..HEADER + name]);
        let is_stated = flags & 8 == 0 && size != UNKNOWN;
        let end = if is_stated { (size as usize).min(content.len()) } else { content.len() };
        if is_saved(&name) || is_named_like_a_snapshot(&name) {
            return match method {
                0 => Some(Box::new(&content[..end])),
                8 => Some(Box::new(flate2::bufread::DeflateDecoder::new(&content[..end]))),
                _ => None,
            };
        }
        if !is_stated {
            return None;
        }
        rest = &content[end..];
    }
}

/// torch.save keeps its object in `NAME/data.pkl`, beside bookkeeping files.
fn is_saved(name: &str) -> bool {
    name == "data.pkl" || name.ends_with("/data.pkl")
}

fn is_named_like_a_snapshot(name: &str) -> bool {
    let name = name.trim_end_matches(".gz").trim_end_matches(".zst");
    [".pickle", ".pkl", ".json", ".html"].iter().any(|ending| name.ends_with(ending))
}

/// The member that is the snapshot.
fn choose(names: &[String]) -> Result<&str, LoadError> {
    if let Some(saved) = names.iter().find(|name| is_saved(name)) {
        return Ok(saved);
    }
    let by_name: Vec<&String> = names.iter().filter(|name| is_named_like_a_snapshot(name)).collect();
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
