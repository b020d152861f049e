//! What a stack is attributed to.
//!
//! A frame is the user's when it is Python and not part of torch, of an installed package, or of the standard
//! library; C++ frames never are. A file that only looks like one of them (`my_torch/train.py`) is the user's.

use std::borrow::Cow;

use regex::Regex;

use super::owner::{Owner, owner};
use crate::history::{History, LifeId};
use crate::snapshot::{Frame, FrameId, Snapshot, StackId};

/// What memory is grouped by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum By {
    /// File and line of the user's innermost frame.
    #[default]
    Line,
    /// File and function of it.
    Function,
    /// Its file.
    File,
    /// Its Python module, as `import` names it.
    Module,
    /// The whole stack.
    Stack,
}

impl By {
    /// The value of `--by`, and of `by` in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Line => "line",
            Self::Function => "function",
            Self::File => "file",
            Self::Module => "module",
            Self::Stack => "stack",
        }
    }
}

/// Shown where no stacks were recorded.
pub const NO_STACK: &str = "(no stack)";
/// Shown for blocks that were there before the trace began and whose stack the file does not have.
pub const BEFORE: &str = "(before the recording)";
/// Shown for blocks allocated in a thread without Python frames while others have them: that of the backward pass.
pub const BACKWARD: &str = "(autograd backward, no Python stack)";

/// What stands for each block without frames, in the order of its slot behind the stacks.
const WITHOUT_FRAMES: [Site; 3] = [Site::NoStack, Site::Before, Site::Backward];

/// A site's place in the order of attribution; equal ones are one row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Site {
    /// A frame that stands for its line, function or file.
    Frame(FrameId),
    /// A whole stack.
    Stack(StackId),
    /// See [`NO_STACK`].
    NoStack,
    /// See [`BEFORE`].
    Before,
    /// See [`BACKWARD`].
    Backward,
}

/// Whose frames are whose, where the caller knows better than the paths. Patterns are searched for in
/// `file:line function`.
#[derive(Clone, Debug, Default)]
pub struct FrameRules {
    /// Frames that match are the user's, and no others.
    pub user: Option<Regex>,
    /// Frames that match are passed over when a site is chosen.
    pub hide: Option<Regex>,
    /// The innermost frame of any kind is the site.
    pub innermost: bool,
}

/// Which frames of a snapshot are whose.
pub struct Sites<'a> {
    snapshot: &'a Snapshot,
    owners: Vec<Owner>,
    /// The frame that stands for each frame's group.
    by: By,
    representatives: Vec<FrameId>,
    /// Frames that are no sites; empty when there are none.
    hidden: Vec<bool>,
    innermost: bool,
    /// Bytes of directory that all files of the user share.
    shared_directory: usize,
    /// Whether any stack has a Python frame.
    has_python: bool,
}

impl<'a> Sites<'a> {
    /// Classifies every frame of `snapshot`, to be grouped `by`.
    pub fn new(snapshot: &'a Snapshot, by: By) -> Self {
        Self::with(snapshot, by, &FrameRules::default())
    }

    /// [`Sites::new`], but where `rules` say otherwise.
    pub fn with(snapshot: &'a Snapshot, by: By, rules: &FrameRules) -> Self {
        let mut owners: Vec<Owner> = snapshot.frames.iter().map(|frame| owner(snapshot, frame)).collect();
        let representatives = representatives(snapshot, by);
        let has_python = owners.iter().any(|owner| matches!(owner, Owner::User | Owner::Package));
        if let Some(user) = &rules.user {
            for (owner, matches) in owners.iter_mut().zip(matching(snapshot, user)) {
                *owner = match *owner {
                    _ if matches => Owner::User,
                    Owner::User | Owner::Package => Owner::Library,
                    other => other,
                };
            }
        }
        let hidden = rules.hide.as_ref().map_or_else(Vec::new, |hide| matching(snapshot, hide));
        let shared_directory = shared_directory(snapshot, &owners);
        Self { snapshot, owners, by, representatives, hidden, innermost: rules.innermost, shared_directory, has_python }
    }

    fn is_hidden(&self, frame: FrameId) -> bool {
        self.hidden.get(frame.index()).copied().unwrap_or(false)
    }

    /// Whether `frame` is the user's, or of an installed package other than torch, and not hidden.
    pub fn is_visible(&self, frame: FrameId) -> bool {
        matches!(self.owners[frame.index()], Owner::User | Owner::Package) && !self.is_hidden(frame)
    }

    /// The snapshot that the sites are of.
    pub fn snapshot(&self) -> &'a Snapshot {
        self.snapshot
    }

    /// Whether `frame` is code of torch, of the standard library or of the system, as nobody's own code is.
    pub fn is_library(snapshot: &Snapshot, frame: &Frame) -> bool {
        matches!(owner(snapshot, frame), Owner::Library | Owner::NativeLibrary | Owner::Autograd)
    }

    /// Number of slots that [`Sites::slot`] gives.
    pub fn slots(&self) -> usize {
        self.snapshot.stacks.len() + WITHOUT_FRAMES.len()
    }

    /// A dense number for what `life` is attributed to: its stack, or why it has none.
    pub fn slot(&self, history: &History, life: LifeId) -> usize {
        let stack = history.lives.stack(life);
        if stack.has_frames() {
            return stack.index();
        }
        let is_traced = history.lives.alloc_event(life).is_some();
        let site = match (is_traced, stack) {
            (false, _) if history.health.recorded => Site::Before,
            (true, StackId::EMPTY) if self.has_python => Site::Backward,
            _ => Site::NoStack,
        };
        let at = WITHOUT_FRAMES.iter().position(|&other| other == site).unwrap_or(0);
        self.snapshot.stacks.len() + at
    }

    /// The site of what `slot` stands for.
    pub fn of_slot(&self, slot: usize) -> Site {
        match slot.checked_sub(self.snapshot.stacks.len()) {
            Some(at) => WITHOUT_FRAMES[at.min(WITHOUT_FRAMES.len() - 1)],
            None => self.site(StackId(slot as u32)),
        }
    }

    /// The site that `life` is attributed to.
    pub fn of_life(&self, history: &History, life: LifeId) -> Site {
        self.of_slot(self.slot(history, life))
    }

    /// Whether `frame` is Python, whoever's.
    pub fn is_python(&self, frame: FrameId) -> bool {
        matches!(self.owners[frame.index()], Owner::User | Owner::Package | Owner::Library)
    }

    /// The site that `frame` belongs to.
    pub fn of_frame(&self, frame: FrameId) -> Site {
        Site::Frame(self.representatives[frame.index()])
    }

    /// How sites are grouped.
    pub fn by(&self) -> By {
        self.by
    }

    /// The site of `stack`: the innermost frame of the user; where there is none, of a package, then of any other
    /// Python code, then of C++ code that is neither torch's nor the system's.
    pub fn site(&self, stack: StackId) -> Site {
        let frames = self.snapshot.stacks.get(stack);
        if frames.is_empty() {
            return Site::NoStack;
        }
        if self.by == By::Stack {
            return Site::Stack(stack);
        }
        if self.innermost {
            let innermost = frames.iter().copied().find(|&frame| !self.is_hidden(frame)).unwrap_or(frames[0]);
            return Site::Frame(self.representatives[innermost.index()]);
        }
        let first = |wanted: Owner| {
            frames.iter().copied().find(|&frame| self.owners[frame.index()] == wanted && !self.is_hidden(frame))
        };
        let found = first(Owner::User).or_else(|| first(Owner::Package)).or_else(|| first(Owner::Library));
        match found {
            Some(frame) => Site::Frame(self.representatives[frame.index()]),
            None => match first(Owner::Native) {
                Some(frame) => Site::Frame(self.representatives[frame.index()]),
                None if first(Owner::Autograd).is_some() => Site::Backward,
                None => {
                    let frame = first(Owner::Unplaced).unwrap_or(frames[0]);
                    Site::Frame(self.representatives[frame.index()])
                }
            },
        }
    }

    /// Every distinct site on what `slot` stands for: what memory is counted under when it is counted inclusively.
    pub fn on_slot(&self, slot: usize) -> Vec<Site> {
        let stack = StackId(slot as u32);
        if slot >= self.snapshot.stacks.len() || self.by == By::Stack {
            return vec![self.of_slot(slot)];
        }
        let frames = self.snapshot.stacks.get(stack).iter();
        let mut sites: Vec<Site> = frames
            .filter(|&&frame| if self.innermost { !self.is_hidden(frame) } else { self.is_visible(frame) })
            .map(|frame| Site::Frame(self.representatives[frame.index()]))
            .collect();
        if sites.is_empty() {
            return vec![self.site(stack)];
        }
        sites.sort_unstable();
        sites.dedup();
        sites
    }

    /// The printable name: `train.py:41`, `forward (model.py)`, `model.py`, `pkg.model`, or the whole stack innermost
    /// first.
    pub fn name(&self, site: Site) -> Cow<'a, str> {
        let frame = match site {
            Site::NoStack => return NO_STACK.into(),
            Site::Before => return BEFORE.into(),
            Site::Backward => return BACKWARD.into(),
            Site::Stack(stack) => {
                let frames = self.snapshot.stacks.get(stack).iter();
                let lines: Vec<String> = frames.map(|&frame| self.line_of(frame)).collect();
                return lines.join(" < ").into();
            }
            Site::Frame(frame) => frame,
        };
        match self.by {
            By::Function => {
                let Frame { name, filename, .. } = self.snapshot.frame(frame);
                format!("{} ({})", self.snapshot.text(name), self.snapshot.text(filename)).into()
            }
            By::File => self.snapshot.text(self.snapshot.frame(frame).filename).into(),
            By::Module => self.module_of(frame).into(),
            By::Line | By::Stack => self.line_of(frame).into(),
        }
    }

    /// The frames of `stack` in words, innermost first: `file:line function`.
    pub fn frames(&self, stack: StackId) -> Vec<String> {
        let frames = self.snapshot.stacks.get(stack).iter();
        let words = |&frame| {
            let line = self.line_of(frame);
            match self.snapshot.text(self.snapshot.frame(frame).name) {
                name if name.is_empty() || line == name => line,
                name => format!("{line} {name}"),
            }
        };
        frames.map(words).collect()
    }

    /// Those of [`Sites::frames`] that are the user's or an installed package's, innermost first.
    pub fn own_frames(&self, stack: StackId) -> Vec<String> {
        let is_own = |frame: &FrameId| matches!(self.owners[frame.index()], Owner::User | Owner::Package);
        let frames = self.snapshot.stacks.get(stack).iter().zip(self.frames(stack));
        frames.filter(|(frame, _)| is_own(frame)).map(|(_, words)| words).collect()
    }

    /// What `import` would name the file of `frame`: dots for the directories below `site-packages` or, in the
    /// program's own files, below the directory that all of them share.
    fn module_of(&self, frame: FrameId) -> String {
        let filename = self.snapshot.text(self.snapshot.frame(frame).filename);
        let after = ["site-packages/", "dist-packages/"].iter().find_map(|part| filename.split_once(part));
        let path = match after {
            Some((_, path)) => path,
            None if self.owners[frame.index()] == Owner::User => {
                filename.get(self.shared_directory..).unwrap_or(filename)
            }
            None => filename,
        };
        let Some(stem) = path.strip_suffix(".py") else { return path.to_owned() };
        stem.strip_suffix("/__init__").unwrap_or(stem).trim_start_matches('/').replace(['/', '\\'], ".")
    }

    /// `file:line`, or the function's name where the file is not known.
    pub fn line_of(&self, frame: FrameId) -> String {
        let Frame { name, filename, line } = self.snapshot.frame(frame);
        match self.snapshot.text(filename) {
            _ if line == 0 && !self.snapshot.text(name).is_empty() => self.snapshot.text(name).to_owned(),
            "" | "??" => self.snapshot.text(name).to_owned(),
            filename => format!("{filename}:{line}"),
        }
    }

    /// The function of a site that is one frame.
    pub fn function(&self, site: Site) -> Option<&'a str> {
        match site {
            Site::Frame(frame) if self.by == By::Line => {
                Some(self.snapshot.text(self.snapshot.frame(frame).name)).filter(|name| !name.is_empty())
            }
            _ => None,
        }
    }
}

/// For each frame the first frame with the same line, function or file.
fn representatives(snapshot: &Snapshot, by: By) -> Vec<FrameId> {
    let mut first = std::collections::HashMap::new();
    let frames = snapshot.frames.iter().zip(0..);
    frames
        .map(|(frame, id)| {
            let nothing = Default::default();
            let key = match by {
                // C++ frames of one unknown file differ by name only.
                By::Line | By::Stack if frame.line == 0 => (frame.name, frame.filename, 0),
                By::Line | By::Stack => (nothing, frame.filename, frame.line),
                By::Function => (frame.name, frame.filename, 0),
                By::File | By::Module => (nothing, frame.filename, 0),
            };
            *first.entry(key).or_insert(FrameId(id))
        })
        .collect()
}

/// Which frames match `pattern`.
fn matching(snapshot: &Snapshot, pattern: &Regex) -> Vec<bool> {
    snapshot.frames.iter().map(|frame| pattern.is_match(&frame_text(snapshot, frame))).collect()
}

/// What patterns are searched for in: `file:line function`.
pub fn frame_text(snapshot: &Snapshot, frame: &Frame) -> String {
    format!("{}:{} {}", snapshot.text(frame.filename), frame.line, snapshot.text(frame.name))
}

/// Which stacks have a frame that `pattern` matches, by [`StackId`].
pub fn stacks_under(snapshot: &Snapshot, pattern: &Regex) -> Vec<bool> {
    let frames = matching(snapshot, pattern);
    let stacks = (0..snapshot.stacks.len() as u32).map(StackId);
    stacks.map(|stack| snapshot.stacks.get(stack).iter().any(|frame| frames[frame.index()])).collect()
}

/// Length of the directory that all of the user's files lie in.
fn shared_directory(snapshot: &Snapshot, owners: &[Owner]) -> usize {
    let mut shared: Option<&str> = None;
    for (frame, _) in snapshot.frames.iter().zip(owners).filter(|(_, owner)| **owner == Owner::User) {
        let filename = snapshot.text(frame.filename);
        let Some(end) = filename.rfind('/') else { continue };
        let directory = &filename[..=end];
        shared = Some(match shared {
            None => directory,
            Some(before) => {
                let equal = before.bytes().zip(directory.bytes()).take_while(|(a, b)| a == b).count();
                let end = before.as_bytes()[..equal].iter().rposition(|&byte| byte == b'/');
                end.map_or("", |end| &before[..=end])
            }
        });
    }
    shared.map_or(0, str::len)
}
