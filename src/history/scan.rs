//! First pass over the trace: which event begins and ends which block.

use hashbrown::{HashMap, HashSet};

use super::Health;
use super::health::missing_frees;
use super::lives::{LifeId, Lives, NEVER, Seed};
use crate::allocator::AllocatorRules;
use crate::snapshot::{Action, Block, BlockState, Device, Snapshot, StackId};

/// What the pass found.
pub(super) struct Scanned<'a> {
    pub(super) lives: Lives<'a>,
    pub(super) health: Health,
}

type Open = HashMap<u64, LifeId, foldhash::fast::RandomState>;

pub(super) fn scan<'a>(snapshot: &'a Snapshot, device: &Device, rules: &AllocatorRules) -> Scanned<'a> {
    let events = &snapshot.events;
    let actions = &events.action[device.events.clone()];
    let mut blocks = snapshot.segments_of(device).iter().flat_map(|segment| snapshot.blocks_of(segment));
    let has_pending = blocks.any(|block| block.state == BlockState::Pending);
    let mut health = Health { missing_actions: missing_frees(actions, has_pending), ..Health::default() };
    // Where one kind of free is not recorded, the other stands for both.
    let requested_completes = health.missing_actions.contains(&Action::FreeCompleted.name());
    let mut lives = Lives::new(snapshot, device);
    let mut open = Open::default();
    let mut last_time = 0;
    let no_allocs = !actions.contains(&Action::Alloc);
    let mut freed = HashSet::<u64, foldhash::fast::RandomState>::default();
    let mut freed_again = false;
    for (event, &action) in (0u32..).zip(actions) {
        let row = device.events.start + event as usize;
        let time = events.time_us.get(row);
        health.out_of_order += u64::from(time < last_time);
        last_time = time;
        let addr = events.addr[row];
        let state = event + 1;
        match action {
            Action::Alloc => {
                let life = lives.push_traced(event);
                if let Some(before) = open.insert(addr, life) {
                    health.missing_frees += 1;
                    lives.end_unrecorded(before, state);
                }
            }
            Action::FreeRequested | Action::FreeCompleted | Action::Free => {
                let life = *open.entry(addr).or_insert_with(|| {
                    health.unmatched_frees += 1;
                    health.unmatched_free_bytes += events.size[row];
                    let (requested, stream) = (events.size[row], events.stream[row]);
                    lives.push_seeded(Seed { addr, requested, stream, stack: StackId::NONE })
                });
                lives.set_of_event(event, life);
                if action == Action::FreeRequested && !requested_completes {
                    lives.set_freed(life, state);
                } else {
                    lives.end(life, state);
                    open.remove(&addr);
                    freed_again |= no_allocs && !freed.insert(addr);
                }
            }
            _ => {}
        }
    }
    let is_free = |action: &Action| matches!(action, Action::FreeRequested | Action::FreeCompleted | Action::Free);
    if health.missing_frees > 0 && !actions.iter().any(is_free) {
        health.missing_actions.push("free");
    }
    // What is freed twice was allocated in between.
    if freed_again {
        health.missing_actions.push(Action::Alloc.name());
    }
    // Segments are released that were never taken, while no block is from before: it is their start that is missing.
    let grows = |action: &Action| matches!(action, Action::SegmentAlloc | Action::SegmentMap);
    if health.unmatched_frees == 0 && actions.contains(&Action::SegmentFree) && !actions.iter().any(grows) {
        health.missing_actions.push(Action::SegmentAlloc.name());
    }
    match_final_blocks(snapshot, device, rules, &mut lives, &mut open, &mut health);
    Scanned { lives, health }
}

/// Ties the blocks of the dump to the lives that are still open.
fn match_final_blocks(
    snapshot: &Snapshot,
    device: &Device,
    rules: &AllocatorRules,
    lives: &mut Lives,
    open: &mut Open,
    health: &mut Health,
) {
    let last = device.events.len() as u32;
    for segment in snapshot.segments_of(device) {
        for block in snapshot.blocks_of(segment).iter().filter(|block| block.is_active()) {
            let known = open.remove(&block.address).filter(|&life| {
                let same = is_same(lives.requested(life), block, rules) && (!device.cut || agrees(lives, life, block));
                if !same {
                    health.vanished_blocks += 1;
                    lives.end_unrecorded(life, last);
                }
                same
            });
            let life = known.unwrap_or_else(|| {
                health.ghost_blocks += 1;
                health.ghost_bytes += block.size;
                let life = lives.push_seeded(Seed {
                    addr: block.address,
                    requested: block.requested,
                    stream: segment.stream,
                    stack: block.stack,
                });
                if block.state == BlockState::Pending {
                    lives.set_freed(life, 0);
                }
                life
            });
            lives.set_bytes(life, block.size);
            // A block keeps its stack even where trace entries have none (context="state").
            if !lives.stack(life).has_frames() && block.stack != lives.stack(life) {
                lives.set_stack(life, block.stack);
            }
            if block.state == BlockState::Pending && lives.freed_at(life) == NEVER {
                lives.set_freed(life, last);
            }
        }
    }
    let mut vanished: Vec<LifeId> = open.values().copied().collect();
    vanished.sort_unstable();
    for life in vanished {
        health.vanished_blocks += 1;
        lives.end_unrecorded(life, last);
    }
}

/// Whether `block` has the stack and the state that the trace gives `life`. Where the rest of the trace is lost, another
/// block may have come to the same address since.
fn agrees(lives: &Lives, life: LifeId, block: &Block) -> bool {
    let stack = lives.stack(life);
    let same_stack = stack == block.stack || !stack.has_frames() || !block.stack.has_frames();
    same_stack && (lives.freed_at(life) == NEVER || block.state == BlockState::Pending)
}

/// Whether a request recorded in the trace can be the one that holds `block`. Restored graph pools record rounded
/// sizes, so equality is asked only up to rounding.
fn is_same(requested: u64, block: &Block, rules: &AllocatorRules) -> bool {
    requested == block.requested || rules.round_size(requested) == rules.round_size(block.requested)
}
