//! A decoded value in eight bytes.

use std::num::{NonZeroU32, NonZeroU64};

use crate::snapshot::ids::StrId;

/// A value, or a handle to one: three bits of tag, 61 bits of payload. No tag is 0, so that an absent word, as the memo
/// has them, takes no more room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(in crate::snapshot) struct Word(NonZeroU64);

const TAG_BITS: u32 = 3;

const INT: NonZeroU64 = tag(1);
const TEXT: NonZeroU64 = tag(2);
const LIST: NonZeroU64 = tag(3);

const fn tag(tag: u64) -> NonZeroU64 {
    NonZeroU64::new(tag).unwrap()
}

/// A [`Word`] whose upper half only repeats its sign: any but that of a large integer.
#[derive(Clone, Copy)]
pub(in crate::snapshot) struct Short(NonZeroU32);

/// What a [`Word`] holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Item {
    None,
    Bool(bool),
    /// An integer of at most 61 bits.
    Int(i64),
    Text(StrId),
    /// A row of the table of lists.
    List(u32),
    /// A row of the table of dicts.
    Dict(u32),
    /// A row of the table of pairs.
    Pair(u32),
    /// A row of the table of numbers that need more room.
    Wide(u32),
}

impl Word {
    #[inline]
    fn tagged(payload: u64, tag: NonZeroU64) -> Self {
        Self(tag | payload << TAG_BITS)
    }

    /// `value`, when it fits.
    #[inline]
    pub(super) fn int(value: i64) -> Option<Self> {
        let word = value << TAG_BITS;
        (word >> TAG_BITS == value).then(|| Self::new(Item::Int(value)))
    }

    #[inline]
    pub(super) fn new(item: Item) -> Self {
        match item {
            Item::Int(value) => Self::tagged(value as u64, INT),
            Item::Text(id) => Self::tagged(id.0.into(), TEXT),
            Item::List(row) => Self::tagged(row.into(), LIST),
            Item::Dict(row) => Self::tagged(row.into(), const { tag(4) }),
            Item::Pair(row) => Self::tagged(row.into(), const { tag(5) }),
            Item::Wide(row) => Self::tagged(row.into(), const { tag(6) }),
            Item::None => Self::tagged(0, const { tag(7) }),
            Item::Bool(value) => Self::tagged(1 + u64::from(value), const { tag(7) }),
        }
    }

    /// Its lower half, which is enough unless it is a large integer.
    #[inline]
    pub(super) fn short(self) -> Short {
        // Never the minimum in place of 0: the tag is in the lower half.
        Short(NonZeroU32::new(self.0.get() as u32).unwrap_or(NonZeroU32::MIN))
    }

    /// The integer that it is, if it is one of at most 61 bits.
    #[inline]
    pub(super) fn small(self) -> Option<i64> {
        if self.tag() == INT.get() { Some(self.0.get() as i64 >> TAG_BITS) } else { None }
    }

    /// The text that it is, if it is one.
    #[inline]
    pub(super) fn text(self) -> Option<StrId> {
        if self.tag() == TEXT.get() { Some(StrId((self.0.get() >> TAG_BITS) as u32)) } else { None }
    }

    /// The number of the list that it is, if it is one.
    #[inline]
    pub(super) fn list(self) -> Option<u32> {
        if self.tag() == LIST.get() { Some((self.0.get() >> TAG_BITS) as u32) } else { None }
    }

    #[inline]
    fn tag(self) -> u64 {
        self.0.get() & ((1 << TAG_BITS) - 1)
    }

    #[inline]
    pub(super) fn item(self) -> Item {
        let word = self.0.get();
        let payload = (word >> TAG_BITS) as u32;
        match self.tag() {
            1 => Item::Int((word as i64) >> TAG_BITS),
            2 => Item::Text(StrId(payload)),
            3 => Item::List(payload),
            4 => Item::Dict(payload),
            5 => Item::Pair(payload),
            6 => Item::Wide(payload),
            _ if payload == 0 => Item::None,
            _ => Item::Bool(payload == 2),
        }
    }
}

impl Short {
    #[inline]
    pub(super) fn word(self) -> Word {
        Word(NonZeroU64::from(self.0) | i64::from(self.0.get() as i32) as u64)
    }
}

/// A number that does not fit a [`Word`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Wide {
    Signed(i64),
    Unsigned(u64),
    Float(f64),
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::snapshot::ids::MAX_ROWS;

    #[test]
    fn integers_keep_their_sign() {
        for value in [0, -1, 1, 1 << 59, -(1 << 60)] {
            assert_eq!(Word::int(value).unwrap().item(), Item::Int(value));
        }
        assert!(Word::int(i64::MAX).is_none());
        assert!(Word::int(1 << 60).is_none());
        assert!(Word::int(-(1 << 60) - 1).is_none());
        assert_eq!(size_of::<Option<Word>>(), 8);
    }

    fn items(ends: [u32; 2]) -> impl Iterator<Item = Item> {
        let of = |item: fn(u32) -> Item| ends.map(item);
        let rows = [of(|id| Item::Text(StrId(id))), of(Item::List), of(Item::Dict), of(Item::Pair), of(Item::Wide)];
        rows.into_iter().flatten().chain([Item::None, Item::Bool(false), Item::Bool(true)])
    }

    #[test]
    fn items_survive() {
        for item in items([0, u32::MAX]) {
            assert_eq!(Word::new(item).item(), item);
        }
    }

    #[test]
    fn the_lower_half_is_enough() {
        for item in items([0, MAX_ROWS]).chain([0, -1, 1 << 27, -(1 << 28)].map(Item::Int)) {
            assert_eq!(Word::new(item).short().word().item(), item);
        }
        let large = Word::new(Item::Int(1 << 28));
        assert_ne!(large.short().word(), large);
        assert_eq!(size_of::<Option<Short>>(), 4);
    }
}
