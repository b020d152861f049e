//! The private pool of each request, which the trace names from torch 2.12 on only.

use super::History;
use crate::snapshot::{Action, PoolId};

impl History<'_> {
    /// The pool of each event, by event number. Where the trace has none, a request's pool is that of the memory which
    /// covered its address at that time; memory that is gone at the end counts as the default pool's.
    ///
    /// The final segments alone would not do: a capture starts with `empty_cache`, and its pool takes over addresses.
    pub fn pools(&self) -> Vec<PoolId> {
        let recorded = &self.snapshot.events.pool;
        if recorded.is_used() {
            return (0..self.events()).map(|event| recorded.get(self.row(event))).collect();
        }
        let mut pools = vec![PoolId::DEFAULT; self.events() as usize];
        if self.ranges.kinds.iter().all(|range| range.pool == PoolId::DEFAULT) {
            return pools;
        }
        let mut walk = self.ranges.walk();
        for event in 0..self.events() {
            let row = self.row(event);
            if self.snapshot.events.action[row] == Action::Alloc {
                walk.advance(event);
                if let Some((_, range)) = walk.containing(self.snapshot.events.addr[row]) {
                    pools[event as usize] = walk.kind(range).pool;
                }
            }
        }
        pools
    }

    /// The pool of each life, by [`LifeId`](super::LifeId): see [`History::pools`]. A block from before the trace lies in
    /// the pool of the memory that it lay in when the trace began.
    pub fn pools_of_lives(&self) -> Vec<PoolId> {
        let of_event = self.pools();
        let walk = self.ranges.walk();
        let at_start = |addr| walk.containing(addr).map_or(PoolId::DEFAULT, |(_, range)| walk.kind(range).pool);
        let pool = |life| match self.lives.alloc_event(life) {
            Some(event) => of_event[event as usize],
            None => at_start(self.lives.addr(life)),
        };
        self.lives.ids().map(pool).collect()
    }
}
