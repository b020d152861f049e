//! The table of values that later opcodes refer to.

use hashbrown::HashMap;

/// How far beyond the end of the dense part an index may lie and still extend it.
const SLACK: usize = 1024;

/// Memo entries by index. Picklers number them 0, 1, 2 …, so they are a plain vector; a file that names far-away
/// indices gets a hash map for those, and so cannot make the vector larger than its own entries.
pub(super) struct Memo<V> {
    dense: Vec<Option<V>>,
    sparse: HashMap<u32, V, foldhash::fast::RandomState>,
    rewritten: bool,
}

impl<V: Copy> Memo<V> {
    pub(super) fn new() -> Self {
        Self { dense: Vec::new(), sparse: HashMap::default(), rewritten: false }
    }

    /// MEMOIZE: the next index in order.
    pub(super) fn push(&mut self, value: V) {
        self.dense.push(Some(value));
    }

    /// PUT, BINPUT, LONG_BINPUT.
    pub(super) fn put(&mut self, index: u32, value: V) {
        let at = index as usize;
        if at < self.dense.len() {
            self.rewritten |= self.dense[at].is_some();
            self.dense[at] = Some(value);
        } else if at <= self.dense.len() + SLACK {
            self.dense.resize(at, None);
            self.dense.push(Some(value));
        } else {
            self.rewritten |= self.sparse.insert(index, value).is_some();
        }
    }

    #[inline]
    pub(super) fn get(&self, index: u32) -> Option<V> {
        match self.dense.get(index as usize) {
            Some(Some(value)) => Some(*value),
            _ if self.sparse.is_empty() => None,
            _ => self.sparse.get(&index).copied(),
        }
    }

    /// Whether an entry was ever replaced, so that a reference may have meant something else before.
    pub(super) fn is_rewritten(&self) -> bool {
        self.rewritten
    }

    /// Bytes of memory that the entries take.
    pub(super) fn kept(&self) -> usize {
        // One byte an entry is the map's own.
        self.dense.capacity() * size_of::<Option<V>>() + self.sparse.capacity() * (size_of::<(u32, V)>() + 1)
    }

    /// Number of entries.
    pub(super) fn len(&self) -> usize {
        self.dense.len() + self.sparse.len()
    }
}
