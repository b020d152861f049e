//! The texts of an export.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::Value;

use crate::snapshot::{FrameId, Snapshot, StrId};

/// How the texts of a file are written.
pub struct Names<'a> {
    snapshot: &'a Snapshot,
    /// Taken off the front of file names.
    strip: Option<String>,
}

impl<'a> Names<'a> {
    /// Texts as they are in the file, without the directory `strip` in front of file names.
    pub fn new(snapshot: &'a Snapshot, strip: Option<&str>) -> Self {
        let strip = strip.map(|prefix| prefix.trim_end_matches(['/', '\\']).to_owned());
        Self { snapshot, strip }
    }

    /// The file name of `frame`.
    pub fn filename(&self, frame: FrameId) -> Cow<'a, str> {
        let filename = self.snapshot.text(self.snapshot.frame(frame).filename);
        stripped(filename, self.strip.as_deref()).into()
    }

    /// The function name of `frame`.
    pub fn function(&self, frame: FrameId) -> Cow<'a, str> {
        self.snapshot.text(self.snapshot.frame(frame).name).into()
    }

    /// The settings that the file states.
    pub fn settings(&self) -> Cow<'a, BTreeMap<String, Value>> {
        Cow::Borrowed(&self.snapshot.settings.stated)
    }

    /// Any other text that the program or its compiler gave.
    pub fn text(&self, text: StrId) -> Cow<'a, str> {
        self.snapshot.text(text).into()
    }
}

/// `filename` without the directory `prefix` in front.
fn stripped<'t>(filename: &'t str, prefix: Option<&str>) -> &'t str {
    let Some(rest) = prefix.and_then(|prefix| filename.strip_prefix(prefix)) else { return filename };
    let below = rest.trim_start_matches(['/', '\\']);
    // `/home/a` is no directory of `/home/ab/train.py`.
    if below.is_empty() || below.len() == rest.len() { filename } else { below }
}
