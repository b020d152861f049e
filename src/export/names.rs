//! The texts of an export.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::Value;

use super::redact::Redaction;
use super::role::Role;
use crate::snapshot::{FrameId, Snapshot, StrId};

/// How texts are changed.
#[derive(Clone, Debug, Default)]
pub struct NameOptions {
    /// Directory to take off the front of file names.
    pub strip_prefix: Option<String>,
    /// Replace what tells who ran what, where.
    pub redact: bool,
    /// Replace the program's function names too.
    pub redact_functions: bool,
}

/// The texts of a file as they are exported.
pub struct Names<'a> {
    snapshot: &'a Snapshot,
    strip: Option<String>,
    redaction: Option<Redaction>,
}

impl<'a> Names<'a> {
    /// The texts of `snapshot` under `options`.
    pub fn new(snapshot: &'a Snapshot, options: &NameOptions) -> Self {
        let strip = options.strip_prefix.as_ref().map(|prefix| prefix.trim_end_matches(['/', '\\']).to_owned());
        let start = |filename: &str| start(filename, strip.as_deref());
        let redacted = options.redact || options.redact_functions;
        let redaction = redacted.then(|| Redaction::new(snapshot, start, options.redact_functions));
        Self { snapshot, strip, redaction }
    }

    /// The file name of `frame`.
    pub fn filename(&self, frame: FrameId) -> Cow<'_, str> {
        if let Some(redaction) = &self.redaction {
            return redaction.filename(frame).into();
        }
        let filename = self.snapshot.text(self.snapshot.frame(frame).filename);
        filename[start(filename, self.strip.as_deref())..].into()
    }

    /// The function name of `frame`; of a stack of the forward pass, its line of the traceback.
    pub fn function(&self, frame: FrameId) -> Cow<'_, str> {
        match &self.redaction {
            Some(redaction) => redaction.function(frame).into(),
            None => self.snapshot.text(self.snapshot.frame(frame).name).into(),
        }
    }

    /// A text of the program or of torch.
    pub fn text(&self, role: Role, text: StrId) -> Cow<'_, str> {
        match &self.redaction {
            Some(redaction) => redaction.text(role, text).into(),
            None => self.snapshot.text(text).into(),
        }
    }

    /// The settings that the file states.
    pub fn settings(&self) -> &BTreeMap<String, Value> {
        self.redaction.as_ref().map_or(&self.snapshot.settings.stated, Redaction::settings)
    }
}

/// Where `filename` begins behind the directory `prefix`; 0 when it is not in it.
fn start(filename: &str, prefix: Option<&str>) -> usize {
    let Some(rest) = prefix.and_then(|prefix| filename.strip_prefix(prefix)) else { return 0 };
    let below = rest.trim_start_matches(['/', '\\']);
    // `/home/a` is no directory of `/home/ab/train.py`.
    if below.is_empty() || below.len() == rest.len() { 0 } else { filename.len() - below.len() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_stripped_whole() {
        let of = |filename: &'static str| &filename[start(filename, Some("/home/a"))..];
        assert_eq!(of("/home/a/train.py"), "train.py");
        assert_eq!(of("/home/ab/train.py"), "/home/ab/train.py");
        assert_eq!(of("/home/a"), "/home/a");
        assert_eq!(of("??"), "??");
    }
}
