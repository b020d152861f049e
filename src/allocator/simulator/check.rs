//! What must hold between any two calls. For tests and for those who doubt.

use super::block::{NONE, State};
use super::free_set::FreeKey;
use super::{Block, PoolKind, Simulator};

impl Simulator {
    /// Compares the blocks with the sets, the chains, the sums and the statistics; the error says what is wrong.
    pub fn check_invariants(&self) -> Result<(), String> {
        for (id, block) in self.blocks.iter() {
            self.check_chain(id, block)?;
            self.check_set(id, block)?;
        }
        let listed: usize = self.lists.iter().map(|list| list.free.iter().count() + list.unmapped.len()).sum();
        let free = self.blocks.iter().filter(|(_, block)| block.is_available()).count();
        if listed != free {
            return Err(format!("{listed} blocks in the sets, {free} free"));
        }
        self.check_overlap()?;
        self.check_sums()
    }

    fn check_chain(&self, id: u32, block: &Block) -> Result<(), String> {
        let Some(next) = self.blocks.neighbour(block.next) else { return Ok(()) };
        let linked = next.prev == id && next.addr == block.end() && next.state != State::Vacant;
        if !linked || next.list != block.list || next.age != block.age || next.expandable != block.expandable {
            return Err(format!("block {id} at {:#x} and the one behind it do not fit", block.addr));
        }
        if block.is_available() && next.is_available() && block.state == next.state {
            return Err(format!("block {id} at {:#x} is not merged with the one behind it", block.addr));
        }
        Ok(())
    }

    fn check_set(&self, id: u32, block: &Block) -> Result<(), String> {
        let list = &self.lists[block.list as usize];
        let found = match block.state {
            State::Unmapped => list.unmapped.get(&block.addr) == Some(&id),
            _ => list.free.contains(&FreeKey::of(block, self.behaviour.tie_break), id),
        };
        if found != block.is_available() {
            return Err(format!("block {id} at {:#x} is in the wrong set", block.addr));
        }
        Ok(())
    }

    fn check_overlap(&self) -> Result<(), String> {
        let mut ranges: Vec<_> = self.blocks.iter().map(|(_, block)| (block.addr, block.end())).collect();
        ranges.sort_unstable();
        match ranges.windows(2).find(|pair| pair[0].1 > pair[1].0) {
            Some(pair) => Err(format!("blocks at {:#x} and {:#x} overlap", pair[0].0, pair[1].0)),
            None => Ok(()),
        }
    }

    fn check_sums(&self) -> Result<(), String> {
        for kind in [PoolKind::Small, PoolKind::Large] {
            let blocks = || self.blocks.iter().filter(move |(id, _)| self.kind(*id) == kind).map(|(_, block)| block);
            let allocated = || blocks().filter(|block| block.state == State::Allocated);
            let active = || blocks().filter(|block| block.is_mapped() && !block.is_available());
            let plain = || blocks().filter(|block| !block.is_expandable());
            let split = || plain().filter(|block| block.is_available() && block.is_split());
            let size = |block: &Block| block.size;
            let stats = &self.stats;
            let sums = [
                ("allocation", &stats.allocation, allocated().count() as u64),
                ("allocated_bytes", &stats.allocated_bytes, allocated().map(size).sum()),
                ("active", &stats.active, active().count() as u64),
                ("active_bytes", &stats.active_bytes, active().map(size).sum()),
                (
                    "requested_bytes",
                    &stats.requested_bytes,
                    active().fold(0u64, |sum, block| sum.saturating_add(block.requested)),
                ),
                ("reserved_bytes", &stats.reserved_bytes, blocks().filter(|b| b.is_mapped()).map(size).sum()),
                ("segment", &stats.segment, plain().filter(|block| block.prev == NONE).count() as u64),
                ("inactive_split", &stats.inactive_split, split().count() as u64),
                ("inactive_split_bytes", &stats.inactive_split_bytes, split().map(size).sum()),
            ];
            for (name, stat, sum) in sums {
                let stat = if kind == PoolKind::Small { stat.small_pool } else { stat.large_pool };
                let consistent = stat.current.checked_add(stat.freed) == Some(stat.allocated);
                if stat.current != sum || stat.peak < stat.current || !consistent {
                    return Err(format!("{name} of the {kind:?} pools is {stat:?}, the blocks say {sum}"));
                }
            }
        }
        let mapped: u64 = self.blocks.iter().filter(|(_, block)| block.is_mapped()).map(|(_, block)| block.size).sum();
        if mapped != self.reserved || mapped != self.stats.reserved_bytes.all.current {
            return Err(format!("{mapped} bytes are mapped, {} reserved", self.reserved));
        }
        Ok(())
    }
}
