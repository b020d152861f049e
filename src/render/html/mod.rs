//! The post-mortem as one page that needs nothing else: no network, no library, no font.
//!
//! Everything that can be is rendered here; the script (`page.js`) draws the timeline and sorts tables, with data from a
//! JSON element. A content security policy admits that one script and that one style sheet by their hashes and nothing
//! else, so that no text from a file can run or load anything, whatever it is.

mod cells;
mod data;
mod device;
mod file;
mod flame;
mod fleet;
mod leaks;
mod memory;
mod strings;
mod tables;
mod verdict;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::analysis::closeup::CloseUp;
use crate::analysis::report::Report;
use cells::shown;
pub use fleet::{FleetInput, fleet_page};

const STYLE: &str = include_str!("page.css");
const SCRIPT: &str = include_str!("page.js");

/// Devices that are shown; the others are counted.
pub const DEVICES: usize = 16;

/// The page is at most this many bytes.
pub const LIMIT: usize = 5_000_000;

/// What a page shows.
pub struct Input<'a> {
    /// The file's name.
    pub name: &'a str,
    /// What had to be left unread of it, in a sentence.
    pub salvaged: Option<String>,
    /// What else looked wrong.
    pub warnings: Vec<String>,
    /// The post-mortem.
    pub report: &'a Report,
    /// Its first devices from close up.
    pub close_ups: &'a [CloseUp],
}

/// How much is shown: names and rows are bounded, and what depends on them with them.
#[derive(Clone, Copy)]
struct Detail {
    /// Rows of one table.
    rows: usize,
    /// Whether there are a timeline and a map.
    pictures: bool,
}

/// The page for `input`: at most [`LIMIT`] bytes, for which pictures are left out where names are enormous.
pub fn page(input: &Input) -> String {
    let rows = (600 / input.report.devices.len().clamp(1, DEVICES)).min(200);
    let full = render(input, Detail { rows, pictures: true });
    if full.len() <= LIMIT {
        return full;
    }
    render(input, Detail { rows: 10, pictures: false })
}

fn render(input: &Input, detail: Detail) -> String {
    let report = input.report;
    let shown_devices = &report.devices[..report.devices.len().min(DEVICES)];
    let data = data::Data::new(shown_devices, if detail.pictures { input.close_ups } else { &[] });
    let title = format!("{} – oomscope", shown(input.name));
    let is_first_open = |at: usize| at == 0;
    let body = html! {
        (head(input))
        main #main {
            @if let Some(salvaged) = &input.salvaged { p.alert role="note" { (shown(salvaged)) } }
            @if !detail.pictures {
                p.alert role="note" { "The names in this file are so long that pictures and most rows are left out here; oomscope's other commands have them." }
            }
            @if report.devices.is_empty() {
                section.card { p { "No memory is reserved and nothing was recorded. Was the snapshot taken in the process that used the GPU?" } }
            }
            @for (at, one) in shown_devices.iter().enumerate() {
                (device::device(&device::Input {
                    at,
                    report,
                    device: one,
                    close_up: input.close_ups.get(at).filter(|_| detail.pictures),
                    is_alone: report.devices.len() == 1,
                    is_open: is_first_open(at),
                    rows: detail.rows,
                }))
            }
            @if report.devices.len() > DEVICES {
                p.note { (report.devices.len() - DEVICES) " more devices are not shown: choose one with --device." }
            }
            (file::file(&report.info, &input.warnings))
        }
    };
    document(&title, body, "the file", &data)
}

/// A page with `body`, which was made from `source`.
fn document(title: &str, body: Markup, source: &str, data: &data::Data) -> String {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta http-equiv="Content-Security-Policy" content=(policy());
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                meta name="generator" content={ "oomscope " (env!("CARGO_PKG_VERSION")) };
                meta name="referrer" content="no-referrer";
                title { (title) }
                style { (PreEscaped(STYLE)) }
            }
            body {
                a.skip href="#main" { "Skip to the report" }
                (body)
                footer { "Made by oomscope " (env!("CARGO_PKG_VERSION")) " from " (source) " alone. Sizes are binary (1 MiB = 1 048 576 B). This page loads nothing and sends nothing." }
                div #tip role="tooltip" hidden {}
                script #data type="application/json" { (PreEscaped(data.json())) }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    }
    .into_string()
}

fn head(input: &Input) -> Markup {
    html! {
        header {
            div.brand { "oomscope" }
            h1 title=(shown(input.name)) { (shown(input.name)) }
            p.facts { (crate::render::terminal::facts(input.report)) }
        }
    }
}

/// Admits the page's own style sheet and script, by what they are, and nothing else.
fn policy() -> String {
    let hash = |text: &str| STANDARD.encode(hmac_sha256::Hash::hash(text.as_bytes()));
    format!(
        "default-src 'none'; style-src 'sha256-{}'; script-src 'sha256-{}'; base-uri 'none'; form-action 'none'",
        hash(STYLE),
        hash(SCRIPT)
    )
}
