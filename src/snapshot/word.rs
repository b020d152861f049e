//! A decoded value in eight bytes.

use super::ids::StrId;

/// A value, or a handle to one: three bits of tag, 61 bits of payload.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Word(u64);

const TAG_BITS: u32 = 3;

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
    /// `value`, when it fits.
    #[inline]
    pub(super) fn int(value: i64) -> Option<Self> {
        let word = (value as u64) << TAG_BITS;
        ((word as i64) >> TAG_BITS == value).then_some(Self(word))
    }

    #[inline]
    pub(super) fn new(item: Item) -> Self {
        let tagged = |payload: u32, tag: u64| Self(u64::from(payload) << TAG_BITS | tag);
        match item {
            Item::Int(value) => Self((value as u64) << TAG_BITS),
            Item::Text(id) => tagged(id.0, 1),
            Item::List(row) => tagged(row, 2),
            Item::Dict(row) => tagged(row, 3),
            Item::Pair(row) => tagged(row, 4),
            Item::Wide(row) => tagged(row, 5),
            Item::Bool(value) => tagged(u32::from(value), 6),
            Item::None => tagged(0, 7),
        }
    }

    #[inline]
    pub(super) fn item(self) -> Item {
        let payload = (self.0 >> TAG_BITS) as u32;
        match self.0 & ((1 << TAG_BITS) - 1) {
            0 => Item::Int((self.0 as i64) >> TAG_BITS),
            1 => Item::Text(StrId(payload)),
            2 => Item::List(payload),
            3 => Item::Dict(payload),
            4 => Item::Pair(payload),
            5 => Item::Wide(payload),
            6 => Item::Bool(payload == 1),
            _ => Item::None,
        }
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

    #[test]
    fn integers_keep_their_sign() {
        for value in [0, -1, 1, 1 << 59, -(1 << 60)] {
            assert_eq!(Word::int(value).unwrap().item(), Item::Int(value));
        }
        assert!(Word::int(i64::MAX).is_none());
        assert!(Word::int(-(1 << 61)).is_none());
    }
}
