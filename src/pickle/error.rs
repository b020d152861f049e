//! What can be wrong with a pickle.

use super::BuildError;

/// Why a pickle could not be decoded. Offsets count bytes of the uncompressed pickle from 0.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum PickleError {
    /// The input ends before the STOP opcode.
    #[error("the pickle is cut off at byte {offset}: the file is incomplete")]
    Truncated {
        /// Where the first incomplete opcode starts.
        offset: u64,
    },
    /// An opcode that imports, calls, or refers to something outside the file.
    #[error("opcode {opcode} at byte {offset} would {effect}: refused, nothing was executed")]
    Refused {
        /// Python's name of the opcode.
        opcode: &'static str,
        /// What Python would do.
        effect: &'static str,
        /// Where it stands.
        offset: u64,
    },
    /// A byte that is no opcode.
    #[error("byte {byte:#04x} at byte {offset} is no pickle opcode: the file is damaged or is not a pickle")]
    UnknownOpcode {
        /// The byte found.
        byte: u8,
        /// Where it stands.
        offset: u64,
    },
    /// An opcode whose argument or operands make no sense.
    #[error("{what} in opcode {opcode} at byte {offset}: the file is damaged")]
    Malformed {
        /// What is wrong.
        what: &'static str,
        /// Python's name of the opcode.
        opcode: &'static str,
        /// Where it stands.
        offset: u64,
    },
    /// The values do not fit together.
    #[error("{what} at byte {offset}: the file is damaged")]
    Build {
        /// What is wrong.
        what: BuildError,
        /// Where the opcode stands.
        offset: u64,
    },
    /// A limit that protects the reader was reached.
    #[error("{what} exceeds the limit of {limit} at byte {offset}: no memory snapshot needs that much")]
    Limit {
        /// What was counted.
        what: &'static str,
        /// The limit.
        limit: u64,
        /// Where the opcode stands.
        offset: u64,
    },
}

impl PickleError {
    /// The byte offset that the message names.
    pub fn offset(&self) -> u64 {
        match self {
            Self::Truncated { offset }
            | Self::Refused { offset, .. }
            | Self::UnknownOpcode { offset, .. }
            | Self::Malformed { offset, .. }
            | Self::Build { offset, .. }
            | Self::Limit { offset, .. } => *offset,
        }
    }
}
