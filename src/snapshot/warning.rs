//! What is told about a file without stopping.

/// Something in the file that the reader should know about. The text says what it means for the results.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Warning {
    /// The pickle breaks off; only complete parts were used.
    #[error(
        "salvaged: the file breaks off at byte {offset}; only what was complete before it is reported. Missing: {missing}"
    )]
    Salvaged {
        /// Where it breaks off.
        offset: u64,
        /// What is lost, and what follows from that, in words.
        missing: String,
    },
    /// Keys or actions that this version does not know.
    #[error("not understood and left out: {0}")]
    Unknown(String),
    /// Sizes that no device has.
    #[error("{0} sizes are negative or above 16 TiB: they were cut, so figures that contain them are wrong")]
    ImplausibleSizes(u64),
    /// Strings that are longer than any name, or long names that too many frames share.
    #[error("{0} texts are longer than names are: only their beginning is kept")]
    CutTexts(u64),
    /// Items of a list that are not what the list should hold.
    #[error("{count} items of `{list}` are not readable, or are there twice, and were left out")]
    DroppedItems {
        /// Name of the list.
        list: &'static str,
        /// How many.
        count: usize,
    },
    /// The segments of a device contradict themselves.
    #[error("device {device}: {what}; figures that need the layout are not given")]
    Inconsistent {
        /// Device ordinal.
        device: i64,
        /// The contradiction, with its figures.
        what: String,
    },
    /// A setting in the configuration string that could not be used.
    #[error("allocator settings: {0}")]
    Setting(String),
}
