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
    /// Distinct labels that are no built-in category, in the order of the rules.
    labels: Vec<String>,
}

#[derive(Clone, Debug)]
struct Rule {
    pattern: Regex,
    /// Number of the category: built-in ones first, then [`Rules::labels`].
    category: u16,
    why: String,
}

/// Why rules cannot be used. The text says what to write.
#[derive(Debug, thiserror::Error)]
pub enum RulesError {
    /// No TOML, or not of the expected form.
    #[error("is not a list of rules: {message}; write `[[rule]]`, then `match = 'PATTERN'` and `label = \"NAME\"`")]
    Form {
        /// What is wrong, and in which line.
        message: String,
    },
    /// A pattern is no regular expression.
    #[error("rule {number}: `{pattern}` is no regular expression: {message}")]
    Pattern {
        /// Which rule, counted from 1.
        number: usize,
        /// Its `match`.
        pattern: String,
        /// What is wrong.
        message: String,
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
        let file: File = toml::from_str(text).map_err(|error| form_error(text, &error))?;
        match file.rule.len() {
            0 => return Err(RulesError::Empty),
            count if count > MOST => return Err(RulesError::TooMany(count)),
            _ => {}
        }
        let mut rules = Self::default();
        for (FileRule { pattern, label }, number) in file.rule.into_iter().zip(1..) {
            let why = format!("rule {number} of the rules file: a frame matches `{pattern}`");
            let pattern = Regex::new(&pattern).map_err(|error| pattern_error(number, &pattern, &error))?;
            let category = rules.category(label);
            rules.rules.push(Rule { pattern, category, why });
        }
        Ok(rules)
    }

    /// The number of the category `label`.
    fn category(&mut self, label: String) -> u16 {
        let own = |at: usize| Category::ALL.len() + at;
        let built_in = Category::ALL.iter().position(|category| category.name() == label);
        let known = built_in.or_else(|| self.labels.iter().position(|known| *known == label).map(own));
        let number = known.unwrap_or_else(|| {
            self.labels.push(label);
            own(self.labels.len() - 1)
        });
        number as u16
    }

    /// Distinct labels that are no built-in category, in the order of the rules.
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
        (rule.category, &rule.why)
    }
}

/// The error with its line, on one line.
fn form_error(text: &str, error: &toml::de::Error) -> RulesError {
    let line = error.span().and_then(|span| text.get(..span.start)).map(|before| before.matches('\n').count() + 1);
    let message = error.message().replace('\n', " ");
    RulesError::Form { message: line.map_or(message.clone(), |line| format!("line {line}: {message}")) }
}

/// The last line of the error: those before draw the pattern.
fn pattern_error(number: usize, pattern: &str, error: &regex::Error) -> RulesError {
    let text = error.to_string();
    let message = text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned();
    RulesError::Pattern { number, pattern: pattern.to_owned(), message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_say_where_and_what_to_write() {
        let error = |text: &str| Rules::parse(text).unwrap_err().to_string();
        assert!(error("").contains("[[rule]]"));
        let wrong = error("[[rule]]\nmatch = '('\nlabel = 'x'");
        assert_eq!(wrong, "rule 1: `(` is no regular expression: unclosed group");
        assert!(error("\n[[rule]]\nlabel = 3").contains("line 3"), "{}", error("\n[[rule]]\nlabel = 3"));
        assert!(error("[[rule]]\nmatch = 'a'\nlabel = 'x'\ncolour = 1").contains("colour"));
        assert!(!error("rule = 3").contains('\n'));
    }

    #[test]
    fn rules_with_one_label_are_one_category() {
        let rule = |pattern: &str, label: &str| format!("[[rule]]\nmatch = '{pattern}'\nlabel = '{label}'\n");
        let rules = Rules::parse(&(rule("a", "x") + &rule("b", "y") + &rule("c", "x"))).unwrap();
        assert_eq!(rules.names().collect::<Vec<_>>(), ["x", "y"]);
        assert_eq!(rules.verdict(2).0, rules.verdict(0).0);
        let built_in = Rules::parse(&rule("a", "KV cache")).unwrap();
        assert_eq!((built_in.verdict(0).0, built_in.names().count()), (Category::KvCache as u16, 0));
    }
}
