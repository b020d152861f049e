//! What changed from one file to another, in one sentence.
//!
//! reserved = requested + rounding + releasable + stranded + pool-idle in each file, so the change of reserved memory is
//! the sum of the changes of its parts: the part that changed most in the same direction is named as the cause.

use serde::Serialize;

use super::sides::letter;
use crate::analysis::totals::Totals;
use crate::units::bytes;

/// Changes up to this share of the larger figure are none: block sizes differ a little between modes.
const ALIKE: f64 = 0.005;

/// What the comparison of two files came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Conclusion {
    /// The file that is compared.
    pub from: char,
    /// The file that it is compared with.
    pub to: char,
    /// What changed.
    pub kind: Change,
    /// In a sentence.
    pub text: String,
}

/// What explains most of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Every figure is equal.
    None,
    /// As much live and reserved memory.
    Alike,
    /// Live memory.
    Live,
    /// Memory lost inside blocks.
    Rounding,
    /// Idle cache.
    IdleCache,
    /// Free memory next to live blocks.
    Fragmentation,
    /// Free memory in private pools.
    IdlePools,
    /// The parts are not known.
    Unknown,
}

/// One file, as far as the sentence needs it.
pub struct Case<'a> {
    /// Which file.
    pub file: usize,
    /// Its memory at the moment.
    pub totals: &'a Totals,
    /// Whether a request failed.
    pub failed: bool,
    /// In words that go before a colon: `at their peaks`.
    pub when: &'a str,
}

/// Whether two figures are alike.
pub fn alike(a: u64, b: u64) -> bool {
    a.abs_diff(b) as f64 <= a.max(b) as f64 * ALIKE
}

/// The sentence about `a` and `b`. `is_equal` tells that nothing at all differs; `request` is the one that only one of
/// them failed to serve; `line` is the line whose live memory changed most in the direction of the whole, with its bytes
/// before and after.
pub fn conclude(
    a: &Case,
    b: &Case,
    is_equal: bool,
    request: Option<u64>,
    line: Option<(&str, u64, u64)>,
) -> Conclusion {
    let (kind, what) = match is_equal {
        true => (Change::None, "no difference".to_owned()),
        false => memory(a.totals, b.totals, line),
    };
    let (from, to) = (letter(a.file), letter(b.file));
    let failure = match (a.failed, b.failed, request) {
        _ if is_equal => String::new(),
        (true, false, Some(request)) => {
            format!("{to} serves the {} that {from} failed on; before that request: ", bytes(request))
        }
        (false, true, Some(request)) => {
            format!("{to} fails on the {} that {from} serves; before that request: ", bytes(request))
        }
        (true, false, None) => format!("{from} ran out of memory, {to} did not; {}: ", a.when),
        (false, true, None) => format!("{to} ran out of memory, {from} did not; {}: ", a.when),
        (true, true, _) => format!("both ran out of memory; {}: ", a.when),
        (false, false, _) => format!("{}: ", a.when),
    };
    Conclusion { from, to, kind, text: failure + &what }
}

fn memory(a: &Totals, b: &Totals, line: Option<(&str, u64, u64)>) -> (Change, String) {
    let reserved = format!("reserved {}", arrow(a.reserved, b.reserved));
    let is_same = alike(a.requested, b.requested);
    let part = largest_part(a, b);
    if is_same {
        let live = format!("same live memory ({})", bytes(b.requested));
        if alike(a.reserved, b.reserved) {
            return (Change::Alike, format!("{live} and same reserved memory ({})", bytes(b.reserved)));
        }
        let Some((kind, name, before, after)) = part else {
            return (Change::Unknown, format!("{live}, {reserved}; which part of it changed is not known"));
        };
        let turn = if b.reserved < a.reserved { "what was won is" } else { "what was lost is" };
        let figures = if kind == Change::Live { String::new() } else { format!(" ({})", arrow(before, after)) };
        return (kind, format!("{live}, {reserved}: {turn} {name}{figures}"));
    }
    let mut text = format!("live memory {}", arrow(a.active, b.active));
    if let Some((site, before, after)) = line {
        text += &format!(", most of it from {site} ({})", arrow(before, after));
    }
    text += &format!("; {reserved}");
    // What is less than a hundredth of the memory explains nothing.
    let least = a.reserved.max(b.reserved) / 100;
    for (name, a, b) in [
        ("fragmentation", a.stranded, b.stranded),
        ("idle cache", a.releasable, b.releasable),
        ("idle private pools", a.pool_idle, b.pool_idle),
    ] {
        if let Some((a, b)) = a.zip(b).filter(|(a, b)| a.abs_diff(*b) > least) {
            text += &format!(", {name} {}", arrow(a, b));
        }
    }
    (Change::Live, text)
}

/// The part of the reserved memory that changed most in the direction of the whole: its kind, its name, and its bytes.
fn largest_part(a: &Totals, b: &Totals) -> Option<(Change, &'static str, u64, u64)> {
    let parts = [
        (Change::Fragmentation, "fragmentation", a.stranded?, b.stranded?),
        (Change::IdleCache, "idle cache, which empty_cache() gives back", a.releasable?, b.releasable?),
        (Change::IdlePools, "idle memory of private pools", a.pool_idle?, b.pool_idle?),
        (Change::Rounding, "rounding inside blocks", a.rounding?, b.rounding?),
        (Change::Live, "live memory", a.requested, b.requested),
    ];
    let shrinks = b.reserved < a.reserved;
    let size = |(_, _, before, after): &(Change, &str, u64, u64)| {
        let change = i128::from(*after) - i128::from(*before);
        if shrinks { -change } else { change }
    };
    // Among equals the first, whichever file comes first.
    parts.into_iter().reduce(|best, part| if size(&part) > size(&best) { part } else { best })
}

/// `4.54 GiB → 4.19 GiB`.
pub fn arrow(before: u64, after: u64) -> String {
    format!("{} → {}", bytes(before), bytes(after))
}
