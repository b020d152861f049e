//! The tables of many snapshots: a directory `job=JOB/rank=RANK/TABLE.parquet`, as DuckDB, Spark, Polars and pyarrow
//! read partitions.
//!
//! Each partition has a manifest that names the content of its snapshot, so that a second run reads only what is new.
//! There is no file for the whole dataset: any number of processes may add their ranks at the same time. A partition
//! appears whole or not at all.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, Read, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::parquet::{Parquet, records};
use super::tables::{OwnedRecord, Record, Source, TableName, VERSION};
use super::{Result, TableFormat};

/// Name of the manifest; readers of datasets skip names that begin with an underscore.
const MANIFEST: &str = "_oomscope.json";

/// Ending of a table's file.
const ENDING: &str = "parquet";

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
    /// Its content.
    pub content: Content,
    /// Whether only a part of the file could be read.
    pub salvaged: bool,
    /// Rows of each table.
    pub rows: BTreeMap<String, u64>,
}

/// One rank of one job.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rank {
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
}

impl Dataset {
    /// The dataset below `root`, which need not exist.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into() }
    }

    /// The directory of `rank`.
    pub fn partition(&self, rank: &Rank) -> PathBuf {
        self.root.join(format!("job={}", encode(&rank.job))).join(format!("rank={}", rank.rank))
    }

    /// The manifest of `rank`; `None` when there is none that can be read.
    pub fn manifest(&self, rank: &Rank) -> Option<Manifest> {
        let text = fs::read(self.partition(rank).join(MANIFEST)).ok()?;
        serde_json::from_slice(&text).ok()
    }

    /// What there is of `rank`, compared with the snapshot of `content`.
    pub fn find(&self, rank: &Rank, content: &Content) -> Found {
        match self.manifest(rank) {
            None => Found::Nothing,
            Some(manifest) if manifest.content != *content => Found::Other(manifest),
            Some(manifest) if manifest.tables == VERSION && manifest.oomscope == env!("CARGO_PKG_VERSION") => {
                Found::Same(manifest)
            }
            Some(_) => Found::Older,
        }
    }

    /// The directory that the tables of `rank` are written to before they are put in place.
    pub fn partial(&self, rank: &Rank) -> PathBuf {
        self.beside(rank, "part")
    }

    /// A name that begins with a dot is no partition.
    fn beside(&self, rank: &Rank, what: &str) -> PathBuf {
        let name = format!(".rank={}.{}.{what}", rank.rank, std::process::id());
        self.partition(rank).with_file_name(name)
    }

    /// Writes the tables of `source` as those of `rank`, in place of what is there.
    pub fn write(
        &self,
        rank: &Rank,
        source: &Source,
        file: &str,
        content: Content,
        salvaged: bool,
    ) -> Result<Manifest> {
        let place = self.partition(rank);
        let (partial, old) = (self.partial(rank), self.beside(rank, "old"));
        fs::create_dir_all(&partial)?;
        let written = (|| {
            let mut rows = BTreeMap::new();
            for name in TableName::ALL {
                let table = source.table(name);
                let path = partial.join(file_name(name.name()));
                let mut out = BufWriter::with_capacity(1 << 16, File::create(path)?);
                Parquet.write(&*table, &mut out)?;
                out.flush()?;
                rows.insert(name.name().to_owned(), table.rows() as u64);
            }
            let manifest = Manifest {
                tables: VERSION,
                oomscope: env!("CARGO_PKG_VERSION").to_owned(),
                file: file.to_owned(),
                content,
                salvaged,
                rows,
            };
            fs::write(partial.join(MANIFEST), serde_json::to_vec_pretty(&manifest)?)?;
            let replaces = place.exists();
            if replaces {
                fs::rename(&place, &old)?;
            }
            if let Err(error) = fs::rename(&partial, &place) {
                if replaces {
                    fs::rename(&old, &place)?;
                }
                return Err(error.into());
            }
            Ok(manifest)
        })();
        for leftover in [partial, old] {
            // Only what this run has made; what is not there cannot be removed.
            let _ = fs::remove_dir_all(leftover);
        }
        written
    }

    /// The ranks that there are, by job and rank.
    pub fn ranks(&self) -> Result<Vec<(Rank, Manifest)>> {
        let mut found = Vec::new();
        for (job, directory) in directories(&self.root, "job=")? {
            for (rank, _) in directories(&directory, "rank=")? {
                let Ok(rank) = rank.parse() else { continue };
                let rank = Rank { job: decode(&job), rank };
                if let Some(manifest) = self.manifest(&rank) {
                    found.push((rank, manifest));
                }
            }
        }
        found.sort_by(|(a, _), (b, _)| a.cmp(b));
        Ok(found)
    }

    /// The rows of one table of `rank`: the table is that of `R`.
    pub fn read<R: OwnedRecord>(&self, rank: &Rank) -> Result<Vec<R>> {
        records(&self.partition(rank).join(file_name(<R as Record>::SCHEMA.name)))
    }
}

fn file_name(table: &str) -> String {
    format!("{table}.{ENDING}")
}

/// The directories in `parent` whose names begin with `prefix`: the rest of the name, and the path.
fn directories(parent: &Path, prefix: &str) -> Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(parent)? {
        let entry = entry?;
        let name = entry.file_name();
        if let Some(rest) = name.to_str().and_then(|name| name.strip_prefix(prefix))
            && entry.path().is_dir()
        {
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
