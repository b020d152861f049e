//! Which sites a map tells apart.

use std::collections::BTreeMap;

use super::{LARGEST_SITES, MapSite, SITES};
use crate::analysis::pinning::pinning_of;
use crate::analysis::ranking::LifeGroups;
use crate::analysis::sites::Sites;
use crate::history::{History, LiveBlock, Moment, State};

/// Sites in the order in which a picture tells them apart.
pub(super) struct SiteNumbers {
    pub(super) rows: Vec<MapSite>,
    /// By row of [`State::blocks`].
    pub(super) of_block: Vec<u32>,
}

impl SiteNumbers {
    pub(super) fn new(history: &History, state: &State, moment: Moment, sites: &Sites) -> Self {
        let pinning = pinning_of(history, state, moment, sites, |_| true);
        let mut bytes = BTreeMap::new();
        let of: Vec<_> = state.blocks.iter().map(|block| sites.of_life(history, block.life)).collect();
        for (block, &site) in state.blocks.iter().zip(&of) {
            *bytes.entry(site).or_insert(0) += block.bytes;
        }
        let pinned: BTreeMap<_, u64> = pinning.pins.iter().map(|pin| (pin.key, pin.pinned)).collect();
        let mut order: Vec<_> = bytes.keys().copied().collect();
        order.sort_by_key(|site| (std::cmp::Reverse(bytes[site]), *site));
        // Those that pin most move forward, whatever they hold.
        let mut place = LARGEST_SITES.min(order.len());
        for pin in &pinning.pins {
            if place >= SITES.min(order.len()) {
                break;
            }
            if let Some(at) = order[place..].iter().position(|&site| site == pin.key) {
                order[place..=place + at].rotate_right(1);
                place += 1;
            }
        }
        let number: BTreeMap<_, u32> = order.iter().copied().zip(0..).collect();
        let rows = order.iter().map(|site| MapSite {
            site: sites.name(*site).into_owned(),
            bytes: bytes[site],
            pinned: Some(pinned.get(site).copied().unwrap_or(0)),
        });
        Self { rows: rows.collect(), of_block: of.iter().map(|site| number[site]).collect() }
    }

    /// Groups in order of size; pins are known by site only.
    pub(super) fn of_groups(state: &State, groups: &LifeGroups) -> Self {
        let group_of = |block: &LiveBlock| groups.of_life[block.life as usize];
        let mut bytes: BTreeMap<u32, u64> = BTreeMap::new();
        for block in &state.blocks {
            *bytes.entry(group_of(block)).or_default() += block.bytes;
        }
        let mut order: Vec<u32> = bytes.keys().copied().collect();
        order.sort_by_key(|group| (std::cmp::Reverse(bytes[group]), *group));
        let number: BTreeMap<u32, u32> = order.iter().copied().zip(0..).collect();
        let rows = order.iter().map(|group| MapSite {
            site: groups.names[*group as usize].clone(),
            bytes: bytes[group],
            pinned: None,
        });
        Self { rows: rows.collect(), of_block: state.blocks.iter().map(|block| number[&group_of(block)]).collect() }
    }
}
