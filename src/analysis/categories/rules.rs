//! The user's own categories: a list of patterns and labels in TOML, the first match wins.
//!
//! ```toml
//! [[rule]]
//! match = 'attention\.py'
//! label = "attention"
//! ```

use regex::Regex;
use serde::Deserialize;

use super::super::sites::frame_text;
use super::Category;
use crate::snapshot::{Snapshot, StackId};

/// The user's rules, in order.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    rules: Vec<Rule>,
    /// Distinct labels, in the order of the rules.
    labels: Vec<String>,
}

#[derive(Clone, Debug)]
struct Rule {
    pattern: Regex,
    /// Number in [`Rules::labels`].
    label: u16,
    why: String,
}

/// Why rules cannot be used. The text says what to write.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// No TOML, or not of the expected form.
    #[error("is not a list of rules: write `[[rule]]`, then `match = 'PATTERN'` and `label = \"NAME\"`\n{0}")]
    Form(Box<toml::de::Error>),
    /// A pattern is no regular expression.
    #[error("rule {number}: `match` is no regular expression: {error}")]
    Pattern {
        /// Which rule, counted from 1.
        number: usize,
        /// What is wrong.
        error: Box<regex::Error>,
    },
    /// Nothing to do.
    #[error("has no rule: write `[[rule]]`, then `match = 'PATTERN'` and `label = \"NAME\"`")]
    Empty,
    /// More labels than numbers.
    #[error("has {0} rules; at most 1000 are read")]
    TooMany(usize),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    rule: Vec<FileRule>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct FileRule {
    #[serde(rename = "match")]
    pattern: String,
    label: String,
}

/// Most rules that are read.
const MOST: usize = 1_000;

impl Rules {
    /// Reads rules from a TOML text.
    ///
    /// ```
    /// use oomscope::analysis::categories::Rules;
    ///
    /// let rules = Rules::parse("[[rule]]\nmatch = 'attention\\.py'\nlabel = \"attention\"")?;
    /// assert_eq!(rules.names().collect::<Vec<_>>(), ["attention"]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn parse(text: &str) -> Result<Self, RulesError> {
        let file: File = toml::from_str(text).map_err(|error| RulesError::Form(Box::new(error)))?;
        match file.rule.len() {
            0 => return Err(RulesError::Empty),
            count if count > MOST => return Err(RulesError::TooMany(count)),
            _ => {}
        }
        let mut rules = Self::default();
        for (FileRule { pattern, label }, number) in file.rule.into_iter().zip(1..) {
            let why = format!("rule {number} of the rules file: a frame matches `{pattern}`");
            let pattern =
                Regex::new(&pattern).map_err(|error| RulesError::Pattern { number, error: Box::new(error) })?;
            let known = rules.labels.iter().position(|known| *known == label);
            let at = known.unwrap_or_else(|| {
                rules.labels.push(label);
                rules.labels.len() - 1
            });
            rules.rules.push(Rule { pattern, label: at as u16, why });
        }
        Ok(rules)
    }

    /// Distinct labels, in the order of the rules.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.labels.iter().map(String::as_str)
    }

    /// The rule that each stack falls under, by [`StackId`]; empty without rules.
    pub(super) fn labels(&self, snapshot: &Snapshot) -> Vec<Option<u16>> {
        if self.rules.is_empty() {
            return Vec::new();
        }
        // The first rule that each frame matches; a stack falls under the least of its frames'.
        let first = |text: String| self.rules.iter().position(|rule| rule.pattern.is_match(&text)).map(|at| at as u16);
        let of_frame: Vec<Option<u16>> =
            snapshot.frames.iter().map(|frame| first(frame_text(snapshot, frame))).collect();
        let stacks = (0..snapshot.stacks.len() as u32).map(StackId);
        stacks
            .map(|stack| snapshot.stacks.get(stack).iter().filter_map(|frame| of_frame[frame.index()]).min())
            .collect()
    }

    /// Category number and reason of what falls under rule `rule`.
    pub(super) fn verdict(&self, rule: u16) -> (u16, &str) {
        let rule = &self.rules[rule as usize];
        (Category::ALL.len() as u16 + rule.label, &rule.why)
    }
}
