//! A decoded value in eight bytes.

use std::num::NonZeroU64;

use super::ids::StrId;

/// A value, or a handle to one: three bits of tag, 61 bits of payload. No tag is 0, so that an absent word, of which
/// the memo may have many, needs no room of its own.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Word(NonZeroU64);

const TAG_BITS: u32 = 3;

const INT: u64 = 1;
const TEXT: u64 = 2;
const LIST: u64 = 3;
const DICT: u64 = 4;
const PAIR: u64 = 5;
const WIDE: u64 = 6;
const CONSTANT: u64 = 7;

/// Payloads of [`CONSTANT`].
const FALSE: u32 = 0;
const TRUE: u32 = 1;
const NONE: u32 = 2;

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
    fn tagged(payload: u64, tag: u64) -> Self {
        // The tag is not 0, so neither is the word.
        Self(NonZeroU64::new(payload << TAG_BITS | tag).unwrap_or(NonZeroU64::MIN))
    }

    /// `value`, when it fits.
    #[inline]
    pub(super) fn int(value: i64) -> Option<Self> {
        ((value << TAG_BITS) >> TAG_BITS == value).then(|| Self::tagged(value as u64, INT))
    }

    #[inline]
    pub(super) fn new(item: Item) -> Self {
        match item {
            Item::Int(value) => Self::tagged(value as u64, INT),
            Item::Text(id) => Self::tagged(id.0.into(), TEXT),
            Item::List(row) => Self::tagged(row.into(), LIST),
            Item::Dict(row) => Self::tagged(row.into(), DICT),
            Item::Pair(row) => Self::tagged(row.into(), PAIR),
            Item::Wide(row) => Self::tagged(row.into(), WIDE),
            Item::Bool(value) => Self::tagged(u64::from(if value { TRUE } else { FALSE }), CONSTANT),
            Item::None => Self::tagged(NONE.into(), CONSTANT),
        }
    }

    #[inline]
    pub(super) fn item(self) -> Item {
        let word = self.0.get();
        let payload = (word >> TAG_BITS) as u32;
        match word & ((1 << TAG_BITS) - 1) {
            INT => Item::Int((word as i64) >> TAG_BITS),
            TEXT => Item::Text(StrId(payload)),
            LIST => Item::List(payload),
            DICT => Item::Dict(payload),
            PAIR => Item::Pair(payload),
            WIDE => Item::Wide(payload),
            _ => match payload {
                FALSE => Item::Bool(false),
                TRUE => Item::Bool(true),
                _ => Item::None,
            },
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
