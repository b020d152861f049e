//! Requests a second of the allocator's simulator, by the number of live blocks.
//!
//! Each round frees a block chosen at random and requests a new one, so that the number of live blocks stays.

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use oomscope::allocator::{AllocatorSettings, BlockId, KIB, MIB, Simulator, SimulatorConfig};

/// Rounds a measurement.
const ROUNDS: u64 = 10_000;

/// A small generator with a fixed seed: the same requests in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        // The high half of the product, which is cheaper than a remainder.
        ((u128::from(self.0) * u128::from(n)) >> 64) as u64
    }

    /// Mostly small tensors, some activations, few weights, as training has them.
    fn size(&mut self) -> u64 {
        match self.below(8) {
            0..4 => 1 + self.below(16 * KIB),
            4..6 => 1 + self.below(MIB),
            6 => MIB + self.below(9 * MIB),
            _ => 10 * MIB + self.below(54 * MIB),
        }
    }
}

fn fill(conf: &str, live: usize, random: &mut Random) -> (Simulator, Vec<BlockId>) {
    let rules = AllocatorSettings::parse(conf, None).rules;
    // Room for everything: what is measured is the search, not the out-of-memory path.
    let mut simulator = Simulator::new(SimulatorConfig::new(rules, 1 << 46));
    let mut blocks: Vec<BlockId> =
        (0..2 * live).map(|_| simulator.malloc(random.size(), 0).expect("the device is big enough").block).collect();
    while blocks.len() > live {
        let at = random.below(blocks.len() as u64) as usize;
        simulator.free(blocks.swap_remove(at));
    }
    (simulator, blocks)
}

fn churn(simulator: &mut Simulator, blocks: &mut [BlockId], random: &mut Random) {
    for _ in 0..ROUNDS {
        let at = random.below(blocks.len() as u64) as usize;
        simulator.free(blocks[at]);
        blocks[at] = simulator.malloc(random.size(), 0).expect("the device is big enough").block;
        black_box(simulator.events());
    }
}

fn requests(c: &mut Criterion) {
    let confs = [
        ("default", ""),
        ("expandable", "expandable_segments:True"),
        ("split", "max_split_size_mb:64"),
        ("roundup", "roundup_power2_divisions:8"),
    ];
    for (name, conf) in confs {
        let mut group = c.benchmark_group(format!("allocator/{name}"));
        // A request and a free.
        group.throughput(Throughput::Elements(2 * ROUNDS));
        for live in [1_000, 10_000, 100_000, 1_000_000] {
            if name != "default" && live > 100_000 {
                continue;
            }
            let mut random = Random(0x9e37_79b9_7f4a_7c15);
            let (mut simulator, mut blocks) = fill(conf, live, &mut random);
            group.bench_with_input(BenchmarkId::from_parameter(live), &live, |bencher, _| {
                bencher.iter(|| churn(&mut simulator, &mut blocks, &mut random));
            });
        }
        group.finish();
    }
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(20);
    targets = requests
}
criterion_main!(benches);
