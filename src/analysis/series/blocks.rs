//! One band a block, for the largest blocks, and one a line for the others.

use std::cmp::Reverse;

use super::bands::{Bands, Label, numbered};
use super::columns::Extremes;
use crate::analysis::sites::Sites;
use crate::history::{History, LifeId, NEVER};
use crate::units::{bytes, count, duration};

/// Frames of a stack that a tooltip names.
const FRAMES: usize = 12;
/// Lines whose other blocks have a band together.
const LINES: usize = 16;
/// Where there are too many blocks, one that is shown in fewer columns is a sliver that nobody could point at.
const NARROWEST: u64 = 3;

/// The `count` blocks that cover most of the picture of `shown`, oldest first; above them the other blocks by line.
pub(super) fn bands(history: &History, sites: &Sites, count: usize, shown: &Extremes) -> Bands {
    let lives = &history.lives;
    let states = &shown.states;
    let columns = |life: LifeId| {
        let before = |state: u32| states.partition_point(|&other| other < state) as u64;
        before(lives.done_at(life)).saturating_sub(before(lives.born_at(life)))
    };
    let areas: Vec<(u64, LifeId)> =
        lives.ids().map(|life| (columns(life), life)).filter(|&(columns, _)| columns > 0).collect();
    let mut chosen: Vec<LifeId> = match areas.len() > count {
        false => areas.iter().map(|&(_, life)| life).collect(),
        true => ribbons(history, count, shown, &areas),
    };
    chosen.sort_unstable_by_key(|&life| (lives.born_at(life), lives.addr(life), life));
    let (found, by_slot) = numbered(sites);
    let site = |life: LifeId| by_slot[sites.slot(history, life)] as usize;
    let mut is_chosen = vec![false; lives.len()];
    chosen.iter().for_each(|&life| is_chosen[life as usize] = true);
    let mut area_of = vec![0u128; found.len()];
    for &(columns, life) in areas.iter().filter(|(_, life)| !is_chosen[*life as usize]) {
        area_of[site(life)] += u128::from(lives.bytes(life)) * u128::from(columns);
    }
    let mut lines: Vec<usize> = (0..found.len()).filter(|&site| area_of[site] > 0).collect();
    lines.sort_by_key(|&site| (Reverse(area_of[site]), found[site]));
    lines.truncate(LINES);

    let rest = chosen.len() + lines.len();
    let mut band_of = vec![rest as u32; found.len()];
    for (&site, band) in lines.iter().zip(chosen.len() as u32..) {
        band_of[site] = band;
    }
    let mut of_life: Vec<u32> = lives.ids().map(|life| band_of[site(life)]).collect();
    for (&life, band) in chosen.iter().zip(0..) {
        of_life[life as usize] = band;
    }
    let ribbon =
        |&life: &LifeId| Label::new(sites.name(found[site(life)]).into_owned(), Some(detail(history, sites, life)));
    let line = |&site: &usize| Label {
        site: sites.name(found[site]).into_owned(),
        detail: Some("blocks without a ribbon of their own".to_owned()),
        together: true,
    };
    Bands { labels: chosen.iter().map(ribbon).chain(lines.iter().map(line)).collect(), of_life }
}

/// The `count` blocks with the largest area.
fn ribbons(history: &History, count: usize, shown: &Extremes, areas: &[(u64, LifeId)]) -> Vec<LifeId> {
    let lives = &history.lives;
    let highest = shown.highest.iter().copied().max().unwrap_or(0);
    let peak = shown.highest.iter().position(|&value| value == highest).map_or(0, |column| shown.states[column]);
    // What makes the peak must not be missing because it was short-lived: it counts as if it had a few columns more.
    let bonus = shown.states.len() as u64 / 50;
    let weight = |columns: u64, life: LifeId| {
        let columns = columns + if lives.is_alive(life, peak) { bonus } else { 0 };
        u128::from(lives.bytes(life)) * u128::from(columns)
    };
    let wide = areas.iter().filter(|(columns, _)| *columns >= NARROWEST);
    let mut chosen: Vec<(u128, LifeId)> = wide.map(|&(columns, life)| (weight(columns, life), life)).collect();
    if chosen.len() > count {
        chosen.select_nth_unstable_by_key(count, |&(area, life)| (Reverse(area), life));
        chosen.truncate(count);
    }
    chosen.into_iter().map(|(_, life)| life).collect()
}

/// Size, life and stack of a block.
fn detail(history: &History, sites: &Sites, life: LifeId) -> String {
    let life = history.lives.get(life);
    let mut text = format!("{} at {:#x}", bytes(life.bytes), life.addr);
    if life.requested != life.bytes {
        text += &format!(", {} asked for", bytes(life.requested));
    }
    text += &match (life.alloc_event, life.freed_at) {
        (None, NEVER) => "\nthere before the recording, live at its end".to_owned(),
        (None, 0) => "\nfreed before the recording, while another stream still used it".to_owned(),
        (None, freed) => format!("\nthere before the recording, freed by event {}", count(u64::from(freed) - 1)),
        (Some(event), NEVER) => format!("\nallocated by event {}, never freed", count(event.into())),
        (Some(event), freed) => {
            let lasted = history.time_us(event).zip(history.time_us(freed.saturating_sub(1)));
            let lasted =
                lasted.map_or_else(String::new, |(from, to)| format!(", {}", duration(to.saturating_sub(from))));
            format!(
                "\nallocated by event {}, freed by event {}{lasted}",
                count(event.into()),
                count(u64::from(freed) - 1)
            )
        }
    };
    if life.stack.has_frames() {
        let frames = sites.frames(life.stack);
        for frame in frames.iter().take(FRAMES) {
            text.push('\n');
            text += frame;
        }
        if frames.len() > FRAMES {
            text += &format!("\n… {} more frames", frames.len() - FRAMES);
        }
    }
    text
}
