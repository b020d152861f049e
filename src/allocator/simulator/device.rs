//! The device: how much memory it has, and which addresses it gives out.
//!
//! Memory is counted in pages of 2 MiB, and a request succeeds whenever enough of them are free: address space is never
//! short, so physical fragmentation plays no part.

use std::collections::{BTreeMap, VecDeque};

use crate::allocator::MIB;

/// The unit of physical memory.
const PAGE: u64 = 2 * MIB;
/// Where `cudaMalloc` starts to look for room, and where reservations of address space do: far from each other.
const SEGMENTS: u64 = 0x7a00_0200_0000;
const RESERVATIONS: u64 = 0x7000_0000_0000;
const RESERVATIONS_END: u64 = 0x7900_0000_0000;
/// More room for reservations, and the room for addresses that are never used twice.
const HIGH: u64 = 1 << 52;
const HIGHER: u64 = 1 << 60;

/// Which addresses new segments get. They matter where two free blocks of one size compete (up to PyTorch 2.12).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AddressPolicy {
    /// The lowest free range that is big enough.
    #[default]
    FirstFit,
    /// Always above everything given out before.
    Increasing,
}

/// The simulated device. All sizes in bytes.
#[derive(Clone, Debug)]
pub(super) struct Device {
    /// What the device says it has.
    pub total: u64,
    /// What PyTorch can have of it.
    pub capacity: u64,
    used: u64,
    pub segments: AddressSpace,
    pub reservations: AddressSpace,
}

impl Device {
    pub fn new(total: u64, capacity: u64, policy: AddressPolicy) -> Self {
        let (segments, reservations) = match policy {
            AddressPolicy::FirstFit => (vec![(SEGMENTS, HIGH)], vec![(RESERVATIONS, RESERVATIONS_END), (HIGH, HIGHER)]),
            AddressPolicy::Increasing => (vec![(SEGMENTS, HIGH)], vec![(HIGH, HIGHER)]),
        };
        Self {
            total,
            capacity,
            used: 0,
            segments: AddressSpace::new(policy, segments),
            reservations: AddressSpace::new(policy, reservations),
        }
    }

    /// Bytes that are not in use.
    pub fn free_bytes(&self) -> u64 {
        self.capacity.saturating_sub(self.used)
    }

    /// `cudaMalloc`: an address, if the memory is there.
    pub fn allocate(&mut self, size: u64) -> Option<u64> {
        let size = pages(size)?;
        if size > self.free_bytes() {
            return None;
        }
        let addr = self.segments.take(size)?;
        self.used += size;
        Some(addr)
    }

    /// `cudaFree`.
    pub fn release(&mut self, addr: u64, size: u64) {
        let size = pages(size).unwrap_or(size);
        self.segments.give_back(addr, size);
        self.used = self.used.saturating_sub(size);
    }

    /// Memory for `count` granules of an expandable segment: all or nothing.
    pub fn map(&mut self, count: u64, granule: u64) -> bool {
        let size = pages(granule).and_then(|granule| granule.checked_mul(count));
        let fits = size.filter(|size| *size <= self.free_bytes());
        self.used += fits.unwrap_or(0);
        fits.is_some()
    }

    /// Gives `count` granules back.
    pub fn unmap(&mut self, count: u64, granule: u64) {
        self.used = self.used.saturating_sub(pages(granule).unwrap_or(granule).saturating_mul(count));
    }

    /// Counts memory that is in use from the start, whether it fits or not.
    pub fn occupy(&mut self, size: u64) {
        self.used = self.used.saturating_add(pages(size).unwrap_or(size));
    }
}

/// `size` in whole pages.
fn pages(size: u64) -> Option<u64> {
    size.checked_next_multiple_of(PAGE)
}

/// A range of addresses from which pieces are taken.
#[derive(Clone, Debug)]
pub(super) struct AddressSpace {
    policy: AddressPolicy,
    /// Where room is looked for. Hints may point elsewhere: real devices give out other addresses.
    windows: Vec<(u64, u64)>,
    /// Start and end of what is free.
    gaps: BTreeMap<u64, u64>,
    /// Addresses that the next requests should get, with their sizes where those have to agree.
    hints: VecDeque<(u64, Option<u64>)>,
}

impl AddressSpace {
    fn new(policy: AddressPolicy, windows: Vec<(u64, u64)>) -> Self {
        Self { policy, windows, gaps: BTreeMap::from([(PAGE, HIGHER)]), hints: VecDeque::new() }
    }

    /// Lets the next request of exactly `size` bytes get `addr`, if that is free then. Hints are used in order.
    pub fn hint(&mut self, addr: u64, size: u64) {
        self.hints.push_back((addr, Some(size)));
    }

    /// Lets the next request of any size get `addr`.
    pub fn hint_any(&mut self, addr: u64) {
        self.hints.push_back((addr, None));
    }

    /// Drops all hints.
    pub fn forget_hints(&mut self) {
        self.hints.clear();
    }

    pub fn take(&mut self, size: u64) -> Option<u64> {
        if let Some(addr) = self.hinted(size) {
            return Some(addr);
        }
        let addr = self.windows.iter().find_map(|(low, high)| {
            let fits = |(start, end): (&u64, &u64)| {
                let (start, end) = (*start.max(low), *end.min(high));
                (start < end && end - start >= size).then_some(start)
            };
            match self.policy {
                AddressPolicy::FirstFit => {
                    let first = self.gaps.range(..=low).next_back();
                    first.into_iter().chain(self.gaps.range(low + 1..*high)).find_map(fits)
                }
                AddressPolicy::Increasing => self.gaps.range(..high).next_back().and_then(fits),
            }
        })?;
        self.occupy(addr, size);
        Some(addr)
    }

    fn hinted(&mut self, size: u64) -> Option<u64> {
        let (addr, hinted) = *self.hints.front()?;
        if let Some(hinted) = hinted
            && pages(hinted)? != size
        {
            return None;
        }
        self.hints.pop_front();
        self.occupy(addr, size).then_some(addr)
    }

    /// Takes a given range out of what is free; false if any of it is taken.
    pub fn occupy(&mut self, addr: u64, size: u64) -> bool {
        let Some(end) = addr.checked_add(size) else { return false };
        let Some((&start, &gap_end)) = self.gaps.range(..=addr).next_back() else { return false };
        if gap_end < end {
            return false;
        }
        self.gaps.remove(&start);
        if start < addr {
            self.gaps.insert(start, addr);
        }
        if end < gap_end {
            self.gaps.insert(end, gap_end);
        }
        true
    }

    /// Takes out of what is free whatever of a range is free.
    pub fn carve(&mut self, addr: u64, size: u64) {
        let end = addr.saturating_add(size);
        while let Some((&start, &gap_end)) = self.gaps.range(..end).next_back()
            && gap_end > addr
        {
            self.gaps.remove(&start);
            if end < gap_end {
                self.gaps.insert(end, gap_end);
            }
            if start < addr {
                self.gaps.insert(start, addr);
            }
        }
    }

    pub fn give_back(&mut self, addr: u64, size: u64) {
        if self.policy == AddressPolicy::Increasing {
            return;
        }
        let (mut start, mut end) = (addr, addr.saturating_add(size));
        // Neighbours, and in files with odd addresses whatever overlaps, become one gap.
        while let Some((&gap, &gap_end)) = self.gaps.range(..=end).next_back()
            && gap_end >= start
        {
            self.gaps.remove(&gap);
            start = start.min(gap);
            end = end.max(gap_end);
        }
        self.gaps.insert(start, end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn device(policy: AddressPolicy) -> Device {
        Device::new(64 * MIB, 16 * MIB, policy)
    }

    #[test]
    fn first_fit_reuses_the_lowest_range() {
        let mut device = device(AddressPolicy::FirstFit);
        let a = device.allocate(3 * MIB).unwrap();
        let b = device.allocate(2 * MIB).unwrap();
        assert_eq!((a, b), (SEGMENTS, SEGMENTS + 4 * MIB));
        device.release(a, 3 * MIB);
        assert_eq!(device.allocate(6 * MIB), Some(b + 2 * MIB));
        assert_eq!(device.allocate(4 * MIB), Some(a));
        assert_eq!(device.free_bytes(), 4 * MIB);
    }

    #[test]
    fn increasing_addresses_are_never_reused() {
        let mut device = device(AddressPolicy::Increasing);
        let a = device.allocate(2 * MIB).unwrap();
        device.release(a, 2 * MIB);
        assert_eq!(device.allocate(2 * MIB), Some(a + 2 * MIB));
    }

    #[test]
    fn memory_runs_out_by_pages() {
        let mut device = device(AddressPolicy::FirstFit);
        assert!(!device.map(2, 9 * MIB));
        assert!(device.map(1, 9 * MIB));
        assert_eq!(device.free_bytes(), 6 * MIB);
        assert_eq!(device.allocate(7 * MIB), None);
        assert_eq!(device.allocate(u64::MAX), None);
        assert!(!device.map(u64::MAX, 2 * MIB));
    }

    #[test]
    fn hints_win_while_their_range_is_free() {
        let mut device = device(AddressPolicy::FirstFit);
        let hint = SEGMENTS + 10 * MIB;
        device.segments.hint(hint, 2 * MIB);
        device.segments.hint(hint, 2 * MIB);
        assert_eq!(device.allocate(2 * MIB), Some(hint));
        assert_eq!(device.allocate(2 * MIB), Some(SEGMENTS));
    }

    #[test]
    fn hints_may_lie_where_nothing_is_looked_for() {
        for policy in [AddressPolicy::FirstFit, AddressPolicy::Increasing] {
            let mut device = device(policy);
            device.segments.hint(0x5_0700_0000, 2 * MIB);
            assert_eq!(device.allocate(2 * MIB), Some(0x5_0700_0000));
            device.release(0x5_0700_0000, 2 * MIB);
            assert_eq!(device.allocate(2 * MIB), Some(SEGMENTS));
        }
    }

    #[test]
    fn carving_leaves_the_rest() {
        let mut device = device(AddressPolicy::FirstFit);
        device.segments.carve(SEGMENTS - MIB, 3 * MIB);
        assert_eq!(device.allocate(2 * MIB), Some(SEGMENTS + 2 * MIB));
    }
}
