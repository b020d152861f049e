//! Files that appear whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::{Mutex, MutexGuard, Once, PoisonError};

use anyhow::{Context, Result, bail};

use super::sources;

/// What to do with a file that is there already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Existing {
    /// Replace it.
    Replace,
    /// Leave it alone and fail.
    Keep,
}

/// The file under construction; removed again unless it was put in place.
struct Partial {
    path: PathBuf,
    is_placed: bool,
    _listed: Listed,
}

/// What an interruption removes, as long as this lives.
pub struct Listed(PathBuf);

/// Files and directories under construction, which an interruption removes.
static PARTIALS: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

/// Exit status of a program that SIGINT or SIGTERM ended, as shells have it for SIGINT.
const INTERRUPTED: i32 = 130;

/// How often it is tried to remove something.
const TRIES: usize = 20;

impl Partial {
    /// Makes the file.
    fn create(path: PathBuf) -> io::Result<(Self, File)> {
        let mut listed = listed();
        let file = File::create(&path)?;
        listed.push(path.clone());
        Ok((Self { path: path.clone(), is_placed: false, _listed: Listed(path) }, file))
    }
}

/// What an interruption removes; it waits while this is held.
fn listed() -> MutexGuard<'static, Vec<PathBuf>> {
    static HANDLER: Once = Once::new();
    // Where no handler can be set, an interruption leaves the partial file, under a name that shows what it is.
    HANDLER.call_once(|| drop(ctrlc::set_handler(interrupted)));
    PARTIALS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has an interruption remove the file or directory `path`, which somebody is about to make, until the answer is
/// dropped.
pub fn remove_when_interrupted(path: PathBuf) -> Listed {
    listed().push(path.clone());
    Listed(path)
}

impl Drop for Listed {
    fn drop(&mut self) {
        PARTIALS.lock().unwrap_or_else(PoisonError::into_inner).retain(|path| *path != self.0);
    }
}

/// Begins the file `path`, unless an interruption has begun to remove what is unfinished: then the program ends here.
pub fn create(path: &Path) -> io::Result<File> {
    let _no_interruption = PARTIALS.lock().unwrap_or_else(PoisonError::into_inner);
    File::create(path)
}

fn interrupted() {
    // Held to the end, so that no other file is begun.
    let partials = PARTIALS.lock().unwrap_or_else(PoisonError::into_inner);
    for path in partials.iter() {
        // A directory that is being filled may get a file more meanwhile.
        let _ =
            (0..TRIES).find(|_| fs::remove_file(path).or_else(|_| fs::remove_dir_all(path)).is_ok() || !path.exists());
    }
    process::exit(INTERRUPTED);
}

impl Drop for Partial {
    fn drop(&mut self) {
        if !self.is_placed {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Whether `path` is `-`, which stands for standard output as it stands for standard input elsewhere.
fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Fails when `path` is an input, or is there and `existing` says to keep it: worth asking before long work.
pub fn check(path: &Path, existing: Existing) -> Result<()> {
    if is_stdout(path) {
        return Ok(());
    }
    sources::protect(path)?;
    if existing == Existing::Keep && fs::symlink_metadata(path).is_ok() && !is_special(path) {
        bail!("{} exists already: name another file, or replace it with --force", path.display());
    }
    Ok(())
}

/// Whether `path` is a pipe or a device.
fn is_special(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|found| !found.is_file() && !found.is_dir())
}

/// Writes what `produce` makes to `path`: under another name in the same directory first, renamed when it is complete.
///
/// A pipe, a device or standard output cannot be replaced; it is written as it is.
pub fn write(path: &Path, existing: Existing, produce: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
    let describe = || format!("cannot write {}: check the directory and the disk space", path.display());
    if is_stdout(path) {
        let mut out = BufWriter::with_capacity(1 << 16, io::stdout().lock());
        produce(&mut out)?;
        return Ok(out.flush()?);
    }
    if is_special(path) {
        let file = OpenOptions::new().write(true).open(path).with_context(describe)?;
        return fill(file, produce).map(drop);
    }
    check(path, existing)?;
    // A link stays a link: the file that it names is replaced.
    let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mut name = target.file_name().with_context(describe)?.to_owned();
    name.push(format!(".{}.part", process::id()));
    let partial = target.with_file_name(name);
    let (mut partial, file) = Partial::create(partial).with_context(describe)?;
    fill(file, produce).with_context(describe)?;
    match existing {
        Existing::Replace => fs::rename(&partial.path, &target).with_context(describe)?,
        Existing::Keep => place_new(&partial.path, &target).with_context(describe)?,
    }
    partial.is_placed = true;
    Ok(())
}

fn fill(file: File, produce: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
    let mut out = BufWriter::with_capacity(1 << 16, file);
    produce(&mut out)?;
    out.flush()?;
    Ok(())
}

/// Gives `partial` the name `target`, unless that was taken meanwhile.
fn place_new(partial: &Path, target: &Path) -> io::Result<()> {
    match fs::hard_link(partial, target) {
        Ok(()) => fs::remove_file(partial),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
        // Some file systems have no links.
        Err(_) => fs::rename(partial, target),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &Path) -> Vec<String> {
        let entries = fs::read_dir(directory).unwrap();
        let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn a_write_that_fails_leaves_nothing_and_the_old_file_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out");
        let broken = |out: &mut dyn Write| {
            out.write_all(&[b'x'; 1 << 17])?;
            bail!("the disk is full")
        };
        assert!(write(&path, Existing::Keep, broken).is_err());
        assert!(names(directory.path()).is_empty());
        fs::write(&path, "old").unwrap();
        assert!(write(&path, Existing::Replace, broken).is_err());
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(names(directory.path()), ["out"]);
    }

    #[test]
    fn files_are_kept_or_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("out");
        let text = |text: &'static str| move |out: &mut dyn Write| Ok(out.write_all(text.as_bytes())?);
        write(&path, Existing::Keep, text("first")).unwrap();
        assert!(write(&path, Existing::Keep, text("second")).unwrap_err().to_string().contains("--force"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "first");
        write(&path, Existing::Replace, text("third")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "third");
        assert_eq!(names(directory.path()), ["out"]);
    }

    #[cfg(unix)]
    #[test]
    fn links_and_devices_stay_what_they_are() {
        let directory = tempfile::tempdir().unwrap();
        let (file, link) = (directory.path().join("file"), directory.path().join("link"));
        fs::write(&file, "old").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        write(&link, Existing::Replace, |out| Ok(out.write_all(b"new")?)).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "new");
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        write(Path::new("/dev/null"), Existing::Keep, |out| Ok(out.write_all(b"new")?)).unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }
}
