//! PyTorch release numbers.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

/// A PyTorch release, major and minor (`2.6`): patch releases do not change the allocator or the snapshot format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TorchVersion {
    /// 2 in "2.6".
    pub major: u16,
    /// 6 in "2.6".
    pub minor: u16,
}

impl TorchVersion {
    /// The newest release whose behaviour was compared with the rules here.
    pub const NEWEST: Self = Self::new(2, 15);

    /// The release `major.minor`.
    pub const fn new(major: u16, minor: u16) -> Self {
        Self { major, minor }
    }
}

impl fmt::Display for TorchVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// Text that is no release number.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{0}` is not a PyTorch version; write it as 2.6 or 2.6.0+cu124")]
pub struct ParseVersionError(String);

impl FromStr for TorchVersion {
    type Err = ParseVersionError;

    /// Reads `2.6`, and also what `torch.__version__` says, such as `2.6.0+cu124`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let error = || ParseVersionError(text.to_owned());
        let (major, rest) = text.trim().split_once('.').ok_or_else(error)?;
        let minor = rest.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
        Ok(Self { major: major.parse().map_err(|_| error())?, minor: minor.parse().map_err(|_| error())? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_in_every_form_torch_writes() {
        for text in ["2.6", "2.6.0", "2.6.0+cu124", " 2.6.0a0+git123 ", "2.6a1"] {
            assert_eq!(text.parse(), Ok(TorchVersion::new(2, 6)), "{text}");
        }
        for text in ["", "2", "two.six", "2.", "2.99999999", "-1.0"] {
            assert!(text.parse::<TorchVersion>().is_err(), "{text}");
        }
    }

    #[test]
    fn versions_order_by_number() {
        assert!(TorchVersion::new(2, 9) < TorchVersion::new(2, 11));
    }
}
