//! What the script works with, as one JSON element.

use std::collections::HashMap;

use serde::Serialize;

use super::cells::{hex, name, paint_of};
use super::strings::Strings;
use crate::analysis::closeup::{CloseUp, Past};
use crate::analysis::instants::Instant;
use crate::analysis::report::DeviceReport;
use crate::analysis::ribbons::Ribbon;
use crate::analysis::series::{self, MarkKind};
use crate::render::palette::{self, Paint};
use crate::render::timeline::Drawn;
use crate::snapshot::StackId;

/// Columns of the timelines of all devices.
const COLUMNS: usize = 3_200;
/// Bands of one device.
const BANDS: usize = 24;
/// Failures and steps of one device that are marked.
const MARKS: usize = 50;
const STEPS: usize = 200;

/// The data of a page. Positions are event numbers; −1 stands for what is not known or is not there.
#[derive(Serialize)]
pub struct Data {
    strings: Vec<String>,
    /// Name, function, colour, stack, number of stacks, pattern.
    sites: Vec<Site>,
    /// Frames, and how many are left out.
    stacks: Vec<(Vec<u32>, usize)>,
    /// `null` for a device without history.
    devices: Vec<Option<Device>>,
}

type Site = (u32, Option<u32>, String, i64, u64, Option<Pattern>);

/// Kind and colour.
type Pattern = (String, String);

#[derive(Serialize)]
struct Device {
    ordinal: i64,
    events: u32,
    /// The state that the report is about.
    moment: u32,
    /// Edges of the columns: one more than columns.
    edges: Vec<u64>,
    bands: Vec<Band>,
    reserved: Vec<u64>,
    capacity: Option<u64>,
    marks: Vec<Mark>,
    instants: Vec<At>,
    ribbons: Vec<Block>,
    others: u64,
    rest: Vec<u64>,
}

#[derive(Serialize)]
struct Band {
    site: Option<u32>,
    colour: String,
    pattern: Option<Pattern>,
    values: Vec<u64>,
}

#[derive(Serialize)]
struct Mark {
    kind: MarkKind,
    x: u64,
    label: String,
}

/// State, microseconds since the first instant, reserved, live bytes, live blocks, other bytes, other blocks, other
/// sites; then site, bytes and blocks of each named site.
#[derive(Serialize)]
struct At(u32, i64, u64, u64, u64, u64, u64, u64, Vec<(u32, u64, u64)>);

/// Site, stack, address, bytes, requested, born, freed, done, microseconds.
#[derive(Serialize)]
struct Block(u32, i64, String, u64, u64, i64, i64, i64, i64);

/// What is being collected.
#[derive(Default)]
struct Collector {
    strings: Strings,
    sites: Vec<Site>,
    site_numbers: HashMap<String, u32>,
    stacks: Vec<(Vec<u32>, usize)>,
    stack_numbers: HashMap<StackId, u32>,
}

impl Data {
    /// The data of the devices that are seen from close up.
    pub fn new(devices: &[DeviceReport], close_ups: &[CloseUp]) -> Self {
        let mut collector = Collector::default();
        let columns = COLUMNS / close_ups.len().max(1);
        let devices = devices.iter().zip(close_ups);
        let devices = devices.map(|(device, close_up)| collector.device(device, close_up.past.as_ref()?, columns));
        let devices = devices.collect();
        let Collector { strings, sites, stacks, .. } = collector;
        Self { strings: strings.into_list(), sites, stacks, devices }
    }

    /// As text that nothing can break out of: no `<`, so no tag ends or begins in it.
    pub fn json(&self) -> String {
        let json = serde_json::to_string(self).unwrap_or_else(|_| "null".to_owned());
        json.replace('<', "\\u003c").replace('>', "\\u003e").replace('&', "\\u0026")
    }
}

impl Collector {
    fn device(&mut self, device: &DeviceReport, past: &Past, columns: usize) -> Option<Device> {
        let series = device.series.as_ref()?;
        let drawn = Drawn::new(series, columns, BANDS);
        // Sites with a band have its colour everywhere.
        let paints = palette::paints(drawn.bands.iter().map(|band| band.site.as_deref()));
        for (band, paint) in drawn.bands.iter().zip(&paints) {
            if let Some(name) = &band.site {
                self.site(name, band.detail.as_deref(), Some(*paint));
            }
        }
        let named: Vec<u32> = past
            .instants
            .sites
            .iter()
            .map(|site| {
                let number = self.site(&site.site, site.function.as_deref(), None);
                let stack = site.stack.map_or(-1, |stack| self.stack(past, stack));
                let row = &mut self.sites[number as usize];
                (row.3, row.4) = (stack, site.stacks);
                number
            })
            .collect();
        let bands = drawn.bands.into_iter().zip(paints).map(|(band, paint)| Band {
            site: band.site.as_ref().and_then(|name| self.site_numbers.get(name).copied()),
            colour: hex(paint.colour),
            pattern: pattern(paint),
            values: band.values,
        });
        let bands = bands.collect();
        let first_time = past.instants.instants.iter().find_map(|instant| instant.time_us);
        let instants = past.instants.instants.iter().map(|instant| at(instant, &named, first_time)).collect();
        let ribbons = past.ribbons.ribbons.iter().map(|ribbon| self.block(past, ribbon)).collect();
        Some(Device {
            ordinal: series.device,
            events: past.instants.instants.last().map_or(0, |instant| instant.state),
            moment: device.at.state,
            edges: drawn.edges.iter().map(|&edge| drawn.x0 + edge as u64).collect(),
            bands,
            reserved: drawn.reserved,
            capacity: device.capacity.or(series.capacity),
            marks: marks(&series.marks),
            instants,
            ribbons,
            others: past.ribbons.others,
            rest: past.ribbons.rest.clone(),
        })
    }

    fn site(&mut self, name: &str, function: Option<&str>, paint: Option<Paint>) -> u32 {
        if let Some(&number) = self.site_numbers.get(name) {
            return number;
        }
        let number = self.sites.len() as u32;
        let paint = paint.unwrap_or_else(|| paint_of(name));
        let function = function.map(|function| self.strings.number(function));
        self.sites.push((self.strings.number(name), function, hex(paint.colour), -1, 0, pattern(paint)));
        self.site_numbers.insert(name.to_owned(), number);
        number
    }

    fn stack(&mut self, past: &Past, id: StackId) -> i64 {
        if let Some(&number) = self.stack_numbers.get(&id) {
            return i64::from(number);
        }
        let Some(stack) = past.stacks.get(&id) else { return -1 };
        let number = self.stacks.len() as u32;
        let frames = stack.frames.iter().map(|frame| self.strings.number(frame)).collect();
        self.stacks.push((frames, stack.left_out));
        self.stack_numbers.insert(id, number);
        i64::from(number)
    }

    fn block(&mut self, past: &Past, ribbon: &Ribbon) -> Block {
        let or_none = |state: Option<u32>| state.map_or(-1, i64::from);
        Block(
            self.site(&ribbon.site, None, None),
            self.stack(past, ribbon.stack),
            format!("{:#x}", ribbon.address),
            ribbon.bytes,
            ribbon.requested,
            or_none(ribbon.born_at),
            or_none(ribbon.freed_at),
            or_none(ribbon.done_at),
            ribbon.lasted_us.map_or(-1, |us| us as i64),
        )
    }
}

/// The last failures, the peak, and as many steps as can be told apart.
fn marks(marks: &[series::Mark]) -> Vec<Mark> {
    let of = |kind| marks.iter().filter(move |mark| mark.kind == kind);
    let steps = of(MarkKind::Step).count().div_ceil(STEPS).max(1);
    let chosen = of(MarkKind::Oom).rev().take(MARKS).chain(of(MarkKind::Peak)).chain(of(MarkKind::Step).step_by(steps));
    chosen.map(|mark| Mark { kind: mark.kind, x: mark.x, label: name(&mark.label) }).collect()
}

fn pattern(paint: Paint) -> Option<Pattern> {
    paint.pattern.map(|pattern| (format!("{:?}", pattern.kind), hex(pattern.ink)))
}

fn at(instant: &Instant, named: &[u32], first_time: Option<u64>) -> At {
    let time = instant.time_us.zip(first_time).map_or(-1, |(time, first)| time.saturating_sub(first) as i64);
    let sites = instant.sites.iter().map(|(site, tally)| (named[*site as usize], tally.bytes, tally.blocks)).collect();
    At(
        instant.state,
        time,
        instant.reserved,
        instant.total.bytes,
        instant.total.blocks,
        instant.other.bytes,
        instant.other.blocks,
        instant.other_sites,
        sites,
    )
}
