//! The memory map.

use std::fs::File;
use std::io;

use memmap2::{Advice, Mmap};

/// Maps `file` for reading from front to back; `None` when it is empty.
pub(super) fn map(file: &File) -> io::Result<Option<Mmap>> {
    if file.metadata()?.len() == 0 {
        return Ok(None);
    }
    // SAFETY: the map is read only, and nothing borrowed from it outlives the load. If another process cuts the file
    // short meanwhile, touching the lost pages raises SIGBUS, which ends the process: memory stays sound.
    #[allow(unsafe_code)]
    let map = unsafe { Mmap::map(file)? };
    // Only a hint: a file system may not support it.
    let _ = map.advise(Advice::Sequential);
    Ok(Some(map))
}
