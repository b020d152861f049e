//! The bands of a picture, and how much is in each.

use std::cmp::Reverse;
use std::collections::HashMap;

use super::columns::Columns;
use super::{Band, OTHER};
use crate::analysis::changes::changes;
use crate::analysis::ranking::LifeGroups;
use crate::analysis::sites::{Site, Sites};
use crate::history::History;

/// What a band is called.
pub(super) struct Label {
    pub site: String,
    pub detail: Option<String>,
    pub together: bool,
}

impl Label {
    pub fn new(site: String, detail: Option<String>) -> Self {
        Self { site, detail, together: false }
    }
}

/// Which band each block belongs to.
pub(super) struct Bands {
    /// The label of each band, lowest first.
    pub labels: Vec<Label>,
    /// Row of `labels` for each life; their number for what has no band of its own.
    pub of_life: Vec<u32>,
}

impl Bands {
    /// The bands with the bytes of their blocks in each of `states`, which ascend.
    pub fn of_blocks(self, history: &History, states: &[u32]) -> Vec<Band> {
        let lives = &history.lives;
        let mut counts = Counts::new(self.labels.len() + 1, states);
        for life in lives.ids().filter(|&life| lives.is_alive(life, 0)) {
            counts.add(0, self.of_life[life as usize] as usize, lives.bytes(life) as i64);
        }
        changes(history, |state, life, begins| {
            let bytes = lives.bytes(life) as i64;
            counts.add(state, self.of_life[life as usize] as usize, if begins { bytes } else { -bytes });
        });
        counts.finish(self.labels)
    }
}

/// Bytes of several bands carried along the states.
pub(super) struct Counts<'s> {
    states: &'s [u32],
    now: Vec<i64>,
    values: Vec<Vec<u64>>,
    done: usize,
}

impl<'s> Counts<'s> {
    /// `count` bands, the last of them for everything else, to be told in each of `states`.
    pub fn new(count: usize, states: &'s [u32]) -> Self {
        let values = vec![Vec::with_capacity(states.len()); count];
        Self { states, now: vec![0; count], values, done: 0 }
    }

    /// A band grows or shrinks in `state`; states come in order.
    pub fn add(&mut self, state: u32, band: usize, delta: i64) {
        self.tell(|wanted| wanted < state);
        self.now[band] += delta;
    }

    fn tell(&mut self, is_due: impl Fn(u32) -> bool) {
        while self.states.get(self.done).is_some_and(|&state| is_due(state)) {
            for (values, now) in self.values.iter_mut().zip(&self.now) {
                values.push((*now).max(0) as u64);
            }
            self.done += 1;
        }
    }

    /// The bands under their `labels`, and [`OTHER`] when there is anything else.
    pub fn finish(mut self, labels: Vec<Label>) -> Vec<Band> {
        self.tell(|_| true);
        let rest = labels.len();
        let named = labels.into_iter().chain([Label::new(OTHER.to_owned(), None)]);
        let bands = named.zip(self.values).enumerate();
        bands
            .filter(|(at, (_, values))| *at < rest || values.iter().any(|&value| value > 0))
            .map(|(_, (Label { site, detail, together }, values))| Band { site, detail, together, values })
            .collect()
    }
}

/// The `count` sites that hold most at their own highest point, biggest first.
pub(super) fn by_site(history: &History, sites: &Sites, count: usize, columns: &Columns) -> Bands {
    let (found, by_slot) = numbered(sites);
    let of_life: Vec<u32> = history.lives.ids().map(|life| by_slot[sites.slot(history, life)]).collect();
    let highest = highest(history, &of_life, found.len(), columns);
    let mut order: Vec<usize> = (0..found.len()).filter(|&site| highest[site] > 0).collect();
    order.sort_by_key(|&site| (Reverse(highest[site]), found[site]));
    order.truncate(count);
    let label = |&site: &usize| {
        Label::new(sites.name(found[site]).into_owned(), sites.function(found[site]).map(str::to_owned))
    };
    Bands { labels: order.iter().map(label).collect(), of_life: renumbered(of_life, found.len(), &order) }
}

/// The `count` groups that hold most at their own highest point, in the order of the groups.
pub(super) fn by_group(history: &History, groups: &LifeGroups, count: usize, columns: &Columns) -> Bands {
    let number = groups.names.len();
    let highest = highest(history, &groups.of_life, number, columns);
    let mut order: Vec<usize> = (0..number).filter(|&group| highest[group] > 0).collect();
    order.sort_by_key(|&group| (Reverse(highest[group]), group));
    order.truncate(count);
    order.sort_unstable();
    let labels = order.iter().map(|&group| Label::new(groups.names[group].clone(), None)).collect();
    Bands { labels, of_life: renumbered(groups.of_life.clone(), number, &order) }
}

/// The most that each of `count` groups holds in the window.
fn highest(history: &History, of_life: &[u32], count: usize, columns: &Columns) -> Vec<i64> {
    let lives = &history.lives;
    let mut now = vec![0i64; count];
    for life in lives.ids().filter(|&life| lives.is_alive(life, 0)) {
        now[of_life[life as usize] as usize] += lives.bytes(life) as i64;
    }
    let (first, last) = (columns.window.start, columns.window.end);
    let mut highest: Option<Vec<i64>> = None;
    changes(history, |state, life, begins| {
        if state > last {
            return;
        }
        let group = of_life[life as usize] as usize;
        let bytes = lives.bytes(life) as i64;
        if state > first {
            let highest = highest.get_or_insert_with(|| now.clone());
            now[group] += if begins { bytes } else { -bytes };
            highest[group] = highest[group].max(now[group]);
        } else {
            now[group] += if begins { bytes } else { -bytes };
        }
    });
    highest.unwrap_or(now)
}

/// For each life the row of `order` that its group has, else their number.
fn renumbered(mut of_life: Vec<u32>, groups: usize, order: &[usize]) -> Vec<u32> {
    let mut band_of = vec![order.len() as u32; groups];
    for (&group, band) in order.iter().zip(0..) {
        band_of[group] = band;
    }
    of_life.iter_mut().for_each(|group| *group = band_of[*group as usize]);
    of_life
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
