//! One band a class of block sizes.

use crate::allocator::{GIB, KIB, MIB};
use crate::analysis::ranking::LifeGroups;
use crate::history::History;
use crate::units::bytes_short;

/// Upper ends of the classes, in bytes; blocks above the last are a class too. 1 MiB and 10 MiB are where the
/// allocator's own pools and segment sizes change.
const ENDS: [u64; 8] = [4 * KIB, 64 * KIB, MIB, 4 * MIB, 10 * MIB, 64 * MIB, 256 * MIB, GIB];

/// The names of the classes, largest blocks first.
pub fn size_classes() -> impl Iterator<Item = String> {
    (0..=ENDS.len()).rev().map(name)
}

/// Blocks by the class of their size.
pub fn by_size(history: &History) -> LifeGroups {
    let lives = &history.lives;
    let class = |bytes: u64| (ENDS.len() - ENDS.partition_point(|&end| end < bytes)) as u32;
    LifeGroups {
        by: "size",
        of_life: lives.ids().map(|life| class(lives.bytes(life))).collect(),
        names: size_classes().collect(),
        note: None,
    }
}

/// The name of the class that ends at row `end` of [`ENDS`].
fn name(end: usize) -> String {
    let from = end.checked_sub(1).and_then(|before| ENDS.get(before)).copied();
    match (from, ENDS.get(end).copied()) {
        (None, Some(to)) => format!("up to {}", bytes_short(to)),
        (Some(from), Some(to)) => format!("{} to {}", bytes_short(from), bytes_short(to)),
        (from, None) => format!("above {}", bytes_short(from.unwrap_or(0))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_cover_every_size() {
        assert_eq!(name(0), "up to 4 KiB");
        assert_eq!(name(3), "1 MiB to 4 MiB");
        assert_eq!(name(8), "above 1 GiB");
    }
}
