//! Snapshots that may be given away: names that tell who ran what, where, are replaced.
//!
//! Paths, the program's own texts (metadata, annotations, tracebacks of the forward pass, what `torch.fx` quotes) and,
//! if asked for, function names get stand-ins, equal ones for equal texts. Left are sizes, addresses, streams and times,
//! and names that are public: of torch, of the standard library and of packages that everybody can install.

mod path;

use std::collections::{BTreeMap, HashMap, HashSet};

use path::Paths;
use serde_json::Value;

use super::role::Role;
use crate::allocator::AllocatorSettings;
use crate::analysis::sites::Sites;
use crate::snapshot::{FrameId, Snapshot, StackId, StrId};

/// The stand-ins for one file.
pub(super) struct Redaction {
    filenames: Vec<String>,
    functions: Vec<String>,
    texts: HashMap<(Role, StrId), String>,
    settings: BTreeMap<String, Value>,
}

impl Redaction {
    /// Stand-ins for the texts of `snapshot`. `start` says from which byte on a file name is written. Function names
    /// stay unless `functions` is set, except for paths in them.
    pub(super) fn new(snapshot: &Snapshot, start: impl Fn(&str) -> usize, functions: bool) -> Self {
        let mut paths = Paths::default();
        let mut stand_ins = HashMap::new();
        let (mut filenames, mut names) = (Vec::new(), Vec::new());
        let forward = forward_lines(snapshot);
        for (id, frame) in (0..).zip(&snapshot.frames) {
            let filename = snapshot.text(frame.filename);
            filenames.push(paths.replace(filename, start(filename)));
            let name = snapshot.text(frame.name);
            let next = stand_ins.len() + 1;
            let mut number = || *stand_ins.entry(name).or_insert(next);
            let is_public = Sites::is_library(snapshot, frame);
            if forward.contains(&FrameId(id)) {
                names.push(format!("forward frame {id}"));
                continue;
            }
            let cut = without_path(name);
            let kept = cut.unwrap_or(name);
            names.push(if !functions || name.is_empty() || PUBLIC_FUNCTIONS.contains(&name) {
                if cut.is_some() { format!("{kept}#{}", number()) } else { name.to_owned() }
            } else if is_public {
                match arguments(kept) {
                    Some(at) => format!("{}#{}", &kept[..at], number()),
                    None if cut.is_some() => format!("{kept}#{}", number()),
                    None => name.to_owned(),
                }
            } else {
                format!("function{}", number())
            });
        }
        Self { filenames, functions: names, texts: texts(snapshot), settings: settings(snapshot) }
    }

    pub(super) fn filename(&self, frame: FrameId) -> &str {
        &self.filenames[frame.index()]
    }

    pub(super) fn function(&self, frame: FrameId) -> &str {
        &self.functions[frame.index()]
    }

    /// The stand-in for `text`; empty when the file has no such text.
    pub(super) fn text(&self, role: Role, text: StrId) -> &str {
        self.texts.get(&(role, text)).map_or("", String::as_str)
    }

    pub(super) fn settings(&self) -> &BTreeMap<String, Value> {
        &self.settings
    }
}

/// The frames that stand for a line of a traceback of the forward pass, which quotes the program.
fn forward_lines(snapshot: &Snapshot) -> HashSet<FrameId> {
    let events = (0..snapshot.events.len()).map(|row| snapshot.events.forward.get(row));
    let blocks = snapshot.blocks.iter().map(|block| block.forward);
    let segments = snapshot.segments.iter().map(|segment| segment.forward);
    let stacks: HashSet<StackId> = events.chain(blocks).chain(segments).collect();
    stacks.into_iter().flat_map(|stack| snapshot.stacks.get(stack)).copied().collect()
}

/// Names that Python itself gives.
const PUBLIC_FUNCTIONS: [&str; 12] = [
    "<module>",
    "<lambda>",
    "<listcomp>",
    "<dictcomp>",
    "<setcomp>",
    "<genexpr>",
    "__init__",
    "__call__",
    "__new__",
    "__enter__",
    "__exit__",
    "??",
];

/// `name` up to a path in it, when it has one: torch 2.0 writes C++ frames as one text.
fn without_path(name: &str) -> Option<&str> {
    let separators = name.match_indices(['/', '\\']).map(|(at, _)| at);
    let first = separators.into_iter().find(|&at| !name[..at].ends_with("operator"))?;
    let start = name[..first].rfind(|c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '(' | ','));
    Some(start.map_or("", |start| &name[..start]))
}

/// Where the arguments of a C++ name begin: they may name types of the program.
fn arguments(name: &str) -> Option<usize> {
    let from = name.find("operator").map_or(0, |at| (at + "operator()".len()).min(name.len()));
    let rest = name.get(from..).unwrap_or_default();
    match name.get(..from).unwrap_or_default().find('<') {
        Some(at) => Some(at),
        None => rest.find(['<', '(']).map(|at| from + at),
    }
}

/// The stand-ins for all texts but names and paths.
fn texts(snapshot: &Snapshot) -> HashMap<(Role, StrId), String> {
    let mut texts = Texts { snapshot, of: HashMap::new(), counts: HashMap::new() };
    let events = &snapshot.events;
    for row in 0..events.len() {
        texts.add(Role::Context, events.compile_context.get(row));
        texts.add(Role::Metadata, events.user_metadata.get(row));
        texts.add(Role::Internal, events.internal_metadata.get(row));
        texts.add(Role::Internal, events.category.get(row));
        texts.add(Role::Action, events.other.get(row));
    }
    for annotation in &snapshot.annotations {
        texts.add(Role::Annotation, annotation.name);
    }
    for (_, key, value) in &snapshot.extras.annotation_pairs {
        texts.add(Role::Text, *key);
        texts.add(Role::Text, *value);
    }
    for fx in snapshot.extras.fx.values() {
        [fx.name, fx.target, fx.original_trace]
            .into_iter()
            .flatten()
            .flatten()
            .for_each(|id| texts.add(Role::Text, id));
        fx.op.into_iter().flatten().for_each(|id| texts.add(Role::Internal, id));
    }
    texts.of
}

struct Texts<'a> {
    snapshot: &'a Snapshot,
    of: HashMap<(Role, StrId), String>,
    counts: HashMap<Role, usize>,
}

impl Texts<'_> {
    fn add(&mut self, role: Role, id: StrId) {
        if id == StrId::default() || self.of.contains_key(&(role, id)) {
            return;
        }
        let text = self.snapshot.text(id);
        let replaced = if is_public(role, text) {
            text.to_owned()
        } else {
            let count = self.counts.entry(role).or_default();
            *count += 1;
            let what = match role {
                Role::Context => "context",
                Role::Metadata => "metadata",
                Role::Annotation => "annotation",
                Role::Action => "action",
                Role::Internal | Role::Text => "text",
            };
            format!("{what} {count}")
        };
        self.of.insert((role, id), replaced);
    }
}

/// Words that torch writes of itself.
const PUBLIC_WORDS: [&str; 17] = [
    "N/A",
    "mallocWithAddress",
    "user_defined",
    "call_function",
    "call_method",
    "call_module",
    "get_attr",
    "placeholder",
    "output",
    "parameter",
    "gradient",
    "activation",
    "temporary",
    "input",
    "autograd_detail",
    "optimizer_state",
    "unknown",
];

/// Whether `text` is torch's own.
fn is_public(role: Role, text: &str) -> bool {
    let numbers =
        |rest: &str| rest.chars().all(|c| c.is_ascii_digit() || matches!(c, '/' | '_' | ' ' | '[' | ']' | '!'));
    match role {
        Role::Context => text == "N/A" || text.strip_prefix("Torch-Compiled Region: ").is_some_and(numbers),
        Role::Annotation => text.strip_prefix("ProfilerStep#").is_some_and(numbers),
        Role::Internal | Role::Action => PUBLIC_WORDS.contains(&text),
        Role::Metadata | Role::Text => false,
    }
}

/// The settings without what is no setting.
fn settings(snapshot: &Snapshot) -> BTreeMap<String, Value> {
    let stated = snapshot.settings.stated.iter();
    let is_word = |text: &str| text.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    stated
        .filter(|(key, _)| is_word(key))
        .map(|(key, value)| {
            let value = match value {
                Value::String(conf) => Value::String(conf_without_strangers(conf)),
                Value::Object(pairs) => {
                    let numbers = pairs.iter().filter(|(key, value)| is_word(key) && value.is_number());
                    Value::Object(numbers.map(|(key, value)| (key.clone(), value.clone())).collect())
                }
                other => other.clone(),
            };
            (key.clone(), value)
        })
        .collect()
}

/// The entries of a configuration string that torch would accept.
fn conf_without_strangers(conf: &str) -> String {
    let mut depth = 0;
    let entries = conf.split(|c| {
        depth += match c {
            '[' => 1,
            ']' => -1,
            _ => 0,
        };
        c == ',' && depth == 0
    });
    let known = entries.filter(|entry| {
        let value = entry.split_once(':').map_or("", |(_, value)| value.trim());
        let is_plain = value.chars().all(|c| c.is_ascii_digit() || "[]:,.->".contains(c));
        let is_word = matches!(value, "True" | "False" | "native" | "cudaMallocAsync");
        (is_plain || is_word) && AllocatorSettings::parse(entry, None).problems.is_empty()
    });
    known.collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_in_names_are_cut() {
        assert_eq!(without_path("c10::alloc() from /home/alice/x.cpp:12"), Some("c10::alloc() from"));
        assert_eq!(without_path("/home/alice/x.cpp"), Some(""));
        assert_eq!(without_path("at::operator/(at::Tensor)"), None);
        assert_eq!(without_path("forward"), None);
    }

    #[test]
    fn arguments_are_told_from_the_name() {
        let kept = |name: &'static str| arguments(name).map(|at| &name[..at]);
        assert_eq!(kept("at::native::add(at::Tensor, acme::T)"), Some("at::native::add"));
        assert_eq!(kept("std::vector<acme::T>::push_back"), Some("std::vector"));
        assert_eq!(kept("torch::autograd::Node::operator()(x)"), Some("torch::autograd::Node::operator()"));
        assert_eq!(kept("cudaMalloc"), None);
    }

    #[test]
    fn strangers_leave_the_configuration() {
        let conf = "max_split_size_mb:64,roundup_power2_divisions:[256:1,>:4],secret:alice,backend:alice,expandable_segments:True";
        let kept = "max_split_size_mb:64,roundup_power2_divisions:[256:1,>:4],expandable_segments:True";
        assert_eq!(conf_without_strangers(conf), kept);
    }

    #[test]
    fn what_torch_says_itself_stays() {
        assert!(is_public(Role::Context, "Torch-Compiled Region: 0/1"));
        assert!(!is_public(Role::Context, "Torch-Compiled Region: /home/alice"));
        assert!(!is_public(Role::Annotation, "ProfilerStep#3 of alice"));
    }
}
