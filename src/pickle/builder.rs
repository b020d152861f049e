//! Where decoded values go.

/// Receives the values of a pickle (or of any other nested text) and answers with a handle for each.
///
/// Handles are `Copy`: a container may be referred to again, and filled, after it was first handed out, because the
/// pickle memo shares objects by identity.
pub trait Builder {
    /// A handle to a value.
    type Value: Copy;
    /// A handle as the memo keeps it. It has an entry for every container of a file, so that this should be small.
    type Kept: Copy;
    /// What is known of an entry by its keys.
    type EntryKeys;

    /// What the memo keeps of `value`.
    fn keep(&mut self, value: Self::Value) -> Self::Kept;
    /// The value of which `kept` was kept.
    fn recall(&self, kept: Self::Kept) -> Self::Value;

    /// Python's `None`.
    fn none(&mut self) -> Self::Value;
    /// `True` or `False`.
    fn bool(&mut self, value: bool) -> Self::Value;
    /// An integer that fits 64 signed bits.
    fn int(&mut self, value: i64) -> Self::Value;
    /// An integer from 2^63 to 2^64 − 1.
    fn uint(&mut self, value: u64) -> Self::Value;
    /// A float, or an integer of more than 64 bits.
    fn float(&mut self, value: f64) -> Self::Value;
    /// A string in UTF-8 (possibly malformed), or raw bytes.
    fn text(&mut self, value: &[u8]) -> Self::Value;
    /// A tuple, complete.
    fn tuple(&mut self, items: &[Self::Value]) -> Self::Value;
    /// A new empty list.
    fn list(&mut self) -> Self::Value;
    /// Appends `items` to `list`. `whole` tells that the items come in one batch, not one by one.
    fn append(&mut self, list: Self::Value, items: &[Self::Value], whole: bool) -> Result<(), BuildError>;
    /// A new empty dict.
    fn dict(&mut self) -> Self::Value;
    /// What `value` is, as far as closing an unfinished pickle needs to know.
    fn kind(&self, value: Self::Value) -> Kind;
    /// Sets `pairs` (key, value, key, value …; always an even number) in `dict`.
    fn set_items(&mut self, dict: Self::Value, pairs: &[Self::Value]) -> Result<(), BuildError>;

    /// What [`set_entry`](Self::set_entry) needs to know of these keys, when a dict that has them, in this order, may come
    /// by it: those of which a file has most. When a dict may, one with the first of its keys alone may, too.
    fn entry_keys(&self, keys: &[Self::Value]) -> Option<Self::EntryKeys>;
    /// What [`set_items`](Self::set_items) does with `keys` and one of `values` for each, for a dict that is still empty.
    fn set_entry(
        &mut self,
        dict: Self::Value,
        keys: &Self::EntryKeys,
        values: &[Self::Value],
    ) -> Result<(), BuildError>;
    /// A new list with the items that `list` got in one batch. `None` when it may have changed since, or one of its
    /// items.
    fn list_like(&mut self, _list: Self::Value) -> Option<Self::Value> {
        None
    }
}

/// What a handle stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A list, whatever it holds.
    List,
    /// A dict, whatever it holds.
    Dict,
    /// A string: the only kind of key that a snapshot has.
    Text,
    /// Anything else.
    Other,
}

/// Why a builder cannot take a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// Items were appended to something that is not a list.
    #[error("items are appended to something that is not a list")]
    NotAList,
    /// Pairs were set in something that is not a dict.
    #[error("pairs are set in something that is not a dict")]
    NotADict,
    /// More values of one kind than the ids can count.
    #[error("more {0} than can be numbered")]
    TooMany(&'static str),
}
