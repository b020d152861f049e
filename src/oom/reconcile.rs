//! The card's memory, line by line: what PyTorch holds, what the process needs besides, what others hold, and what
//! nobody accounts for.

use std::collections::HashMap;

use serde::Serialize;

use super::message::{Message, ProcessUse};
use super::smi::{Gpu, Process, Smi, Use};
use crate::units::bytes;

/// A context of another rank is no larger than this; a process that works has more.
const LARGEST_CONTEXT: u64 = 2 << 30;

/// Where the figures come from.
#[derive(Clone, Copy, Debug, Default)]
pub struct Sources<'a> {
    /// The error text.
    pub message: Option<&'a Message>,
    /// What PyTorch has reserved, by a snapshot.
    pub reserved: Option<u64>,
    /// Free on the device, by a snapshot.
    pub device_free: Option<u64>,
    /// Device ordinal as torch counts.
    pub device: u32,
    /// `nvidia-smi` at the error.
    pub smi: Option<&'a Smi>,
    /// `nvidia-smi` before the start.
    pub before: Option<&'a Smi>,
    /// `CUDA_VISIBLE_DEVICES` of the process.
    pub visible: Option<&'a str>,
}

/// A line of the account.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Line {
    /// What it is.
    pub name: &'static str,
    /// Bytes; `None` is not known.
    pub bytes: Option<u64>,
    /// Where the figure comes from.
    pub source: String,
}

/// The account of one card.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Reconciliation {
    /// The card, then what is subtracted from it.
    pub lines: Vec<Line>,
    /// What is left: negative when the figures are of different moments. `None` without the card's size.
    pub unexplained: Option<i64>,
    /// What is worth saying about it.
    pub notes: Vec<String>,
    /// Held by other processes.
    pub others: Option<u64>,
    /// Held by contexts of other ranks.
    pub sibling_contexts: u64,
    /// Whether a desktop is on the card.
    pub has_desktop: bool,
}

/// Makes the account; nothing when neither a card nor another process is known.
pub fn reconcile(sources: &Sources) -> Option<Reconciliation> {
    let gpu = sources.smi.and_then(|smi| smi.card(sources.device, sources.visible));
    let processes: Vec<&Process> = sources.smi.map_or_else(Vec::new, |smi| smi.processes_on(gpu).collect());
    let text = sources.message;
    let card = either(text.and_then(|m| m.total), "error text", gpu.and_then(|gpu| gpu.total), "nvidia-smi");
    let free = either(sources.device_free, "snapshot", text.and_then(|m| m.free), "error text");
    let free = free.or_else(|| Some((gpu?.free?, "nvidia-smi")));
    let reserved = either(sources.reserved, "snapshot", text.and_then(Message::reserved_in_total), "error text");
    if card.is_none() && processes.is_empty() {
        return None;
    }
    let own = own_use(text, &processes, reserved.map(|(bytes, _)| bytes));
    let context = own
        .as_ref()
        .zip(reserved)
        .map(|((used, source), (reserved, _))| (used.saturating_sub(reserved), source.clone()));
    let others: Vec<(u64, Option<u64>)> = match (&own, sources.smi) {
        _ if !processes.is_empty() => {
            let own_pid = own_pid(text, &processes, reserved.map(|(bytes, _)| bytes));
            processes
                .iter()
                .filter(|process| Some(process.pid) != own_pid)
                .map(|process| (process.pid, process.bytes))
                .collect()
        }
        _ => text.map_or_else(Vec::new, named_others),
    };
    let is_listed = !processes.is_empty() || text.is_some_and(|m| !m.other_processes.is_empty());
    let other_bytes = is_listed.then(|| others.iter().filter_map(|(_, bytes)| *bytes).fold(0, u64::saturating_add));
    let source_of_others = if processes.is_empty() { "error text" } else { "nvidia-smi" };
    let line = |name, found: Option<(u64, &str)>| Line {
        name,
        bytes: found.map(|(bytes, _)| bytes),
        source: found.map_or_else(|| "not known".to_owned(), |(_, source)| source.to_owned()),
    };
    let mut lines = vec![
        line("card", card),
        line("free", free),
        line("reserved by PyTorch", reserved),
        Line {
            name: "context and libraries",
            bytes: context.as_ref().map(|(bytes, _)| *bytes),
            source: context.as_ref().map_or_else(|| "not known".to_owned(), |(_, source)| source.clone()),
        },
        line("other processes", other_bytes.map(|bytes| (bytes, source_of_others))),
    ];
    if let Some(kept) = gpu.and_then(|gpu| gpu.reserved) {
        lines.push(line("kept by the driver", Some((kept, "nvidia-smi"))));
    }
    let known = lines[1..].iter().filter_map(|line| line.bytes);
    let explained = known.fold(0i64, |sum, bytes| sum.saturating_add(i64::try_from(bytes).unwrap_or(i64::MAX)));
    let unexplained = card.map(|(card, _)| i64::try_from(card).unwrap_or(i64::MAX).saturating_sub(explained));
    let siblings = sibling_contexts(&others);
    let has_desktop = processes.iter().any(|process| process.usage != Use::Compute);
    let mut account = Reconciliation {
        lines,
        unexplained,
        notes: Vec::new(),
        others: other_bytes,
        sibling_contexts: siblings.1,
        has_desktop,
    };
    account.notes = notes(sources, gpu, &processes, &account, siblings);
    Some(account)
}

fn either<'a>(first: Option<u64>, name: &'a str, second: Option<u64>, other: &'a str) -> Option<(u64, &'a str)> {
    first.map(|bytes| (bytes, name)).or_else(|| second.map(|bytes| (bytes, other)))
}

/// What the driver counts for this process, and who says so.
fn own_use(text: Option<&Message>, processes: &[&Process], reserved: Option<u64>) -> Option<(u64, String)> {
    if let Some(ProcessUse::Known(bytes)) = text.map(|message| message.process_in_use) {
        return Some((bytes, "error text".to_owned()));
    }
    if let Some(own) = text.and_then(Message::own_process) {
        return Some((own.bytes?, format!("error text, process {} being this one in a container", own.pid)));
    }
    let pid = own_pid(text, processes, reserved)?;
    let process = processes.iter().find(|process| process.pid == pid)?;
    Some((process.bytes?, format!("nvidia-smi, process {pid}")))
}

/// The process of the list that can be this one: large enough for what PyTorch has reserved, and the nearest to it.
fn own_pid(text: Option<&Message>, processes: &[&Process], reserved: Option<u64>) -> Option<u64> {
    let named: Vec<u64> = text.map_or_else(Vec::new, |m| named_others(m).into_iter().map(|(pid, _)| pid).collect());
    let reserved = reserved?;
    let tolerance = 2 * text.map_or(0, |message| message.tolerance);
    let may_be = processes.iter().filter(|process| !named.contains(&process.pid));
    let may_be = may_be.filter_map(|process| Some((process.bytes?, process.pid)));
    may_be.filter(|(bytes, _)| bytes + tolerance >= reserved).min().map(|(_, pid)| pid)
}

fn named_others(message: &Message) -> Vec<(u64, Option<u64>)> {
    let own = message.own_process();
    message.other_processes.iter().filter(|process| Some(**process) != own).map(|p| (p.pid, p.bytes)).collect()
}

/// How many of `others` look like contexts of other ranks, and their bytes: at least three, small, and alike.
fn sibling_contexts(others: &[(u64, Option<u64>)]) -> (usize, u64) {
    let mut sizes: Vec<u64> =
        others.iter().filter_map(|(_, bytes)| *bytes).filter(|&b| b > 0 && b <= LARGEST_CONTEXT).collect();
    sizes.sort_unstable();
    let Some(&median) = sizes.get(sizes.len() / 2) else { return (0, 0) };
    let alike: Vec<u64> = sizes.into_iter().filter(|size| size.abs_diff(median) <= median / 8).collect();
    if alike.len() >= 3 { (alike.len(), alike.iter().sum()) } else { (0, 0) }
}

fn notes(
    sources: &Sources,
    gpu: Option<&Gpu>,
    processes: &[&Process],
    account: &Reconciliation,
    siblings: (usize, u64),
) -> Vec<String> {
    let mut notes = Vec::new();
    if siblings.0 > 0 {
        notes.push(format!(
            "{} other processes hold about {} each: contexts of other ranks that touched this card",
            siblings.0,
            bytes(siblings.1 / siblings.0 as u64)
        ));
    }
    if account.has_desktop {
        notes.push(
            "processes that draw (type G) are on this card: a desktop takes memory that changes with its windows"
                .to_owned(),
        );
    }
    if gpu.is_some_and(|gpu| gpu.is_mig) || processes.iter().any(|process| process.instance.is_some()) {
        notes
            .push("the card is split (MIG): torch sees one instance, and its total is that of the instance".to_owned());
    }
    if sources.smi.is_some() && gpu.is_none() && sources.visible.is_some() {
        notes.push("CUDA_VISIBLE_DEVICES does not lead to a card in the nvidia-smi output".to_owned());
    }
    if account.unexplained.is_some_and(|rest| rest < -(64 << 20)) {
        notes.push("the lines sum to more than the card: they are not of the same moment".to_owned());
    }
    if let (Some(before), Some(now)) = (sources.before, sources.smi) {
        notes.extend(compare(before, now, gpu, sources));
    }
    notes
}

/// What changed on the card from before the start to the error.
fn compare(before: &Smi, now: &Smi, gpu: Option<&Gpu>, sources: &Sources) -> Vec<String> {
    let mut notes = Vec::new();
    let card_before = before.card(sources.device, sources.visible);
    if let (Some(used), Some(then)) = (gpu.and_then(|gpu| gpu.used), card_before.and_then(|gpu| gpu.used)) {
        notes.push(format!("the card's use went from {} before the start to {}", bytes(then), bytes(used)));
    }
    let mut bytes_now: HashMap<u64, Option<u64>> = HashMap::new();
    for process in now.processes_on(gpu) {
        bytes_now.entry(process.pid).or_insert(process.bytes);
    }
    for process in before.processes_on(card_before) {
        if let (Some(now), Some(then)) = (bytes_now.get(&process.pid), process.bytes) {
            notes.push(format!(
                "process {} ({}) was there before the start: {} then, {} now",
                process.pid,
                process.name,
                bytes(then),
                now.map_or_else(|| "unknown".to_owned(), bytes)
            ));
        }
    }
    notes
}
