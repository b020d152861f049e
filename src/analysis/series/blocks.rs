//! One band a block, for the largest blocks.

use std::cmp::Reverse;

use super::bands::Bands;
use crate::analysis::sites::Sites;
use crate::history::{History, LifeId, NEVER};
use crate::units::{bytes, count, duration};

/// Frames of a stack that a tooltip names.
const FRAMES: usize = 12;

/// The `count` blocks that cover most of a picture of `states`, oldest first.
pub(super) fn bands(history: &History, sites: &Sites, count: usize, states: &[u32]) -> Bands {
    let lives = &history.lives;
    let shown = |life: LifeId| {
        let before = |state: u32| states.partition_point(|&other| other < state) as u64;
        before(lives.done_at(life)) - before(lives.born_at(life)).min(before(lives.done_at(life)))
    };
    // A large block must not be missing because it was short-lived: it counts as if it had a few columns more.
    let bonus = states.len() as u64 / 50;
    let mut chosen: Vec<(u128, LifeId)> = lives
        .ids()
        .filter_map(|life| match shown(life) {
            0 => None,
            columns => Some((u128::from(lives.bytes(life)) * u128::from(columns + bonus), life)),
        })
        .collect();
    let weight = |&(area, life): &(u128, LifeId)| (Reverse(area), life);
    if chosen.len() > count {
        chosen.select_nth_unstable_by_key(count, weight);
        chosen.truncate(count);
    }
    let mut chosen: Vec<LifeId> = chosen.into_iter().map(|(_, life)| life).collect();
    chosen.sort_unstable_by_key(|&life| (lives.born_at(life), lives.addr(life), life));
    let mut of_life = vec![chosen.len() as u32; lives.len()];
    for (&life, band) in chosen.iter().zip(0..) {
        of_life[life as usize] = band;
    }
    let label =
        |&life: &LifeId| (sites.name(sites.of_life(history, life)).into_owned(), Some(detail(history, sites, life)));
    Bands { labels: chosen.iter().map(label).collect(), of_life }
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
