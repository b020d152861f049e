//! One band a site.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::bands::Bands;
use super::columns::Columns;
use crate::analysis::changes::changes;
use crate::analysis::sites::{Site, Sites};
use crate::history::History;

/// The `count` sites that hold most at their own highest point, biggest first.
pub(super) fn bands(history: &History, sites: &Sites, count: usize, columns: &Columns) -> Bands {
    let lives = &history.lives;
    let (found, by_slot) = numbered(sites);
    let of_life: Vec<u32> = lives.ids().map(|life| by_slot[sites.slot(history, life)]).collect();
    let mut now = vec![0i64; found.len()];
    for life in lives.ids().filter(|&life| lives.is_alive(life, 0)) {
        now[of_life[life as usize] as usize] += lives.bytes(life) as i64;
    }
    let (first, last) = (columns.window.start, columns.window.end);
    let mut highest = if first == 0 { now.clone() } else { Vec::new() };
    changes(history, |state, life, begins| {
        if state > last {
            return;
        }
        if highest.is_empty() && state > first {
            highest = now.clone();
        }
        let site = of_life[life as usize] as usize;
        let bytes = lives.bytes(life) as i64;
        now[site] += if begins { bytes } else { -bytes };
        if let Some(highest) = highest.get_mut(site) {
            *highest = now[site].max(*highest);
        }
    });
    let highest = if highest.is_empty() { now } else { highest };
    let mut order: Vec<usize> = (0..found.len()).filter(|&site| highest[site] > 0).collect();
    order.sort_by_key(|&site| (Reverse(highest[site]), found[site]));
    order.truncate(count);
    let mut band_of = vec![order.len() as u32; found.len()];
    for (&site, band) in order.iter().zip(0..) {
        band_of[site] = band;
    }
    Bands {
        labels: order.iter().map(|&site| label(sites, found[site])).collect(),
        of_life: of_life.into_iter().map(|site| band_of[site as usize]).collect(),
    }
}

fn label(sites: &Sites, site: Site) -> (String, Option<String>) {
    (sites.name(site).into_owned(), sites.function(site).map(str::to_owned))
}

/// The distinct sites, and for each slot the row of its own.
pub(super) fn numbered(sites: &Sites) -> (Vec<Site>, Vec<u32>) {
    let mut known = HashMap::new();
    let mut found = Vec::new();
    let by_slot = (0..sites.slots())
        .map(|slot| {
            let site = sites.of_slot(slot);
            *known.entry(site).or_insert_with(|| {
                found.push(site);
                found.len() as u32 - 1
            })
        })
        .collect();
    (found, by_slot)
}
