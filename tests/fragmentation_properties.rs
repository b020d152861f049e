//! Random layouts: the parts of free memory, the shares of pins and the search for a block, against the definitions
//! carried out step by step.

mod common;

use std::collections::BTreeMap;

use common::read;
use oomscope::allocator::{
    Action, AllocatorRules, BlockStatus, EventPolicy, GIB, InitialBlock, InitialSegment, MIB, MempoolId, PoolKind,
    Simulator, SimulatorConfig, TieBreak,
};
use oomscope::analysis::freeing::freeing;
use oomscope::analysis::layout::{CellState, LayoutOptions, layout};
use oomscope::analysis::pinning::pinning;
use oomscope::analysis::search::{free_sets, taken};
use oomscope::analysis::sites::{By, Sites};
use oomscope::analysis::totals::totals;
use oomscope::history::{At, History};
use oomscope::render::map::{ColourBy, MapOptions, map_svg};
use proptest::prelude::*;
use serde_json::json;

/// A segment: what it is, and its blocks as (units, state, site). State 0 is free, 1 live, 2 pending.
#[derive(Clone, Debug)]
struct Segment {
    large: bool,
    expandable: bool,
    private: bool,
    stream: u64,
    whole: bool,
    blocks: Vec<(u64, u8, u8)>,
}

fn segment() -> impl Strategy<Value = Segment> {
    let blocks = prop::collection::vec((1u64..60, 0u8..3, 0u8..5), 1..30);
    (any::<bool>(), any::<bool>(), prop::bool::weighted(0.2), 0u64..2, prop::bool::weighted(0.8), blocks).prop_map(
        |(large, expandable, private, stream, whole, blocks)| Segment {
            large,
            expandable,
            private,
            stream,
            whole,
            blocks,
        },
    )
}

/// A segment with addresses: free blocks merged.
struct Placed {
    of: Segment,
    addr: u64,
    bytes: u64,
    /// Address, bytes, site.
    live: Vec<(u64, u64, u8)>,
    holes: Vec<(u64, u64)>,
}

fn place(segments: &[Segment]) -> Vec<Placed> {
    // Reservations of different pools lie apart: each is one range of addresses.
    let mut bases: BTreeMap<Option<(bool, u64, bool)>, u64> = BTreeMap::new();
    let mut placed = Vec::new();
    for of in segments {
        let reservation = of.expandable.then_some((of.private, of.stream, of.large));
        let next_base = 0x7000_0000_0000 + bases.len() as u64 * (1 << 40);
        let base = *bases.entry(reservation).or_insert(next_base);
        let unit = if of.large { 256 * 1024 } else { 512 * 50 };
        let (mut at, mut live, mut holes) = (base, Vec::new(), Vec::<(u64, u64)>::new());
        let mut hole = |at: u64, bytes: u64| match holes.last_mut() {
            Some((start, size)) if *start + *size == at => *size += bytes,
            _ if bytes > 0 => holes.push((at, bytes)),
            _ => {}
        };
        for &(units, state, site) in &of.blocks {
            match state {
                0 => hole(at, units * unit),
                _ => live.push((at, units * unit, site)),
            }
            at += units * unit;
        }
        let granule = if of.large { 20 * MIB } else { 2 * MIB };
        if of.expandable && of.whole {
            let rest = (at - base).next_multiple_of(granule) - (at - base);
            hole(at, rest);
            at += rest;
        }
        placed.push(Placed { of: of.clone(), addr: base, bytes: at - base, live, holes });
        bases.insert(reservation, base + (at - base + 40 * MIB).next_multiple_of(20 * MIB));
    }
    placed.sort_by_key(|segment| segment.addr);
    placed
}

fn document(placed: &[Placed]) -> serde_json::Value {
    let segments: Vec<_> = placed
        .iter()
        .map(|segment| {
            let frames = |site: u8| json!([{"name": "f", "filename": "/app/train.py", "line": 10 + site}]);
            let mut blocks: Vec<(u64, serde_json::Value)> = segment
                .live
                .iter()
                .map(|&(addr, bytes, site)| {
                    let state = if site % 4 == 3 { "active_pending_free" } else { "active_allocated" };
                    (addr, json!({"address": addr, "size": bytes, "requested_size": bytes - 7, "state": state, "frames": frames(site)}))
                })
                .collect();
            let free = |&(addr, bytes): &(u64, u64)| (addr, json!({"address": addr, "size": bytes, "requested_size": 0, "state": "inactive", "frames": []}));
            blocks.extend(segment.holes.iter().map(free));
            blocks.sort_by_key(|(addr, _)| *addr);
            let blocks: Vec<_> = blocks.into_iter().map(|(_, block)| block).collect();
            json!({
                "device": 0, "address": segment.addr, "total_size": segment.bytes, "stream": segment.of.stream * 4096,
                "segment_type": if segment.of.large { "large" } else { "small" },
                "segment_pool_id": if segment.of.private { [1, 0] } else { [0, 0] },
                "is_expandable": segment.of.expandable, "frames": [], "blocks": blocks,
            })
        })
        .collect();
    json!({"segments": segments, "device_traces": [[]]})
}

/// The block that the allocator's search takes, as its source describes it; candidates are (bytes, address,
/// expandable, reach).
fn search(candidates: &[(u64, u64, bool, u64)], size: u64, rules: &AllocatorRules) -> Option<(u64, u64)> {
    let mut it = candidates.iter().position(|candidate| candidate.0 >= size)?;
    if candidates[it].2 {
        if rules.expandable {
            while candidates[it].2 && it + 1 < candidates.len() && candidates[it + 1].3 < candidates[it].3 {
                it += 1;
            }
        } else {
            loop {
                it += 1;
                if it == candidates.len() {
                    return None;
                }
                if !candidates[it].2 {
                    break;
                }
            }
        }
    }
    let (bytes, addr, ..) = candidates[it];
    let max = rules.max_split_size.unwrap_or(u64::MAX);
    if size < max && bytes >= max {
        return None;
    }
    if size >= max && bytes >= size + rules.max_non_split_rounding {
        return None;
    }
    Some((bytes, addr))
}

/// The layout in a simulator of a device without further memory.
fn simulate(placed: &[Placed], rules: &AllocatorRules) -> Simulator {
    let segments: Vec<InitialSegment> = placed
        .iter()
        .map(|segment| {
            let live = segment.live.iter().map(|&(address, size, site)| InitialBlock {
                address,
                size,
                requested: size - 7,
                status: if site % 4 == 3 { BlockStatus::ActivePendingFree } else { BlockStatus::ActiveAllocated },
            });
            let free = segment.holes.iter().map(|&(address, size)| InitialBlock {
                address,
                size,
                requested: 0,
                status: BlockStatus::Inactive,
            });
            let mut blocks: Vec<InitialBlock> = live.chain(free).collect();
            blocks.sort_by_key(|block| block.address);
            InitialSegment {
                address: segment.addr,
                size: segment.bytes,
                stream: segment.of.stream * 4096,
                kind: if segment.of.large { PoolKind::Large } else { PoolKind::Small },
                pool: if segment.of.private { MempoolId(1, 0) } else { MempoolId::DEFAULT },
                expandable: segment.of.expandable,
                blocks,
            }
        })
        .collect();
    let reserved = segments.iter().map(|segment| segment.size).sum();
    let mut config = SimulatorConfig::new(rules.clone(), 64 * GIB);
    config.behaviour.tie_break = TieBreak::Address;
    config.capacity = reserved;
    let mut gpu = Simulator::new(config);
    gpu.load(&segments, &[]).unwrap();
    gpu.set_event_policy(EventPolicy::Manual);
    gpu
}

type Key = (bool, u64, bool);

/// Candidates of every pool, in the order of the search.
fn candidates(placed: &[Placed]) -> BTreeMap<Key, Vec<(u64, u64, bool, u64)>> {
    let mut found: BTreeMap<Key, Vec<_>> = BTreeMap::new();
    for (at, segment) in placed.iter().enumerate() {
        let key = |segment: &Placed| (segment.of.private, segment.of.stream, segment.of.large);
        let end = segment.addr + segment.bytes;
        let next = placed[at + 1..].iter().find(|next| next.of.expandable && key(next) == key(segment));
        let behind = if segment.of.expandable { next.map_or(u64::MAX, |next| next.addr) - end } else { 0 };
        for &(addr, bytes) in &segment.holes {
            let reach = if addr + bytes == end { bytes.saturating_add(behind) } else { bytes };
            found.entry(key(segment)).or_default().push((bytes, addr, segment.of.expandable, reach));
        }
    }
    for list in found.values_mut() {
        list.sort_unstable();
    }
    found
}

fn check(segments: &[Segment], requests: &[u64], rules: &AllocatorRules) -> Result<(), TestCaseError> {
    let placed = place(segments);
    let file = tempfile::Builder::new().suffix(".json").tempfile().unwrap();
    std::fs::write(file.path(), document(&placed).to_string()).unwrap();
    let snapshot = read(file.path());
    let history = History::new(&snapshot, &snapshot.devices[0], rules);
    let moment = history.moment(At::End).unwrap();
    let state = history.state(moment.state);
    let sites = Sites::new(&snapshot, By::Line);

    // Parts of the free memory.
    let (mut releasable, mut stranded, mut idle, mut partial) = (0, 0, 0, 0);
    // Shares by site.
    let mut shares: BTreeMap<u8, u64> = BTreeMap::new();
    let mut pinned = 0;
    for segment in &placed {
        let free: u64 = segment.holes.iter().map(|hole| hole.1).sum();
        if segment.of.private {
            idle += free;
            continue;
        }
        let unit = match (segment.of.expandable, segment.of.large) {
            (true, true) => 20 * MIB,
            (true, false) => 2 * MIB,
            (false, _) => segment.bytes,
        };
        for from in (segment.addr..segment.addr + segment.bytes).step_by(unit as usize) {
            let to = (from + unit).min(segment.addr + segment.bytes);
            let within = |addr: u64, bytes: u64| (addr + bytes).min(to).saturating_sub(addr.max(from));
            let free: u64 = segment.holes.iter().map(|&(addr, bytes)| within(addr, bytes)).sum();
            let live: Vec<u8> =
                segment.live.iter().filter(|&&(addr, bytes, _)| within(addr, bytes) > 0).map(|block| block.2).collect();
            if live.is_empty() {
                let is_whole = to - from == unit;
                *(if is_whole { &mut releasable } else { &mut partial }) += free;
                continue;
            }
            pinned += free;
            for (at, site) in live.iter().enumerate() {
                *shares.entry(*site).or_default() +=
                    free / live.len() as u64 + u64::from((at as u64) < free % live.len() as u64);
            }
        }
    }
    stranded += pinned + partial;
    let parts = totals(&history, &state);
    prop_assert_eq!(parts.releasable, Some(releasable));
    prop_assert_eq!(parts.stranded, Some(stranded));
    prop_assert_eq!(parts.pool_idle, Some(idle));
    prop_assert_eq!(parts.reserved, parts.requested + parts.rounding.unwrap() + releasable + stranded + idle);

    let found = pinning(&history, moment, &sites);
    prop_assert_eq!((found.pinned, found.partial_granules), (pinned, partial));
    prop_assert_eq!(found.pins.iter().map(|pin| pin.pinned).sum::<u64>(), pinned);
    for (site, share) in shares.into_iter().filter(|(_, share)| *share > 0) {
        let name = format!("/app/train.py:{}", 10 + site);
        let pin = found.pins.iter().find(|pin| pin.site == name);
        prop_assert_eq!(pin.map(|pin| pin.pinned), Some(share), "{}", name);
    }
    // When every site goes, everything in the default pools can be given back but partial granules without a block.
    let all = freeing(&found, u64::MAX);
    let default: u64 = placed.iter().filter(|segment| !segment.of.private).map(|segment| segment.bytes).sum();
    prop_assert_eq!(all.freed, default - partial);
    prop_assert!(freeing(&found, all.freed).enough);

    // The search, against the simulator's. It knows no reservations that end within a granule.
    let can_load = placed.iter().all(|segment| !segment.of.expandable || segment.of.whole);
    let simulator = can_load.then(|| simulate(&placed, rules));
    let sets = free_sets(&state);
    for (key, list) in candidates(&placed) {
        let kind = if key.2 { PoolKind::Large } else { PoolKind::Small };
        let is_key = |other: &oomscope::analysis::pools::PoolKey| {
            (other.pool.index() != 0, snapshot.streams[other.stream.index()] / 4096, other.kind) == (key.0, key.1, kind)
        };
        let set = sets.iter().find(|(other, _)| is_key(other)).unwrap().1;
        for &request in requests {
            let size = rules.round_size(request);
            if rules.pool_kind(size) != kind {
                continue;
            }
            let expected = search(&list, size, rules);
            let got = set.find(size, rules);
            prop_assert_eq!(got.map(|block| (block.hole.bytes, block.hole.addr)), expected, "{} in {:?}", size, list);
            if let Some(block) = got {
                let remaining = block.hole.bytes - size;
                let splits = match kind {
                    PoolKind::Large if !rules.expandable => {
                        size < rules.max_split_size.unwrap_or(u64::MAX) && remaining > MIB
                    }
                    _ => remaining >= 512,
                };
                prop_assert_eq!(taken(size, block, kind, rules), if splits { size } else { block.hole.bytes });
            }
            if let Some(simulator) = &simulator {
                let mut gpu = simulator.clone();
                let pool = if key.0 { MempoolId(1, 0) } else { MempoolId::DEFAULT };
                let served = gpu.malloc_in(pool, request, key.1 * 4096);
                let from_hole = gpu.events().first().is_some_and(|event| event.action == Action::Alloc);
                let simulated = served.ok().filter(|_| from_hole).map(|block| (block.addr, block.size));
                let granule = rules.granule(kind);
                let ours = got
                    .or_else(|| set.find_tail(size, granule, rules))
                    .map(|block| (block.hole.addr, taken(size, block, kind, rules)));
                prop_assert_eq!(ours, simulated, "{} of the simulator", size);
            }
        }
        // No request of the class that is served is larger than the largest that is said to be.
        let largest = set.largest_request(kind, rules);
        let served = |size: u64| rules.pool_kind(size) == kind && search(&list, size, rules).is_some();
        let best = list
            .iter()
            .map(|candidate| if kind == PoolKind::Small { candidate.0.min(MIB) } else { candidate.0 })
            .filter(|&size| served(size))
            .max();
        prop_assert_eq!(largest, best);
    }

    // The map has every byte, however few cells it may have.
    for options in [LayoutOptions::default(), LayoutOptions { rows: 2, cells: 60 }] {
        let drawn = layout(&history, moment, &sites, &options);
        let sum = |wanted: CellState| -> u64 {
            let rows = drawn.groups.iter().flat_map(|group| &group.rows);
            rows.map(|row| {
                row.segments * row.cells.iter().filter(|cell| cell.state == wanted).map(|cell| cell.size).sum::<u64>()
            })
            .sum()
        };
        // Averages round down by less than a byte a segment and kind.
        let slack = placed.len() as u64 * 12;
        for (state, bytes) in [
            (CellState::Live, parts.allocated),
            (CellState::Pending, parts.pending),
            (CellState::Stranded, stranded),
            (CellState::Releasable, releasable),
            (CellState::PoolIdle, idle),
        ] {
            prop_assert!(sum(state) <= bytes && sum(state) + slack >= bytes, "{:?}: {} {}", state, sum(state), bytes);
        }
        for colour in [ColourBy::State, ColourBy::Site] {
            let svg = map_svg(std::slice::from_ref(&drawn), &MapOptions { colour, ..MapOptions::default() });
            prop_assert!(roxmltree::Document::parse(&svg).is_ok());
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn definitions_hold(
        segments in prop::collection::vec(segment(), 1..12),
        requests in prop::collection::vec(1u64..60_000_000, 40),
        expandable in any::<bool>(),
        max_split in prop::option::of(21u64..64),
        slack in 0u64..40,
    ) {
        let rules = AllocatorRules {
            expandable,
            max_split_size: max_split.map(|mib| mib * MIB),
            max_non_split_rounding: slack * MIB + 1,
            ..AllocatorRules::default()
        };
        check(&segments, &requests, &rules)?;
    }
}
