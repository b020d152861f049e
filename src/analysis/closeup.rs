//! What can be looked into beyond a report: the live set at any instant, single blocks, where each lies.

use std::collections::HashMap;

use rayon::prelude::*;
use serde::Serialize;

use super::folded::{Folded, Frames, fold};
use super::instants::{Instants, instants};
use super::layout::{Layout, LayoutOptions, layout};
use super::ranking::Measure;
use super::report::Report;
use super::ribbons::{Ribbons, ribbons};
use super::sites::Sites;
use crate::history::History;
use crate::snapshot::StackId;

/// Instants, ribbons and rows over all devices: they bound what follows from them, whatever the file holds.
const INSTANTS: usize = 1_200;
const RIBBONS: usize = 3_000;
const CELLS: usize = 16_000;
const ROWS: usize = 200;
/// The same of one device, at most.
const INSTANTS_OF_ONE: usize = 400;
const RIBBONS_OF_ONE: usize = 1_500;
const ROWS_OF_ONE: usize = 80;
/// Sites named at one instant.
const NAMED: usize = 15;
/// Frames of one stack, and different stacks, that are told.
const FRAMES: usize = 64;
const STACKS: usize = 2_000;

/// One device from close up.
#[derive(Clone, Debug, PartialEq)]
pub struct CloseUp {
    /// Where everything lies at the moment of the report.
    pub layout: Layout,
    /// Live memory at that moment by call stack.
    pub folded: Folded,
    /// Who held the memory when; `None` without history.
    pub past: Option<Past>,
}

/// One device's past from close up.
#[derive(Clone, Debug, PartialEq)]
pub struct Past {
    /// The live sets.
    pub instants: Instants,
    /// The blocks that weigh most.
    pub ribbons: Ribbons,
    /// The stacks that both refer to.
    pub stacks: HashMap<StackId, Stack>,
}

/// The frames of one stack.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Stack {
    /// Innermost first, as `file:line function`.
    pub frames: Vec<String>,
    /// Outer frames that are left out.
    pub left_out: usize,
}

/// The first `limit` devices of `report`, which is of `histories`, from close up.
pub fn close_ups(histories: &[History], sites: &Sites, report: &Report, limit: usize) -> Vec<CloseUp> {
    let shown = &histories[..histories.len().min(limit)];
    let share = |all: usize, most: usize| (all / shown.len().max(1)).clamp(1, most);
    let one = |(history, device): (&History, &super::report::DeviceReport)| {
        let options = LayoutOptions { rows: share(ROWS, ROWS_OF_ONE), cells: share(CELLS, CELLS) };
        let past = history.health.recorded.then(|| {
            let instants = instants(history, sites, device.at, share(INSTANTS, INSTANTS_OF_ONE), NAMED);
            let ribbons = ribbons(history, sites, &instants, share(RIBBONS, RIBBONS_OF_ONE));
            let stacks = stacks(sites, &instants, &ribbons, share(STACKS, STACKS));
            Past { instants, ribbons, stacks }
        });
        let folded = fold(history, sites, Measure::Live(device.at), Frames::Python);
        CloseUp { layout: layout(history, device.at, sites, &options), folded, past }
    };
    shown.par_iter().zip(&report.devices).map(one).collect()
}

fn stacks(sites: &Sites, instants: &Instants, ribbons: &Ribbons, limit: usize) -> HashMap<StackId, Stack> {
    let named = instants.sites.iter().filter_map(|site| site.stack);
    let wanted = named.chain(ribbons.ribbons.iter().map(|ribbon| ribbon.stack)).filter(|stack| stack.has_frames());
    let mut stacks = HashMap::new();
    for stack in wanted {
        if stacks.len() >= limit {
            break;
        }
        stacks.entry(stack).or_insert_with(|| {
            let mut frames = sites.frames(stack);
            let left_out = frames.len().saturating_sub(FRAMES);
            frames.truncate(FRAMES);
            Stack { frames, left_out }
        });
    }
    stacks
}
