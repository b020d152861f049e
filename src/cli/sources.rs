//! Files that are read, over which nothing may be written.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Result, bail};

/// What a file is known by, however it is named.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Identity {
    /// Its path without links.
    path: PathBuf,
    /// Device and inode, which hard links share.
    #[cfg(unix)]
    number: (u64, u64),
}

impl Identity {
    /// That of the regular file at `path`; `None` for standard input, for pipes and devices, and where there is none.
    fn of(path: &Path) -> Option<Self> {
        let metadata = fs::metadata(path).ok().filter(fs::Metadata::is_file)?;
        #[cfg(unix)]
        let number = {
            use std::os::unix::fs::MetadataExt;
            (metadata.dev(), metadata.ino())
        };
        #[cfg(not(unix))]
        let _ = metadata;
        Some(Self {
            path: fs::canonicalize(path).ok()?,
            #[cfg(unix)]
            number,
        })
    }

    fn is_same(&self, other: &Self) -> bool {
        #[cfg(unix)]
        if self.number == other.number {
            return true;
        }
        self.path == other.path
    }
}

/// The files that were named as inputs so far.
static READ: Mutex<Vec<Identity>> = Mutex::new(Vec::new());

/// Notes that `path` is an input, before it is read: [`protect`] keeps it from being written over, whether or not it
/// can be read.
pub fn note(path: &Path) {
    let Some(identity) = Identity::of(path) else { return };
    let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    if !read.contains(&identity) {
        read.push(identity);
    }
}

/// The content of the input `path`.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    note(path);
    fs::read(path)
}

/// The content of the input `path`, which is text.
pub fn read_text(path: &Path) -> io::Result<String> {
    note(path);
    fs::read_to_string(path)
}

/// Fails when `output` is one of the inputs, under whatever name.
pub fn protect(output: &Path) -> Result<()> {
    let Some(wanted) = Identity::of(output) else { return Ok(()) };
    let read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    if read.iter().any(|input| input.is_same(&wanted)) {
        bail!("{} is an input of this command and is not written over: name another output", output.display());
    }
    Ok(())
}
