//! Gates as JUnit XML, which CI systems show.

use std::fmt::Write;

use super::svg::escape;
use super::terminal::figure_text;
use crate::analysis::check::{Check, Gate};

/// The gates of `check` on the file `name`: failed ones as failures, those that cannot be judged as errors.
pub fn junit(name: &str, check: &Check) -> String {
    let failures = check.gates.iter().filter(|gate| gate.passed == Some(false)).count();
    let errors = check.gates.iter().filter(|gate| gate.passed.is_none()).count();
    let mut out = head(check.gates.len(), failures, errors);
    for gate in &check.gates {
        let title = format!("device {}: {}", gate.device, gate.name);
        let _ = write!(out, "    <testcase classname=\"{}\" name=\"{}\"", escape(name), escape(&title));
        let why = gate.why.as_deref().unwrap_or_default();
        let element = match gate.passed {
            Some(true) => None,
            Some(false) => Some("failure"),
            None => Some("error"),
        };
        out += &match element {
            None => "/>\n".to_owned(),
            Some(element) => {
                let message = escape(&format!("{}: {why}", figures(gate))).into_owned();
                format!(">\n      <{element} message=\"{message}\"/>\n    </testcase>\n")
            }
        };
    }
    out + TAIL
}

/// A file that could not be read, for the reason `why`.
pub fn junit_unreadable(name: &str, why: &str) -> String {
    let case = format!("    <testcase classname=\"{}\" name=\"the snapshots can be read\">\n", escape(name));
    let error = format!("      <error message=\"{}\"/>\n    </testcase>\n", escape(why));
    head(1, 0, 1) + &case + &error + TAIL
}

fn head(tests: usize, failures: usize, errors: usize) -> String {
    let counts = format!("tests=\"{tests}\" failures=\"{failures}\" errors=\"{errors}\"");
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites {counts}>\n  <testsuite name=\"oomscope check\" {counts}>\n"
    )
}

const TAIL: &str = "  </testsuite>\n</testsuites>\n";

fn figures(gate: &Gate) -> String {
    let figure = gate.b.map_or_else(|| "unknown".to_owned(), figure_text);
    match gate.a {
        Some(before) => format!("{figure}, before {}, allowed {}", figure_text(before), gate.rule),
        None => format!("{figure}, allowed {}", gate.rule),
    }
}
