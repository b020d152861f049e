//! One band a class of block sizes.

use super::bands::Bands;
use crate::allocator::{GIB, KIB, MIB};
use crate::history::History;
use crate::units::bytes_short;

/// Upper ends of the classes, in bytes; blocks above the last are a class too. 1 MiB and 10 MiB are where the
/// allocator's own pools and segment sizes change.
const ENDS: [u64; 8] = [4 * KIB, 64 * KIB, MIB, 4 * MIB, 10 * MIB, 64 * MIB, 256 * MIB, GIB];

/// The names of the classes, largest blocks first.
pub fn size_classes() -> impl Iterator<Item = String> {
    (0..=ENDS.len()).rev().map(name)
}

/// Largest blocks first.
pub(super) fn bands(history: &History) -> Bands {
    let lives = &history.lives;
    let class = |bytes: u64| (ENDS.len() - ENDS.partition_point(|&end| end < bytes)) as u32;
    let of_life: Vec<u32> = lives.ids().map(|life| class(lives.bytes(life))).collect();
    let mut is_used = [false; ENDS.len() + 1];
    of_life.iter().for_each(|&class| is_used[class as usize] = true);
    let used: Vec<usize> = (0..is_used.len()).filter(|&class| is_used[class]).collect();
    let band_of = |class: u32| used.iter().position(|&other| other == class as usize).unwrap_or(used.len()) as u32;
    Bands {
        labels: used.iter().map(|&class| (name(ENDS.len() - class), None)).collect(),
        of_life: of_life.into_iter().map(band_of).collect(),
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
