//! What rows stand for: sites, or a property of each block.

use std::collections::HashMap;

use super::super::sites::{BEFORE, Site, Sites};
use super::{Attribution, Key};
use crate::history::{History, LifeId};
use crate::snapshot::{PoolId, StrId};

/// What rows stand for.
pub enum Groups<'a> {
    /// Frames and stacks.
    Sites(&'a Sites<'a>),
    /// Something else that each block has.
    Lives(LifeGroups),
}

/// A group for each block.
#[derive(Clone, Debug, PartialEq)]
pub struct LifeGroups {
    /// The value of `--by`, and of `by` in JSON.
    pub by: &'static str,
    /// Group of each life: an index of `names`.
    pub of_life: Vec<u32>,
    /// Names of the groups.
    pub names: Vec<String>,
    /// What is to be known about them.
    pub note: Option<String>,
}

impl Groups<'_> {
    /// The value of `--by`.
    pub fn by(&self) -> &'static str {
        match self {
            Self::Sites(sites) => sites.by().name(),
            Self::Lives(groups) => groups.by,
        }
    }

    pub(super) fn note(&self) -> Option<String> {
        match self {
            Self::Sites(_) => None,
            Self::Lives(groups) => groups.note.clone(),
        }
    }

    /// Number of slots that [`Groups::slot`] gives.
    pub fn slots(&self) -> usize {
        match self {
            Self::Sites(sites) => sites.slots(),
            Self::Lives(groups) => groups.names.len(),
        }
    }

    /// A dense number for what `life` is counted under.
    pub fn slot(&self, history: &History, life: LifeId) -> usize {
        match self {
            Self::Sites(sites) => sites.slot(history, life),
            Self::Lives(groups) => groups.of_life[life as usize] as usize,
        }
    }

    pub(super) fn keys(&self, slot: usize, attribution: Attribution) -> Vec<Key> {
        match (self, attribution) {
            (Self::Sites(sites), Attribution::Own) => vec![Key::Site(sites.of_slot(slot))],
            (Self::Sites(sites), Attribution::Inclusive) => sites.on_slot(slot).into_iter().map(Key::Site).collect(),
            (Self::Lives(_), _) => vec![Key::Group(slot as u32)],
        }
    }

    pub(super) fn name(&self, key: Key) -> String {
        match (self, key) {
            (Self::Sites(sites), Key::Site(site)) => sites.name(site).into_owned(),
            (Self::Lives(groups), Key::Group(group)) => groups.names[group as usize].clone(),
            _ => String::new(),
        }
    }

    pub(super) fn function(&self, key: Key) -> Option<String> {
        match (self, key) {
            (Self::Sites(sites), Key::Site(site)) => sites.function(site).map(str::to_owned),
            _ => None,
        }
    }

    pub(super) fn frames(&self, key: Key) -> Option<Vec<String>> {
        match (self, key) {
            (Self::Sites(sites), Key::Site(Site::Stack(stack))) => Some(sites.frames(stack)),
            _ => None,
        }
    }
}

/// Gives names their numbers in the order in which they come.
#[derive(Default)]
struct Names {
    names: Vec<String>,
    numbers: HashMap<String, u32>,
}

impl Names {
    fn number(&mut self, name: &str) -> u32 {
        if let Some(&number) = self.numbers.get(name) {
            return number;
        }
        let number = self.names.len() as u32;
        self.names.push(name.to_owned());
        self.numbers.insert(name.to_owned(), number);
        number
    }
}

/// Blocks by the stream that they were allocated on.
pub fn streams(history: &History) -> LifeGroups {
    let pointers = &history.snapshot.streams;
    let names = pointers.iter().map(|&pointer| match pointer {
        0 => "0x0 (default stream)".to_owned(),
        pointer => format!("{pointer:#x}"),
    });
    let lives = &history.lives;
    LifeGroups {
        by: "stream",
        of_life: lives.ids().map(|life| lives.get(life).stream.0).collect(),
        names: names.collect(),
        note: None,
    }
}

/// Blocks by the pool that they lie in: the default one, or that of a CUDA graph or a `MemPool`.
pub fn pools(history: &History) -> LifeGroups {
    let names = history.snapshot.pools.iter().zip(0..).map(|(&(a, b), id)| match PoolId(id) {
        PoolId::DEFAULT => "default pool".to_owned(),
        _ => format!("private pool {a},{b}"),
    });
    let of_life = history.pools_of_lives().into_iter().map(|pool| pool.0).collect();
    LifeGroups { by: "pool", of_life, names: names.collect(), note: None }
}

/// Shown for blocks outside every annotated region.
const UNMARKED: &str = "(outside annotations)";

/// Blocks by the innermost annotated region (`record_function`, `ProfilerStep#N`) that was open when they were
/// allocated; where there is none, by the text of `_set_memory_metadata`.
pub fn annotations(history: &History) -> LifeGroups {
    let snapshot = history.snapshot;
    let mut marks: Vec<_> = snapshot.annotations.iter().collect();
    marks.sort_by_key(|mark| mark.time_us);
    let mut marks = marks.into_iter().peekable();
    let mut open: Vec<StrId> = Vec::new();
    let mut names = Names::default();
    let mut of_life = vec![names.number(BEFORE); history.lives.len()];
    let unmarked = names.number(UNMARKED);
    let has_metadata = snapshot.events.user_metadata.is_used();
    for event in 0..history.events() {
        let time = history.time_us(event).unwrap_or(0);
        while let Some(mark) = marks.next_if(|mark| mark.time_us <= time) {
            if mark.starts {
                open.push(mark.name);
            } else if let Some(at) = open.iter().rposition(|&name| name == mark.name) {
                open.remove(at);
            }
        }
        let Some(life) = history.lives.of_event(event).filter(|&life| history.lives.alloc_event(life) == Some(event))
        else {
            continue;
        };
        let metadata = snapshot.events.user_metadata.get(history.row(event));
        of_life[life as usize] = match open.last() {
            Some(&name) => names.number(snapshot.text(name)),
            None if metadata != StrId::default() => names.number(snapshot.text(metadata)),
            None => unmarked,
        };
    }
    let none = snapshot.annotations.is_empty() && !has_metadata;
    let note = none.then(|| {
        "the file has no annotations: mark regions with torch.profiler.record_function (torch 2.5 or newer)".to_owned()
    });
    LifeGroups { by: "annotation", of_life, names: names.names, note }
}

/// Shown for blocks that no compiled region allocated.
const NOT_COMPILED: &str = "(outside torch.compile)";

/// Blocks by the region of `torch.compile` that allocated them.
pub fn compile_regions(history: &History) -> LifeGroups {
    let snapshot = history.snapshot;
    let regions = &snapshot.events.compile_context;
    let mut names = Names::default();
    let mut of_life = vec![names.number(BEFORE); history.lives.len()];
    let outside = names.number(NOT_COMPILED);
    let mut number_of: HashMap<StrId, u32> = HashMap::new();
    for life in history.lives.ids() {
        let Some(event) = history.lives.alloc_event(life) else { continue };
        let region = regions.get(history.row(event));
        of_life[life as usize] = *number_of.entry(region).or_insert_with(|| match snapshot.text(region) {
            "" | "N/A" => outside,
            name => names.number(name),
        });
    }
    let note = (!regions.is_used()).then(|| {
        "the file names no compiled regions: torch 2.8 or newer records them, with compile_context=True".to_owned()
    });
    LifeGroups { by: "compile-region", of_life, names: names.names, note }
}
