//! What a stack is attributed to.
//!
//! A frame is the user's when it is Python and not part of torch, of an installed package, or of the standard
//! library; C++ frames never are. A file that only looks like one of them (`my_torch/train.py`) is the user's.

use std::borrow::Cow;

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

/// Which frames of a snapshot are whose.
pub struct Sites<'a> {
    snapshot: &'a Snapshot,
    owners: Vec<Owner>,
    /// The frame that stands for each frame's group.
    by: By,
    representatives: Vec<FrameId>,
    /// Whether any stack has a Python frame.
    has_python: bool,
}

/// Whose code a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    /// The program that was run.
    User,
    /// An installed package other than torch.
    Package,
    /// Torch or the standard library, in Python.
    Library,
    /// C++ outside torch.
    Native,
    /// C++ that may be outside torch: its file is not known.
    Unplaced,
    /// C++ of torch, the Python interpreter or the C library.
    NativeLibrary,
    /// The engine of the backward pass.
    Autograd,
}

impl<'a> Sites<'a> {
    /// Classifies every frame of `snapshot`, to be grouped `by`.
    pub fn new(snapshot: &'a Snapshot, by: By) -> Self {
        let owners: Vec<Owner> = snapshot.frames.iter().map(|frame| owner(snapshot, frame)).collect();
        let representatives = representatives(snapshot, by);
        let has_python = owners.iter().any(|owner| matches!(owner, Owner::User | Owner::Package));
        Self { snapshot, owners, by, representatives, has_python }
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
        let first = |wanted: Owner| frames.iter().copied().find(|frame| self.owners[frame.index()] == wanted);
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
            .filter(|frame| matches!(self.owners[frame.index()], Owner::User | Owner::Package))
            .map(|frame| Site::Frame(self.representatives[frame.index()]))
            .collect();
        if sites.is_empty() {
            return vec![self.site(stack)];
        }
        sites.sort_unstable();
        sites.dedup();
        sites
    }

    /// The printable name: `train.py:41`, `forward (model.py)`, `model.py`, or the whole stack innermost first.
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

    /// `file:line`, or the function's name where the file is not known.
    fn line_of(&self, frame: FrameId) -> String {
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
                By::File => (nothing, frame.filename, 0),
            };
            *first.entry(key).or_insert(FrameId(id))
        })
        .collect()
}

fn owner(snapshot: &Snapshot, frame: &Frame) -> Owner {
    let filename = snapshot.text(frame.filename);
    let name = snapshot.text(frame.name);
    if is_python(filename) {
        let parts: Vec<&str> = filename.split(['/', '\\']).collect();
        let directories = &parts[..parts.len().saturating_sub(1)];
        let after_packages =
            directories.iter().position(|part| matches!(*part, "site-packages" | "dist-packages")).map(|at| at + 1);
        return match after_packages.and_then(|at| parts.get(at)) {
            Some(package) if is_torch(package) => Owner::Library,
            Some(_) => Owner::Package,
            None if is_standard_library(directories) || filename.starts_with("<frozen ") => Owner::Library,
            // A torch checkout, or paths with their roots stripped (`torch/nn/modules/linear.py`).
            None if directories.first() == Some(&"torch") => Owner::Library,
            None => Owner::User,
        };
    }
    if ENGINE.iter().any(|part| name.contains(part)) {
        return Owner::Autograd;
    }
    let named = name.trim_start_matches("void ");
    let is_library = LIBRARY_NAMES.iter().any(|prefix| named.starts_with(prefix))
        || LIBRARY_PATHS.iter().any(|part| filename.contains(part))
        || RUNTIME_NAMES.contains(&name)
        || (matches!(filename, "" | "??") && matches!(name, "" | "??"));
    match filename {
        _ if is_library => Owner::NativeLibrary,
        // Symbolisers name the wrong function of a library that has no symbols.
        "" | "??" => Owner::Unplaced,
        _ => Owner::Native,
    }
}

/// Parts of names that only the backward pass has on its stack: forward operators are in `torch::autograd` too.
const ENGINE: [&str; 2] = ["torch::autograd::Engine::", "torch::autograd::Node::operator()"];

/// How C++ names of torch, of the C++ library and of the Python interpreter start.
const LIBRARY_NAMES: [&str; 13] = [
    "torch::",
    "at::",
    "c10::",
    "caffe2::",
    "std::",
    "__gnu_cxx::",
    "pybind11::",
    "_Py",
    "Py",
    "cuda",
    "cublas",
    "nccl",
    "THP",
];

/// Parts of the paths of their sources and binaries.
const LIBRARY_PATHS: [&str; 14] = [
    "/torch/",
    "/aten/",
    "/c10/",
    "libtorch",
    "libc10",
    "libpython",
    "libstdc++",
    "libc.so",
    "libpthread",
    "ld-linux",
    "/lib/x86_64-linux-gnu/",
    "/bin/python",
    "Python/",
    "Objects/",
];

/// Functions that start programs and threads.
const RUNTIME_NAMES: [&str; 8] = [
    "_start",
    "__libc_start_main",
    "__libc_start_main_impl",
    "__libc_start_call_main",
    "clone",
    "clone3",
    "start_thread",
    "execute_native_thread_routine",
];

/// Python source, a notebook cell, or text that was executed.
fn is_python(filename: &str) -> bool {
    let file = filename.split(['/', '\\']).next_back().unwrap_or(filename);
    file.ends_with(".py")
        || file.ends_with(".pyx")
        || file.ends_with(".ipynb")
        || (filename.starts_with('<') && filename.ends_with('>') && !filename.contains("unknown"))
}

fn is_torch(package: &str) -> bool {
    matches!(package, "torch" | "torch_npu" | "torch_xla" | "torchgen" | "functorch" | "triton")
}

/// A directory `lib/python3.11` (or `Lib` on Windows, without packages in it).
fn is_standard_library(directories: &[&str]) -> bool {
    directories.windows(2).any(|pair| {
        pair[0].eq_ignore_ascii_case("lib")
            && pair[1].strip_prefix("python").is_some_and(|version| version.starts_with(|c: char| c.is_ascii_digit()))
    }) || matches!(directories, [.., python, "Lib"] | [.., python, "lib"] if python.to_ascii_lowercase().starts_with("python"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_tell_whose_code_it_is() {
        assert!(is_python("/app/train.py") && is_python("<ipython-input-3-abc>") && is_python("<string>"));
        assert!(!is_python("/app/alloc.cpp") && !is_python("??") && !is_python("libtorch.so"));
        assert!(is_standard_library(&["", "usr", "lib", "python3.11", "asyncio"]));
        assert!(is_standard_library(&["C:", "Python311", "Lib"]));
        assert!(!is_standard_library(&["", "home", "lib", "trainer"]));
    }
}
