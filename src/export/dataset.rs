//! The tables of many snapshots: `TABLE/job=JOB/rank=RANK/part.parquet`, as DataFusion, DuckDB, Spark, Polars and
//! pyarrow read a table with partitions.
//!
//! Each rank has a manifest, `_oomscope/job=JOB/rank=RANK.json`, that names the content of its snapshot, so that a second
//! run reads only what is new. There is no file for the whole dataset: any number of processes may add their ranks at
//! the same time. A file appears whole or not at all, and the manifest last: a rank without one is made again.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::parquet::{Parquet, records};
use super::tables::{OwnedRecord, Record, Source, TableName, VERSION};
use super::{Result, TableFormat};
use crate::analysis::fleet::RankFile;

/// Directory of the manifests.
const MANIFESTS: &str = "_oomscope";

/// Name of the one file of a table and rank.
const PART: &str = "part.parquet";

/// Bytes hashed at a time.
const BUFFER: usize = 1 << 20;

/// The content of a snapshot file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Content {
    /// XXH3-128 of the file's bytes, as hexadecimal text. It tells files apart; it does not stop a forger.
    pub xxh3: String,
    /// Its length.
    pub bytes: u64,
}

impl Content {
    /// Reads the file `path`.
    pub fn of(path: &Path) -> Result<Self> {
        let mut file = File::open(path)?;
        let mut hasher = twox_hash::XxHash3_128::new();
        let mut buffer = vec![0; BUFFER];
        let mut bytes = 0;
        loop {
            match file.read(&mut buffer)? {
                0 => break,
                read => {
                    hasher.write(&buffer[..read]);
                    bytes += read as u64;
                }
            }
        }
        Ok(Self { xxh3: format!("{:032x}", hasher.finish_128()), bytes })
    }
}

/// What a partition was made from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Manifest {
    /// Version of the schema.
    pub tables: u32,
    /// Version of the program.
    pub oomscope: String,
    /// Name of the snapshot file.
    pub file: String,
    /// The node, where the file's name tells it.
    pub node: Option<String>,
    /// Its content.
    pub content: Content,
    /// Whether only a part of the file could be read.
    pub salvaged: bool,
    /// Rows of each table.
    pub rows: BTreeMap<String, u64>,
}

/// One rank of one job.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobRank {
    /// The job.
    pub job: String,
    /// The rank.
    pub rank: u64,
}

/// What there is of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// Nothing, or something that this program did not finish.
    Nothing,
    /// The tables of the same content, made by the same version: there is nothing to do.
    Same(Manifest),
    /// Tables of the same content, made by another version: they can be made again.
    Older,
    /// The tables of another snapshot: to replace them must be asked for.
    Other(Manifest),
}

/// A directory of tables.
#[derive(Clone, Debug)]
pub struct Dataset {
    root: PathBuf,
    create: Create,
}

/// How a file is begun.
pub type Create = fn(&Path) -> std::io::Result<File>;

impl Dataset {
    /// The dataset below `root`, which need not exist.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), create: |path| File::create(path) }
    }

    /// The same, with files begun by `create`: for a caller that must know of each.
    pub fn creating(self, create: Create) -> Self {
        Self { create, ..self }
    }

    /// The directory of the dataset.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Whether there is a dataset below `root`.
    pub fn is_at(root: &Path) -> bool {
        root.join(MANIFESTS).is_dir()
    }

    /// The file of `table` for `rank`.
    pub fn file(&self, table: TableName, rank: &JobRank) -> PathBuf {
        self.place(table.name(), rank)
    }

    fn place(&self, table: &str, rank: &JobRank) -> PathBuf {
        self.root.join(table).join(rank.partition()).join(PART)
    }

    fn manifest_file(&self, rank: &JobRank) -> PathBuf {
        let job = self.root.join(MANIFESTS).join(format!("job={}", encode(&rank.job)));
        job.join(format!("rank={}.json", rank.rank))
    }

    /// The files that [`write`](Self::write) has under construction for `rank`.
    pub fn partials(&self, rank: &JobRank) -> Vec<PathBuf> {
        let tables = TableName::ALL.into_iter().map(|name| self.file(name, rank));
        tables.chain([self.manifest_file(rank)]).map(|target| partial(&target)).collect()
    }

    /// The manifest of `rank`; `None` when there is none that can be read.
    pub fn manifest(&self, rank: &JobRank) -> Option<Manifest> {
        let text = fs::read(self.manifest_file(rank)).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// What there is of `rank`, compared with the snapshot of `content`.
    pub fn find(&self, rank: &JobRank, content: &Content) -> Found {
        match self.manifest(rank) {
            None => Found::Nothing,
            Some(manifest) if manifest.content != *content => Found::Other(manifest),
            Some(manifest) if manifest.tables == VERSION && manifest.oomscope == env!("CARGO_PKG_VERSION") => {
                Found::Same(manifest)
            }
            Some(_) => Found::Older,
        }
    }

    /// Writes the tables of `source`, which was read from `from`, as those of `rank`, in place of what is there.
    pub fn write(
        &self,
        rank: &JobRank,
        source: &Source,
        from: &RankFile,
        content: Content,
        salvaged: bool,
    ) -> Result<Manifest> {
        let mut staged = Staged { files: Vec::new(), create: self.create };
        let mut rows = BTreeMap::new();
        for name in TableName::ALL {
            let table = source.table(name);
            staged.write(self.file(name, rank), |out| Parquet.write(&*table, out))?;
            rows.insert(name.name().to_owned(), table.rows() as u64);
        }
        let manifest = Manifest {
            tables: VERSION,
            oomscope: env!("CARGO_PKG_VERSION").to_owned(),
            file: from.file.clone(),
            node: from.node.clone(),
            content,
            salvaged,
            rows,
        };
        let place = self.manifest_file(rank);
        if place.exists() {
            // From here on until the new one is there the rank counts as not made.
            fs::remove_file(&place)?;
        }
        staged.write(place, |out| Ok(serde_json::to_writer_pretty(out, &manifest)?))?;
        staged.place()?;
        Ok(manifest)
    }

    /// The ranks that there are, by job and rank.
    pub fn ranks(&self) -> Result<Vec<(JobRank, Manifest)>> {
        let mut found = Vec::new();
        for (job, directory) in named(&self.root.join(MANIFESTS), "job=")? {
            for (rank, _) in named(&directory, "rank=")? {
                let Some(Ok(rank)) = rank.strip_suffix(".json").map(str::parse) else { continue };
                let rank = JobRank { job: decode(&job), rank };
                if let Some(manifest) = self.manifest(&rank) {
                    found.push((rank, manifest));
                }
            }
        }
        found.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(found)
    }

    /// The rows of one table of `rank`: the table is that of `R`.
    pub fn read<R: OwnedRecord>(&self, rank: &JobRank) -> Result<Vec<R>> {
        records(&self.place(<R as Record>::SCHEMA.name, rank))
    }
}

impl JobRank {
    /// The directories below a table's.
    fn partition(&self) -> PathBuf {
        Path::new(&format!("job={}", encode(&self.job))).join(format!("rank={}", self.rank))
    }
}

/// Files under construction, to be given their names together; removed when that does not come about.
struct Staged {
    /// Where they are, and what they shall be.
    files: Vec<(PathBuf, PathBuf)>,
    create: Create,
}

impl Staged {
    /// Makes the file that shall be `target`.
    fn write(&mut self, target: PathBuf, produce: impl FnOnce(&mut dyn Write) -> Result<()>) -> Result<()> {
        if let Some(directory) = target.parent() {
            fs::create_dir_all(directory)?;
        }
        let partial = partial(&target);
        let file = (self.create)(&partial)?;
        self.files.push((partial, target));
        let mut out = BufWriter::with_capacity(1 << 16, file);
        produce(&mut out)?;
        Ok(out.flush()?)
    }

    /// Gives all files their names, in the order in which they were made.
    fn place(&mut self) -> Result<()> {
        for (partial, target) in self.files.drain(..) {
            fs::rename(partial, target)?;
        }
        Ok(())
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        for (partial, _) in &self.files {
            // What is not there cannot be removed.
            let _ = fs::remove_file(partial);
        }
    }
}

/// What the file that shall be `target` is called under construction; no two of a process are called the same.
fn partial(target: &Path) -> PathBuf {
    let name = target.file_name().unwrap_or_default().to_string_lossy();
    // Readers of datasets skip names that begin with a dot.
    target.with_file_name(format!(".{name}.{}.part", std::process::id()))
}

/// The entries of `parent` whose names begin with `prefix`: the rest of the name, and the path.
fn named(parent: &Path, prefix: &str) -> Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(parent)? {
        let entry = entry?;
        if let Some(rest) = entry.file_name().to_str().and_then(|name| name.strip_prefix(prefix)) {
            found.push((rest.to_owned(), entry.path()));
        }
    }
    Ok(found)
}

/// `text` as a part of a path: what is not a letter, a digit or one of `-_.` becomes `%XX`, as in URLs.
fn encode(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => encoded.push(byte.into()),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}

fn decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        let hex = |digits: &[u8]| u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok();
        let (byte, next) = match after.get(..2).and_then(hex) {
            Some(byte) if *first == b'%' => (byte, &after[2..]),
            _ => (*first, after),
        };
        bytes.push(byte);
        rest = next;
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_become_one_directory_each() {
        for job in ["pretrain-7b", "a/b", "..", "ä b=c", "100%", ""] {
            let encoded = encode(job);
            assert!(!encoded.contains(['/', '\\', '=', ' ']), "{encoded}");
            assert_eq!(decode(&encoded), job);
        }
    }
}
