//! Live memory of each line in each file.

use std::collections::BTreeMap;
use std::str::FromStr;

use serde::ser::{Serialize, SerializeMap, Serializer};

use super::sides::{delta, letter};
use crate::analysis::ranking::{Attribution, live};
use crate::analysis::sites::Sites;
use crate::history::{History, Moment};

/// A path that was renamed between the files: `OLD=NEW`. Both are whole parts of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Renamed {
    old: String,
    new: String,
}

/// Why a text is no renaming.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is no renaming: write OLD=NEW, two paths or ends of paths such as old/model.py=new/model.py")]
pub struct RenamedError(String);

impl FromStr for Renamed {
    type Err = RenamedError;

    fn from_str(text: &str) -> Result<Self, RenamedError> {
        let parts = text.split_once('=').map(|(old, new)| (old.trim_end_matches('/'), new.trim_end_matches('/')));
        match parts {
            Some((old, new)) if !old.is_empty() && !new.is_empty() => Ok(Self { old: old.into(), new: new.into() }),
            _ => Err(RenamedError(text.to_owned())),
        }
    }
}

impl Renamed {
    /// The name of a site with the old path in it replaced.
    fn apply(&self, site: String) -> String {
        let starts = |before: &str| before.is_empty() || before.ends_with(['/', '\\', '(', ' ']);
        let ends = |after: &str| after.is_empty() || after.starts_with(['/', '\\', ':', ')']);
        let found = site.match_indices(&self.old).find(|(at, _)| {
            starts(&site[..*at])
                && ends(&site[at + self.old.len()..])
                && (!self.old.starts_with('/') || !is_inner(&site, *at))
        });
        match found {
            Some((at, _)) => format!("{}{}{}", &site[..at], self.new, &site[at + self.old.len()..]),
            None => site,
        }
    }
}

/// Whether an absolute path at `at` would be the continuation of another.
fn is_inner(site: &str, at: usize) -> bool {
    site[..at].ends_with(['/', '\\'])
}

/// One line's live memory in each file.
#[derive(Clone, Debug, PartialEq)]
pub struct SiteRow {
    /// Name of the site.
    pub site: String,
    /// Bytes in each file.
    pub bytes: Vec<u64>,
    /// Blocks in each file.
    pub blocks: Vec<u64>,
}

impl SiteRow {
    /// Bytes in the last file less those in the first.
    pub fn delta(&self) -> i64 {
        delta(self.bytes.first().copied().unwrap_or(0), self.bytes.last().copied().unwrap_or(0))
    }

    /// The file that alone has it.
    pub fn only_in(&self) -> Option<usize> {
        let mut with = self.blocks.iter().enumerate().filter(|(_, blocks)| **blocks > 0);
        let (first, _) = with.next()?;
        with.next().is_none().then_some(first)
    }

    /// Whether every file has as much of it.
    pub fn is_equal(&self) -> bool {
        self.bytes.windows(2).all(|pair| pair[0] == pair[1]) && self.blocks.windows(2).all(|pair| pair[0] == pair[1])
    }
}

impl Serialize for SiteRow {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(None)?;
        map.serialize_entry("site", &self.site)?;
        for (at, (bytes, blocks)) in self.bytes.iter().zip(&self.blocks).enumerate() {
            map.serialize_entry(&format!("{}_bytes", letter(at)), bytes)?;
            map.serialize_entry(&format!("{}_blocks", letter(at)), blocks)?;
        }
        map.serialize_entry("delta", &self.delta())?;
        map.serialize_entry("only_in", &self.only_in().map(letter))?;
        map.end()
    }
}

/// The sites that differ between the files, and how many are equal in all of them.
#[derive(Clone, Debug, PartialEq)]
pub struct SiteRows {
    /// The largest change first.
    pub rows: Vec<SiteRow>,
    /// How many sites are equal in every file.
    pub equal: usize,
    /// Bytes of those.
    pub equal_bytes: u64,
    /// Whether any site is in the first file and the last.
    pub related: bool,
}

/// Compares the live memory of `files` by site, paths renamed as `renamed` says.
pub fn site_rows(files: &[(&History, &Sites, Moment)], renamed: &[Renamed]) -> SiteRows {
    let mut found: BTreeMap<String, SiteRow> = BTreeMap::new();
    for (at, (history, sites, moment)) in files.iter().enumerate() {
        for row in live(history, *moment, sites, Attribution::Own).rows {
            let name = renamed.iter().fold(row.site, |site, renamed| renamed.apply(site));
            let none = || vec![0; files.len()];
            let entry = found.entry(name.clone());
            let entry = entry.or_insert_with(|| SiteRow { site: name, bytes: none(), blocks: none() });
            entry.bytes[at] += row.bytes;
            entry.blocks[at] += row.blocks;
        }
    }
    let last = files.len().saturating_sub(1);
    let related = found.is_empty() || found.values().any(|row| row.blocks[0] > 0 && row.blocks[last] > 0);
    let (equal, mut rows): (Vec<SiteRow>, Vec<SiteRow>) = found.into_values().partition(SiteRow::is_equal);
    rows.sort_by(|a, b| {
        let size = |row: &SiteRow| (row.delta().unsigned_abs(), row.bytes.iter().max().copied());
        size(b).cmp(&size(a)).then_with(|| a.site.cmp(&b.site))
    });
    SiteRows { equal: equal.len(), equal_bytes: equal.iter().filter_map(|row| row.bytes.first()).sum(), rows, related }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn renamed(rule: &str, site: &str) -> String {
        rule.parse::<Renamed>().unwrap().apply(site.to_owned())
    }

    #[test]
    fn whole_parts_of_a_path_are_renamed() {
        assert_eq!(renamed("/home/a=/mnt/b", "/home/a/train.py:3"), "/mnt/b/train.py:3");
        assert_eq!(renamed("train.py=main.py", "/home/a/train.py:3"), "/home/a/main.py:3");
        assert_eq!(renamed("train.py=main.py", "/home/a/my_train.py:3"), "/home/a/my_train.py:3");
        assert_eq!(renamed("/a=/b", "/home/a/x.py:1"), "/home/a/x.py:1");
        assert_eq!(renamed("/home/a/=/b/", "step (/home/a/x.py)"), "step (/b/x.py)");
        for wrong in ["", "a", "=b", "a="] {
            assert!(wrong.parse::<Renamed>().is_err(), "{wrong}");
        }
    }
}
