//! Invariants of the segments: a file that breaks them is read all the same, and said to be broken.

use super::segments::BlockState;
use super::{Device, Snapshot, Warning};

impl Snapshot {
    /// Checks each device's segments and marks those that contradict themselves.
    pub(super) fn check(&mut self) {
        let mut devices = std::mem::take(&mut self.devices);
        for device in &mut devices {
            if let Some(what) = self.contradiction(device) {
                device.consistent = false;
                self.warnings.push(Warning::Inconsistent { device: device.ordinal, what });
            }
        }
        self.devices = devices;
    }

    /// The first contradiction in the segments of `device`, in words.
    fn contradiction(&self, device: &Device) -> Option<String> {
        let mut end = 0;
        for segment in self.segments_of(device) {
            let name = format!("segment {:#x}", segment.address);
            if segment.address < end {
                return Some(format!("{name} overlaps the one before it"));
            }
            end = segment.end();
            if end - segment.address != segment.total_size {
                return Some(format!("{name} reaches beyond the last address"));
            }
            let blocks = self.blocks_of(segment);
            let mut next = segment.address;
            let mut sums = (0u64, 0u64, 0u64);
            for block in blocks {
                if block.address != next {
                    return Some(format!("{name} has a gap or an overlap between its blocks at {:#x}", block.address));
                }
                next = block.end();
                if block.state == BlockState::Allocated {
                    sums.0 = sums.0.saturating_add(block.size);
                }
                if block.is_active() {
                    sums.1 = sums.1.saturating_add(block.size);
                    sums.2 = sums.2.saturating_add(block.requested);
                    if block.requested > block.size {
                        return Some(format!(
                            "{name} has a block of {} B that holds {} B",
                            block.size, block.requested
                        ));
                    }
                }
            }
            if next != end {
                return Some(format!(
                    "{name} is {} B, but its blocks are {} B",
                    segment.total_size,
                    next - segment.address
                ));
            }
            let stated = [
                ("allocated_size", segment.allocated_size, sums.0),
                ("active_size", segment.active_size, sums.1),
                ("requested_size", segment.requested_size, sums.2),
            ];
            for (key, stated, summed) in stated {
                if let Some(stated) = stated
                    && stated != summed
                {
                    return Some(format!("{name} states {key} {stated} B, but its blocks sum to {summed} B"));
                }
            }
        }
        None
    }
}
