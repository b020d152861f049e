//! The simulator, under any settings and any calls: its counters are the sums over its blocks, which tile the segments,
//! and it gives everything back.
#![no_main]

use libfuzzer_sys::fuzz_target;
use oomscope::allocator::{
    AllocatorSettings, Behaviour, GIB, MIB, MempoolId, Simulator, SimulatorConfig, TorchVersion,
};

const CONFS: [&str; 8] = [
    "",
    "expandable_segments:True",
    "max_split_size_mb:64",
    "max_split_size_mb:32,max_non_split_rounding_mb:64",
    "garbage_collection_threshold:0.5,per_process_memory_fraction:0.8",
    "roundup_power2_divisions:[1:2,64:4,>:8]",
    "large_segment_size_mb:33,expandable_segments:True",
    "throw_on_cudamalloc_oom:True",
];

const MINORS: [u16; 7] = [1, 3, 4, 6, 9, 11, 15];

fuzz_target!(|input: (u8, String, u8, Vec<(u8, u8, u64)>)| {
    let (conf, text, minor, calls) = input;
    let conf = match CONFS.get(usize::from(conf % 16)) {
        Some(known) => format!("{known},{text}"),
        None => text,
    };
    let version = TorchVersion::new(2, MINORS[usize::from(minor) % MINORS.len()]);
    let rules = AllocatorSettings::parse(&conf, Some(version)).rules;
    let mut simulator = Simulator::new(SimulatorConfig {
        behaviour: Behaviour::of(version),
        ..SimulatorConfig::new(rules, GIB)
    });
    let mut live = Vec::new();
    for (kind, stream, number) in calls.into_iter().take(300) {
        let at = |live: &Vec<_>| number as usize % live.len();
        match kind % 8 {
            0..=3 => {
                let size = match kind / 8 % 4 {
                    0 => number % 4096,
                    1 => number % (2 * MIB),
                    2 => number % (120 * MIB),
                    _ => number,
                };
                let pool = MempoolId(0, u64::from(stream / 4 % 3));
                if let Ok(allocation) = simulator.malloc_in(pool, size, u64::from(stream % 4)) {
                    live.push(allocation.block);
                }
            }
            4 | 5 if !live.is_empty() => {
                let block = live.swap_remove(at(&live));
                assert!(simulator.free(block));
            }
            6 if !live.is_empty() => simulator.record_stream(live[at(&live)], u64::from(stream % 4)),
            7 => simulator.empty_cache(),
            _ => {}
        }
        simulator.check_invariants().unwrap();
    }
    for block in live {
        simulator.free(block);
    }
    for pool in 1..3 {
        simulator.release_private_pool(MempoolId(0, pool));
    }
    simulator.empty_cache();
    simulator.check_invariants().unwrap();
    assert_eq!((simulator.reserved(), simulator.device_free()), (0, GIB));
});
