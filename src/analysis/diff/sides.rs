//! One value for each of the files that are compared.

use serde::ser::{Serialize, SerializeMap, Serializer};

/// Most files in one comparison: each is named by a letter.
pub const MAX_FILES: usize = 26;

/// The name of file `at`: `a`, `b` and so on.
pub fn letter(at: usize) -> char {
    char::from(b'a' + at.min(MAX_FILES - 1) as u8)
}

/// One value for each file, in the order of the command line. In JSON `{"a": …, "b": …}`.
#[derive(Clone, Debug, PartialEq)]
pub struct Sides<T>(pub Vec<T>);

impl<T> Sides<T> {
    /// The first file's.
    pub fn first(&self) -> Option<&T> {
        self.0.first()
    }

    /// The last file's.
    pub fn last(&self) -> Option<&T> {
        self.0.last()
    }
}

impl<T> FromIterator<T> for Sides<T> {
    fn from_iter<I: IntoIterator<Item = T>>(values: I) -> Self {
        Self(values.into_iter().collect())
    }
}

impl<T: Serialize> Serialize for Sides<T> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut map = to.serialize_map(Some(self.0.len()))?;
        for (at, value) in self.0.iter().enumerate() {
            map.serialize_entry(&letter(at), value)?;
        }
        map.end()
    }
}

/// `after` less `before`; what does not fit is cut.
pub fn delta(before: u64, after: u64) -> i64 {
    i64::try_from(i128::from(after) - i128::from(before)).unwrap_or(if after > before { i64::MAX } else { i64::MIN })
}
