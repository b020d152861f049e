//! What can be said without seeing growth.

use std::collections::BTreeMap;

use super::result::{NotLeak, Stock};
use super::samples::is_workspace;
use crate::analysis::sites::{Site, Sites};
use crate::history::History;

/// Blocks of one size that make a site a suspect.
const MANY: u64 = 8;

/// Sites that hold many live blocks of one size at the end, the biggest first. The size that holds most counts.
pub(super) fn stock(history: &History, sites: &Sites) -> Vec<Stock> {
    let lives = &history.lives;
    let mut counts: BTreeMap<(Site, u64), u64> = BTreeMap::new();
    let end = history.ooms.last().map_or(history.events(), |oom| oom.event + 1);
    for life in lives.ids().filter(|&life| lives.is_alive(life, end) && end < lives.freed_at(life)) {
        *counts.entry((sites.of_life(history, life), lives.bytes(life))).or_default() += 1;
    }
    let mut biggest: BTreeMap<Site, (u64, u64)> = BTreeMap::new();
    let bytes = |(size, blocks): (u64, u64)| size.saturating_mul(blocks);
    for ((site, size), blocks) in counts.into_iter().filter(|&(_, blocks)| blocks >= MANY) {
        let found = biggest.entry(site).or_default();
        if bytes((size, blocks)) > bytes(*found) {
            *found = (size, blocks);
        }
    }
    let mut stock: Vec<Stock> = biggest
        .into_iter()
        .map(|(site, (size, blocks))| Stock {
            site: sites.name(site).into_owned(),
            block_bytes: size,
            blocks,
            bytes: bytes((size, blocks)),
        })
        .collect();
    stock.sort_by(|a, b| b.bytes.cmp(&a.bytes).then_with(|| a.site.cmp(&b.site)));
    stock
}

/// Workspaces of cuBLAS that are live in `state`, by site.
pub(super) fn workspaces(history: &History, sites: &Sites, state: u32) -> Vec<NotLeak> {
    let lives = &history.lives;
    let mut found: BTreeMap<Site, u64> = BTreeMap::new();
    for life in lives.ids().filter(|&life| lives.is_alive(life, state) && is_workspace(history, life)) {
        *found.entry(sites.of_life(history, life)).or_default() += lives.bytes(life);
    }
    let not_leak = |(site, bytes)| NotLeak {
        site: sites.name(site).into_owned(),
        bytes,
        why: "cuBLAS workspace, allocated once and kept for good".to_owned(),
    };
    found.into_iter().map(not_leak).collect()
}
