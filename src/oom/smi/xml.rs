//! `nvidia-smi -q -x`. Only a handful of leaf elements are needed, so tags are looked for by name; nothing is nested
//! under its own name except a MIG device's memory, which comes after the card's.

use super::{Gpu, Process, Smi, Use, mib};

pub(super) fn parse(text: &str) -> Smi {
    let mut smi = Smi::default();
    let mut rest = text;
    while let Some(start) = card(rest) {
        let end = rest[start..].find("</gpu>").map_or(rest.len(), |end| start + end);
        gpu(&rest[start..end], smi.gpus.len() as u32, &mut smi);
        rest = rest.get(end + 1..).unwrap_or_default();
    }
    smi
}

/// Where the next card begins; the elements in it have names such as `gpu_temp`.
fn card(text: &str) -> Option<usize> {
    let mut tags = text.match_indices("<gpu").map(|(at, _)| at);
    tags.find(|at| matches!(text.as_bytes().get(at + "<gpu".len()), Some(b' ' | b'>')))
}

fn gpu(text: &str, index: u32, smi: &mut Smi) {
    // `minor_number` is the device file's, not the index; the order is the index.
    let memory = element(text, "fb_memory_usage").unwrap_or_default();
    let size = |name: &str| element(memory, name).and_then(mib);
    let is_mig = element(text, "current_mig").is_some_and(|mode| mode == "Enabled");
    let bus = text.split_once("id=\"").and_then(|(_, rest)| rest.split_once('"')).map(|(id, _)| id.to_owned());
    smi.gpus.push(Gpu {
        index: Some(index),
        uuid: element(text, "uuid").map(str::to_owned),
        bus,
        name: element(text, "product_name").map(unescaped),
        total: size("total"),
        used: size("used"),
        free: size("free"),
        reserved: size("reserved"),
        is_mig,
    });
    let mut rest = text;
    while let Some((process, behind)) = split(rest, "process_info") {
        rest = behind;
        let number = |name: &str| element(process, name).and_then(|text| text.parse::<u32>().ok());
        if let Some(pid) = element(process, "pid").and_then(|pid| pid.parse().ok()) {
            let usage = match element(process, "type") {
                Some("G") => Use::Graphics,
                Some("C+G") => Use::Both,
                _ => Use::Compute,
            };
            smi.processes.push(Process {
                gpu: Some(index),
                uuid: None,
                pid,
                usage,
                name: element(process, "process_name").map(unescaped).unwrap_or_default(),
                bytes: element(process, "used_memory").and_then(mib),
                instance: number("gpu_instance_id").zip(number("compute_instance_id")),
            });
        }
    }
}

/// The text of the first element of that name.
fn element<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    split(text, name).map(|(inside, _)| inside)
}

/// The same, and what follows the element.
fn split<'a>(text: &'a str, name: &str) -> Option<(&'a str, &'a str)> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    let (inside, behind) = rest.split_once(&format!("</{name}>"))?;
    Some((inside.trim(), behind))
}

fn unescaped(text: &str) -> String {
    [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&apos;", "'"), ("&amp;", "&")]
        .iter()
        .fold(text.to_owned(), |text, (from, to)| text.replace(from, to))
}
