//! Properties that hold for any sequence of calls.

use proptest::prelude::*;

use super::{
    Action, AddressPolicy, BlockId, BlockStatus, Capture, EventPolicy, InitialBlock, InitialSegment, MallocError,
    MempoolId, PoolOptions, Simulator, SimulatorConfig,
};
use crate::allocator::{AllocatorRules, AllocatorSettings, Behaviour, GIB, MIB, PoolKind, TorchVersion};

/// Settings that exercise different mechanisms; each is legal in 2.15.
const CONFS: [&str; 9] = [
    "",
    "expandable_segments:True",
    "max_split_size_mb:64",
    "max_split_size_mb:32,max_non_split_rounding_mb:64",
    "expandable_segments:True,max_split_size_mb:64",
    "garbage_collection_threshold:0.5,per_process_memory_fraction:0.8",
    "roundup_power2_divisions:4",
    "large_segment_size_mb:33,expandable_segments:True",
    "throw_on_cudamalloc_oom:True",
];

const MINORS: [u16; 7] = [1, 3, 4, 6, 9, 11, 15];

fn simulator(conf: &str, minor: u16, total: u64, addresses: AddressPolicy) -> Simulator {
    let version = TorchVersion::new(2, minor);
    let rules = AllocatorSettings::parse(conf, Some(version)).rules;
    Simulator::new(SimulatorConfig {
        behaviour: Behaviour::of(version),
        addresses,
        ..SimulatorConfig::new(rules, total)
    })
}

#[derive(Clone, Debug)]
enum Step {
    Malloc { size: u64, stream: u64, pool: u64 },
    Free(prop::sample::Index),
    FreeHeld(prop::sample::Index),
    Complete(prop::sample::Index),
    RecordStream(prop::sample::Index, u64),
    EmptyCache,
    ReleasePool(u64),
    SetCapture(u8),
    SetRules(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let size = prop_oneof![
        4 => 1..4096u64,
        4 => 1..2 * MIB,
        4 => MIB..12 * MIB,
        2 => 10 * MIB..120 * MIB,
        1 => Just(MIB),
        1 => Just(MIB + 1),
        1 => Just(10 * MIB),
        1 => any::<u64>(),
    ];
    let index = || any::<prop::sample::Index>();
    prop_oneof![
        16 => (size, 0..3u64, prop_oneof![4 => Just(0), 1 => 1..3u64])
            .prop_map(|(size, stream, pool)| Step::Malloc { size, stream, pool }),
        10 => index().prop_map(Step::Free),
        2 => index().prop_map(Step::FreeHeld),
        2 => index().prop_map(Step::Complete),
        2 => (index(), 0..3u64).prop_map(|(at, stream)| Step::RecordStream(at, stream)),
        1 => Just(Step::EmptyCache),
        1 => (1..3u64).prop_map(Step::ReleasePool),
        1 => (0..3u8).prop_map(Step::SetCapture),
    ]
}

/// Does a step; `live` are allocated blocks, `held` such as wait for the caller.
fn apply(sim: &mut Simulator, step: &Step, live: &mut Vec<BlockId>, held: &mut Vec<BlockId>) {
    match step {
        Step::Malloc { size, stream, pool } => {
            if let Ok(allocation) = sim.malloc_in(MempoolId(0, *pool), *size, *stream) {
                live.push(allocation.block);
            }
        }
        Step::Free(at) if !live.is_empty() => {
            let block = live.swap_remove(at.index(live.len()));
            assert!(sim.free(block));
        }
        Step::FreeHeld(at) if !live.is_empty() => {
            let block = live.swap_remove(at.index(live.len()));
            assert!(sim.free_held(block));
            held.push(block);
        }
        Step::Complete(at) if !held.is_empty() => {
            let block = held.swap_remove(at.index(held.len()));
            sim.complete(block);
        }
        Step::RecordStream(at, stream) if !live.is_empty() => sim.record_stream(live[at.index(live.len())], *stream),
        Step::EmptyCache => sim.empty_cache(),
        Step::ReleasePool(pool) => sim.release_private_pool(MempoolId(0, *pool)),
        Step::SetCapture(kind) => {
            sim.set_capture([Capture::None, Capture::Diverted, Capture::Capturing][*kind as usize]);
        }
        Step::SetRules(conf) => {
            let rules = AllocatorSettings::parse_after(sim.rules(), CONFS[conf % CONFS.len()], None).rules;
            sim.set_rules(rules);
        }
        _ => {}
    }
    // A flush completes everything that waits.
    held.retain(|block| sim.is_waiting(*block));
}

/// Blocks lie side by side in their segments and cover them.
fn assert_tiled(sim: &Simulator) {
    let mut end = 0;
    for segment in sim.segments() {
        assert!(segment.address >= end);
        let mut at = segment.address;
        for block in &segment.blocks {
            assert_eq!(block.address, at);
            at += block.size;
        }
        assert_eq!(at, segment.address + segment.total_size);
        end = at;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..Default::default() })]

    #[test]
    fn blocks_tile_segments_and_counters_equal_sums(
        steps in prop::collection::vec(step(), 1..120),
        conf in 0..CONFS.len(),
        minor in prop::sample::select(&MINORS[..]),
        increasing: bool,
        manual: bool,
    ) {
        let policy = if increasing { AddressPolicy::Increasing } else { AddressPolicy::FirstFit };
        let mut sim = simulator(CONFS[conf], minor, GIB / 4, policy);
        if manual {
            sim.set_event_policy(EventPolicy::Manual);
        }
        let (mut live, mut held) = (Vec::new(), Vec::new());
        for step in &steps {
            apply(&mut sim, step, &mut live, &mut held);
            sim.check_invariants().unwrap();
        }
        assert_tiled(&sim);

        // Freeing everything and flushing gives everything back.
        sim.set_capture(Capture::None);
        for block in live {
            sim.free(block);
        }
        for pool in 1..3 {
            sim.release_private_pool(MempoolId(0, pool));
        }
        sim.empty_cache();
        sim.check_invariants().unwrap();
        prop_assert_eq!(sim.reserved(), 0);
        prop_assert_eq!(sim.device_free(), GIB / 4);
        prop_assert_eq!(sim.segments(), []);
        prop_assert_eq!(sim.stats().active.all.current, 0);
    }

    #[test]
    fn a_state_can_be_loaded_and_goes_on_alike(
        steps in prop::collection::vec(step(), 1..80),
        more in prop::collection::vec(step(), 1..40),
        minor in prop::sample::select(&MINORS[..]),
    ) {
        // Ages of segments and of free blocks, and whether a pool has users, are not part of a recorded state.
        let mut first = simulator("", minor.min(11), GIB / 4, AddressPolicy::Increasing);
        first.set_event_policy(EventPolicy::Manual);
        let (mut live, mut held) = (Vec::new(), Vec::new());
        for step in steps.iter().filter(|step| !matches!(step, Step::RecordStream(..) | Step::SetCapture(_) | Step::ReleasePool(_))) {
            apply(&mut first, step, &mut live, &mut held);
        }
        let mut second = simulator("", minor.min(11), GIB / 4, AddressPolicy::Increasing);
        second.set_event_policy(EventPolicy::Manual);
        second.load(&initial(&first), &[]).unwrap();
        second.check_invariants().unwrap();
        prop_assert_eq!(states(&first), states(&second));
        for step in &more {
            let Step::Malloc { size, stream, pool } = step else { continue };
            let pool = MempoolId(0, *pool);
            let ours = first.malloc_in(pool, *size, *stream).map(|allocation| allocation.size);
            let theirs = second.malloc_in(pool, *size, *stream).map(|allocation| allocation.size);
            prop_assert_eq!(ours.is_ok(), theirs.is_ok());
            prop_assert_eq!(unordered(&first), unordered(&second));
        }
    }

    #[test]
    fn settings_may_change_at_any_time(
        steps in prop::collection::vec(prop_oneof![8 => step(), 1 => (0..CONFS.len()).prop_map(Step::SetRules)], 1..120),
        minor in prop::sample::select(&MINORS[..]),
    ) {
        let mut sim = simulator("", minor, GIB / 4, AddressPolicy::FirstFit);
        let (mut live, mut held) = (Vec::new(), Vec::new());
        for step in &steps {
            apply(&mut sim, step, &mut live, &mut held);
            sim.check_invariants().unwrap();
        }
    }

    #[test]
    fn any_initial_state_is_loaded_or_refused(
        ranges in prop::collection::vec((any::<u64>(), any::<u64>(), 0..3u64, any::<bool>(), any::<bool>(), 0..3usize), 0..6),
        requests in prop::collection::vec(1..64 * MIB, 0..20),
    ) {
        let segments: Vec<_> = ranges.into_iter().map(|(address, size, stream, expandable, small, status)| {
            let size = size % (1 << (size % 64));
            let all = [BlockStatus::Inactive, BlockStatus::ActiveAllocated, BlockStatus::ActivePendingFree];
            let status = all[status];
            InitialSegment {
                address, size, stream, expandable,
                kind: if small { PoolKind::Small } else { PoolKind::Large },
                pool: MempoolId(0, stream),
                blocks: vec![InitialBlock { address, size, requested: u64::MAX - size, status }],
            }
        }).collect();
        let mut sim = simulator("expandable_segments:True", 15, GIB, AddressPolicy::FirstFit);
        if sim.load(&segments, &[]).is_ok() {
            for size in requests {
                let _ = sim.malloc(size, 0);
            }
            sim.empty_cache();
            assert_tiled(&sim);
        }
    }

    #[test]
    fn any_rules_are_obeyed_or_fail(numbers in prop::collection::vec(prop_oneof![Just(0), 1..GIB, any::<u64>()], 8), sizes in prop::collection::vec(1..64 * MIB, 1..20), expandable: bool) {
        let rules = AllocatorRules {
            min_block: numbers[0], small_limit: numbers[1], small_segment: numbers[2], large_segment: numbers[3],
            large_limit: numbers[4], round_large: numbers[5], roundup_power2_divisions: [numbers[6]; 16],
            max_split_size: Some(numbers[7]), expandable, ..Default::default()
        };
        let mut sim = Simulator::new(SimulatorConfig::new(rules, GIB));
        let mut blocks: Vec<_> = sizes.iter().filter_map(|size| Some(sim.malloc(*size, 0).ok()?.block)).collect();
        blocks.truncate(5);
        for block in blocks {
            sim.free(block);
        }
        for size in sizes {
            let _ = sim.malloc(size, 0);
        }
        sim.empty_cache();
    }
}

fn initial(sim: &Simulator) -> Vec<InitialSegment> {
    let block = |b: &super::BlockState| InitialBlock {
        address: b.address,
        size: b.size,
        requested: b.requested_size,
        status: b.state,
    };
    let segment = |s: super::SegmentState| InitialSegment {
        address: s.address,
        size: s.total_size,
        stream: s.stream,
        kind: s.segment_type,
        pool: s.segment_pool_id,
        expandable: s.is_expandable,
        blocks: s.blocks.iter().map(block).collect(),
    };
    sim.segments().into_iter().map(segment).collect()
}

/// The state without the simulator's numbers of blocks.
fn states(sim: &Simulator) -> String {
    serde_json::to_string(&sim.segments()).unwrap()
}

/// The last trace entries; those of a wait for all streams have no certain order.
fn unordered(sim: &Simulator) -> Vec<(&'static str, u64)> {
    let mut entries: Vec<_> = sim.events().iter().map(|event| (event.action.name(), event.size)).collect();
    entries.sort_unstable();
    entries
}

fn actions(sim: &Simulator) -> Vec<Action> {
    sim.events().iter().map(|event| event.action).collect()
}

#[test]
fn a_block_used_by_another_stream_waits_until_the_next_request() {
    let mut sim = simulator("", 6, GIB, AddressPolicy::FirstFit);
    let block = sim.malloc(MIB, 0).unwrap().block;
    sim.record_stream(block, 1);
    sim.free(block);
    assert_eq!(actions(&sim), [Action::FreeRequested]);
    assert!(sim.is_waiting(block));
    sim.malloc(512, 0).unwrap();
    assert_eq!(actions(&sim), [Action::FreeCompleted, Action::Alloc]);
}

#[test]
fn a_use_on_its_own_stream_does_not_hold_a_block() {
    let mut sim = simulator("", 6, GIB, AddressPolicy::FirstFit);
    let block = sim.malloc(MIB, 3).unwrap().block;
    sim.record_stream(block, 3);
    sim.free(block);
    assert_eq!(actions(&sim), [Action::FreeRequested, Action::FreeCompleted]);
}

#[test]
fn a_full_flush_completes_what_waits_but_does_not_search_again() {
    let mut sim = simulator("", 6, 40 * MIB, AddressPolicy::FirstFit);
    sim.set_event_policy(EventPolicy::Manual);
    let first = sim.malloc(5 * MIB, 0).unwrap().block;
    let _second = sim.malloc(15 * MIB, 0).unwrap();
    let _third = sim.malloc(20 * MIB, 0).unwrap();
    sim.free_held(first);
    let error = sim.malloc(4 * MIB, 0).unwrap_err();
    assert!(matches!(error, MallocError::OutOfMemory(_)));
    assert_eq!(actions(&sim), [Action::FreeCompleted, Action::Oom]);
    sim.malloc(4 * MIB, 0).unwrap();
}

#[test]
fn a_capture_does_not_flush() {
    let run = |minor, capture| {
        let mut sim = simulator("", minor, 40 * MIB, AddressPolicy::FirstFit);
        let block = sim.malloc(20 * MIB, 0).unwrap().block;
        sim.free(block);
        sim.set_capture(capture);
        sim.malloc_in(MempoolId(0, 1), 30 * MIB, 0).is_ok()
    };
    assert!(run(11, Capture::None));
    assert!(!run(11, Capture::Diverted));
    assert!(run(13, Capture::Diverted));
    assert!(!run(13, Capture::Capturing));
}

#[test]
fn pools_that_help_out_are_searched_before_or_after_the_flush() {
    let run = |minor| {
        let mut sim = simulator("", minor, 60 * MIB, AddressPolicy::FirstFit);
        sim.create_pool(MempoolId(0, 1), PoolOptions { use_on_oom: true, ..Default::default() });
        let helper = sim.malloc_in(MempoolId(0, 1), 40 * MIB, 0).unwrap().block;
        sim.free(helper);
        let cached = sim.malloc(12 * MIB, 0).unwrap().block;
        sim.free(cached);
        let served = sim.malloc(25 * MIB, 0).is_ok();
        (served, actions(&sim))
    };
    assert_eq!(run(6), (false, vec![Action::SegmentFree, Action::Oom]));
    assert_eq!(run(9), (true, vec![Action::SegmentFree, Action::Alloc]));
    assert_eq!(run(11), (true, vec![Action::Alloc]));
}

#[test]
fn old_releases_assert_where_the_partial_flush_meets_expandable_memory() {
    let run = |minor| {
        let mut sim = simulator("expandable_segments:True,max_split_size_mb:64", minor, 200 * MIB, Default::default());
        let block = sim.malloc(100 * MIB, 0).unwrap().block;
        let _behind = sim.malloc(60 * MIB, 0).unwrap();
        sim.free(block);
        sim.malloc(120 * MIB, 0)
    };
    assert_eq!(run(3), Err(MallocError::Asserts));
    assert!(run(6).is_ok());
}

#[test]
fn rejection_comes_before_any_flush() {
    let mut sim = simulator("throw_on_cudamalloc_oom:True", 15, 40 * MIB, AddressPolicy::FirstFit);
    let block = sim.malloc(30 * MIB, 0).unwrap().block;
    sim.free(block);
    assert_eq!(sim.malloc(35 * MIB, 0), Err(MallocError::Rejected(35 * MIB)));
    assert_eq!(actions(&sim), []);
    assert_eq!((sim.stats().num_ooms, sim.stats().num_oom_rejections), (0, 1));
}

#[test]
fn ties_go_to_the_lowest_address_or_to_the_oldest_segment() {
    let run = |minor| {
        let mut sim = simulator("", minor, GIB, AddressPolicy::FirstFit);
        let a = sim.malloc(20 * MIB, 0).unwrap();
        let b = sim.malloc(20 * MIB, 0).unwrap();
        let c = sim.malloc(20 * MIB, 0).unwrap();
        sim.free(a.block);
        sim.empty_cache();
        // The new segment takes the lowest addresses, but is the youngest.
        let d = sim.malloc(20 * MIB, 0).unwrap();
        assert_eq!(d.addr, a.addr);
        sim.free(d.block);
        sim.free(c.block);
        sim.malloc(20 * MIB, 0).unwrap().addr == if minor < 13 { d.addr } else { c.addr } && b.addr < c.addr
    };
    assert!(run(11) && run(13));
}

#[test]
fn stale_numbers_change_nothing() {
    let mut sim = simulator("", 15, GIB, AddressPolicy::FirstFit);
    let block = sim.malloc(MIB, 0).unwrap().block;
    assert!(sim.free(block));
    assert!(!sim.free(block) && !sim.free_held(block) && !sim.complete(block));
    assert!(!sim.free(BlockId(77)));
    sim.check_invariants().unwrap();
}
