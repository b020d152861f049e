//! Results as text for a terminal.

mod check;
mod diff;
mod directory;
mod figures;
mod fitting;
pub(in crate::render) mod fleet;
mod info;
mod leaks;
mod memory;
pub(in crate::render) mod names;
mod pinning;
mod report;
mod segment_table;
mod segments;
mod stacks;
mod top;
mod verdict;
mod whatif;

pub use check::{check, figure_text};
pub use diff::{DiffFile, diff};
pub use directory::{FileDevice, FileRow, directory};
pub use fleet::fleet;
pub use info::{headline, info};
pub(in crate::render) use leaks::live_column;
pub use leaks::{LeakOptions, compared, leaks, leaks_in_short};
pub(in crate::render) use report::facts;
pub use report::report;
pub use segments::segments;
pub use stacks::tree;
pub(in crate::render) use top::percents;
pub use top::{heading, top};
pub use verdict::{account, chronology, message, others, remedies, verdict};
pub(in crate::render) use verdict::{names as remedy_names, spread};
pub(in crate::render) use whatif::until;
pub use whatif::{requests, whatif};

use crate::allocator::PoolKind;
use crate::history::Moment;
use crate::text::printable;
use crate::units::{bytes, count, number_of};

/// A figure, or what stands for one that is not known.
pub(in crate::render) fn known(figure: Option<u64>) -> String {
    figure.map_or_else(|| "unknown".to_owned(), bytes)
}

/// `moment` in words: `at the OOM, event 1 803`.
pub(in crate::render) fn moment_text(moment: &Moment) -> String {
    let event = moment.event.map(|event| count(event.into()));
    match (moment.what, event) {
        ("oom", Some(event)) => format!("at the OOM, event {event}"),
        ("peak", Some(event)) => format!("at the peak, event {event}"),
        ("peak", None) => "at the peak, the start of the trace".to_owned(),
        ("event", Some(event)) => format!("after event {event}"),
        ("event", None) => "before the first event".to_owned(),
        _ => "at the end".to_owned(),
    }
}

/// `table`, which is indented, with `title` of its first heading out at the margin.
fn titled(table: &str, title: &str) -> String {
    table.replacen(&format!("  {title}"), &format!("{title}  "), 1)
}

/// The size class, and which private pool.
pub(in crate::render) fn pool_text(kind: PoolKind, pool: Option<&str>) -> String {
    let kind = match kind {
        PoolKind::Small => "small",
        PoolKind::Large => "large",
    };
    pool.map_or_else(|| kind.to_owned(), |pool| format!("{kind} ({pool})"))
}

/// `text` behind `first`, wrapped at words, continued under its beginning.
fn paragraph(first: &str, text: &str, width: usize) -> String {
    let indent = first.chars().count();
    let room = width.saturating_sub(indent).max(30);
    let mut out = first.to_owned();
    let mut used = 0;
    for word in crate::text::words(&printable(text)) {
        let length = crate::text::width(word);
        if used > 0 && used + 1 + length > room {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent));
            used = 0;
        } else if used > 0 {
            out.push(' ');
            used += 1;
        }
        out += word;
        used += length;
    }
    out.push('\n');
    out
}
