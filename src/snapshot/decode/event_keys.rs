//! What the keys of a trace entry say of all entries that have them.

use super::word::Word;
use crate::snapshot::ids::StrId;
use crate::snapshot::schema::Keys;

/// The keys of a trace entry, in order.
pub(in crate::snapshot) struct EventKeys {
    pub(super) ids: Vec<StrId>,
    /// Those that the format knows.
    pub(super) set: Keys,
}

impl EventKeys {
    /// `None` when one of them is no text.
    pub(super) fn new(keys: &[Word]) -> Option<Self> {
        let ids: Option<Vec<StrId>> = keys.iter().map(|key| key.text()).collect();
        let ids = ids?;
        let mut set = Keys::default();
        ids.iter().for_each(|&id| set.insert(id));
        Some(Self { ids, set })
    }
}
