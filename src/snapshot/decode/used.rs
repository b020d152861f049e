//! Which rows of a table were used.

use std::ops::Range;

/// A set of rows, one bit each: a few bytes can refer to the same row again and again.
pub(super) struct Used(Vec<u64>);

impl Used {
    /// Of a table of so many `rows`.
    pub(super) fn of(rows: usize) -> Self {
        Self(vec![0; rows.div_ceil(64)])
    }

    /// Uses `row`, unless it was used before. Rows may be added meanwhile.
    pub(super) fn take(&mut self, row: u32) -> bool {
        let (at, bit) = (row as usize / 64, 1 << (row % 64));
        if at >= self.0.len() {
            self.0.resize(at + 1, 0);
        }
        let is_new = self.0[at] & bit == 0;
        self.0[at] |= bit;
        is_new
    }

    /// Uses all of `rows`, unless one was used before.
    pub(super) fn take_all(&mut self, rows: Range<u32>) -> bool {
        let words = rows.start as usize / 64..(rows.end as usize).div_ceil(64);
        let masks = words.clone().map(|word| {
            let below = (rows.start as usize).saturating_sub(64 * word);
            let above = (64 * (word + 1)).saturating_sub(rows.end as usize);
            u64::MAX << below & u64::MAX >> above
        });
        let Some(bits) = self.0.get_mut(words) else { return false };
        let is_new = bits.iter().zip(masks.clone()).all(|(bits, mask)| bits & mask == 0);
        if is_new {
            bits.iter_mut().zip(masks).for_each(|(bits, mask)| *bits |= mask);
        }
        is_new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_used_once() {
        let mut used = Used::of(300);
        assert!(used.take_all(60..130));
        assert!(!used.take_all(129..200), "one of them was used");
        assert!(used.take_all(130..300) && used.take_all(0..60) && used.take_all(7..7));
        assert!((0..300).all(|row| !used.take(row)));
        assert!(used.take(1000), "rows that were added");
        assert!(!used.take(1000) && used.take(999));
        assert!(!used.take_all(900..5000), "not all of them exist");
    }
}
