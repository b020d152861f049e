//! The parts of reserved memory along random traces: those carried from state to state are those of each state laid out.

use std::collections::BTreeMap;

use oomscope::analysis::totals::totals;
use oomscope::analysis::totals_along::totals_along;
use oomscope::history::History;
use oomscope::snapshot::{LoadOptions, load_bytes};
use proptest::prelude::*;
use serde_json::{Value, json};

const MIB: u64 = 1 << 20;

/// Segments lie in slots of this many bytes, and so do granules of the expandable reservation.
const SLOT: u64 = 20 * MIB;
const SLOTS: u64 = 12;
/// The slots from here on belong to one expandable segment.
const EXPANDABLE: u64 = 6;

/// A step of a program: what it does, where, and how large.
#[derive(Clone, Copy, Debug)]
struct Step {
    what: u8,
    slot: u64,
    offset: u64,
    units: u64,
    /// Whether it happens although nothing allows it.
    is_odd: bool,
}

fn step(odd: f64) -> impl Strategy<Value = Step> {
    (0u8..10, 0..SLOTS, 0u64..40, 1u64..30, prop::bool::weighted(odd))
        .prop_map(|(what, slot, offset, units, is_odd)| Step { what, slot, offset, units, is_odd })
}

/// The memory as the program knows it, and its trace.
#[derive(Default)]
struct Program {
    mapped: BTreeMap<u64, u64>,
    /// Bytes of each block, and whether it is pending.
    blocks: BTreeMap<u64, (u64, bool)>,
    trace: Vec<Value>,
}

impl Program {
    fn record(&mut self, action: &str, addr: u64, size: u64) {
        self.trace.push(json!({"action": action, "addr": addr, "size": size, "stream": 0, "frames": []}));
    }

    fn is_used(&self, from: u64, to: u64) -> bool {
        let before = self.blocks.range(..to).next_back();
        before.is_some_and(|(addr, (bytes, _))| addr + bytes > from)
    }

    fn step(&mut self, base: u64, step: Step) {
        let slot = base + step.slot * SLOT;
        let (map, unmap) = match step.slot >= EXPANDABLE {
            true => ("segment_map", "segment_unmap"),
            false => ("segment_alloc", "segment_free"),
        };
        let addr = slot + step.offset * MIB / 2;
        let bytes = step.units * MIB / 2;
        let is_mapped = self.mapped.contains_key(&slot);
        match step.what {
            0 | 1 if !is_mapped || step.is_odd => {
                self.record(map, slot, SLOT);
                self.mapped.insert(slot, SLOT);
            }
            2 if is_mapped && !self.is_used(slot, slot + SLOT) || step.is_odd => {
                self.record(unmap, slot, SLOT);
                self.mapped.remove(&slot);
            }
            3..=5 => {
                let fits = is_mapped && addr + bytes <= slot + SLOT && !self.is_used(addr, addr + bytes);
                if fits || step.is_odd {
                    self.record("alloc", addr, bytes - 512);
                    self.blocks.insert(addr, (bytes, false));
                }
            }
            6 | 7 => {
                let Some((&addr, &(bytes, is_pending))) = self.blocks.range(addr..).next() else { return };
                if !is_pending {
                    self.record("free_requested", addr, bytes - 512);
                }
                if step.what == 6 || is_pending {
                    self.record("free_completed", addr, bytes - 512);
                    self.blocks.remove(&addr);
                } else {
                    self.blocks.insert(addr, (bytes, true));
                }
            }
            8 => self.record("oom", 0, bytes),
            _ => {}
        }
    }

    fn document(self) -> Value {
        let mut segments: Vec<(u64, u64)> = Vec::new();
        for (&addr, &bytes) in &self.mapped {
            match segments.last_mut() {
                Some((start, size)) if *start + *size == addr && (addr / SLOT) % 16 > EXPANDABLE => *size += bytes,
                _ => segments.push((addr, bytes)),
            }
        }
        let segments: Vec<Value> = segments
            .iter()
            .map(|&(start, size)| {
                let mut blocks = Vec::new();
                let mut at = start;
                let free = |addr: u64, end: u64| json!({"address": addr, "size": end - addr, "requested_size": 0, "state": "inactive", "frames": []});
                for (&addr, &(bytes, is_pending)) in self.blocks.range(start..start + size) {
                    if addr > at {
                        blocks.push(free(at, addr));
                    }
                    let state = if is_pending { "active_pending_free" } else { "active_allocated" };
                    blocks.push(json!({"address": addr, "size": bytes, "requested_size": bytes - 512, "state": state, "frames": []}));
                    at = addr + bytes;
                }
                if at < start + size {
                    blocks.push(free(at, start + size));
                }
                json!({
                    "device": 0, "address": start, "total_size": size, "stream": 0, "segment_type": "large",
                    "segment_pool_id": [0, 0], "is_expandable": (start / SLOT) % 16 >= EXPANDABLE, "frames": [],
                    "blocks": blocks,
                })
            })
            .collect();
        json!({"segments": segments, "device_traces": [self.trace]})
    }
}

/// Carries the parts through every state of the trace of `steps`; answers in how many of them all parts are known.
fn compare(steps: &[Step]) -> Result<usize, TestCaseError> {
    let mut program = Program::default();
    for &step in steps {
        program.step(SLOT << 20, step);
    }
    let text = program.document().to_string();
    let snapshot = load_bytes(text.as_bytes(), &LoadOptions::default()).unwrap();
    let device = &snapshot.devices[0];
    let history = History::new(&snapshot, device, &snapshot.settings.rules);
    let mut known = 0;
    for (start, stride) in [(0, 1), (3, 2)] {
        let states: Vec<u32> = (start..=history.events()).step_by(stride).collect();
        for (&state, along) in states.iter().zip(totals_along(&history, &states)) {
            prop_assert_eq!(along, totals(&history, &history.state(state)), "state {}", state);
            known += usize::from(along.free.is_some());
        }
    }
    Ok(known)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn honest_traces_carry_their_parts(steps in prop::collection::vec(step(0.0), 300..600)) {
        let known = compare(&steps)?;
        prop_assert!(known > 100, "known in {known} states");
    }

    #[test]
    fn contradictory_traces_carry_their_parts(steps in prop::collection::vec(step(0.02), 300..600)) {
        compare(&steps)?;
    }
}
