//! What a gate allows.

use std::fmt;
use std::str::FromStr;

use crate::units::{SizeError, bytes_short, parse_size};

/// How much a figure may grow: `5%`, or `200MiB`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Growth {
    /// A share of the earlier figure.
    Share(f64),
    /// Bytes.
    Bytes(u64),
}

/// Why a text is no limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LimitError {
    /// Neither a share nor a size.
    #[error("`{0}` is no limit of growth: write a share such as 5% or a size such as 200MiB")]
    Growth(String),
    /// Not a share.
    #[error("`{0}` is no share: write 10% or 0.1")]
    Share(String),
    /// Not a size.
    #[error(transparent)]
    Size(#[from] SizeError),
}

impl Growth {
    /// The most that a figure may be which was `before`.
    pub fn most(self, before: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => before.saturating_add(bytes),
            // Rounded down: half a byte more is more.
            Self::Share(share) => (before as f64 * (1.0 + share)).floor() as u64,
        }
    }
}

impl FromStr for Growth {
    type Err = LimitError;

    fn from_str(text: &str) -> Result<Self, LimitError> {
        match percent(text) {
            Some(share) => share.map(Self::Share).ok_or_else(|| LimitError::Growth(text.to_owned())),
            None => parse_size(text).map(Self::Bytes).map_err(|_| LimitError::Growth(text.to_owned())),
        }
    }
}

impl fmt::Display for Growth {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Share(share) => write!(f, "+{}", share_text(*share)),
            Self::Bytes(bytes) => write!(f, "+{}", bytes_short(*bytes)),
        }
    }
}

/// A share in words: `5 %`, `2.5 %`.
pub fn share_text(share: f64) -> String {
    format!("{} %", (share * 1e4).round() / 100.0)
}

/// A limit, or `none`: no gate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Optional<T>(pub Option<T>);

impl<T: FromStr> FromStr for Optional<T> {
    type Err = T::Err;

    fn from_str(text: &str) -> Result<Self, T::Err> {
        if text == "none" { Ok(Self(None)) } else { text.parse().map(|limit| Self(Some(limit))) }
    }
}

/// A size in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size(pub u64);

impl FromStr for Size {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, SizeError> {
        parse_size(text).map(Self)
    }
}

/// Reads a share: `10%` or `0.1`, from 0 to 1.
pub fn parse_share(text: &str) -> Result<f64, LimitError> {
    let share = percent(text).unwrap_or_else(|| text.parse().ok());
    share.filter(|share| (0.0..=1.0).contains(share)).ok_or_else(|| LimitError::Share(text.to_owned()))
}

/// What stands before a percent sign, as a share; `None` inside when that is no number, outside without such a sign.
fn percent(text: &str) -> Option<Option<f64>> {
    let number = text.trim().strip_suffix('%')?;
    let value = number.trim().parse::<f64>().ok().filter(|value| value.is_finite() && *value >= 0.0);
    Some(value.map(|value| value / 100.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read() {
        assert_eq!("5%".parse(), Ok(Growth::Share(0.05)));
        assert_eq!("200MiB".parse(), Ok(Growth::Bytes(200 << 20)));
        assert_eq!("none".parse(), Ok(Optional::<Growth>(None)));
        assert_eq!("0".parse(), Ok(Growth::Bytes(0)));
        assert_eq!((parse_share("10%"), parse_share("0.1")), (Ok(0.1), Ok(0.1)));
        for wrong in ["", "%", "-5%", "nan%", "5 bananas"] {
            assert!(wrong.parse::<Growth>().is_err(), "{wrong}");
        }
        for wrong in ["", "1.5", "150%", "-0.1", "x"] {
            assert!(parse_share(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn growth_allows_up_to_the_limit() {
        assert_eq!(Growth::Share(0.05).most(1000), 1050);
        assert_eq!(Growth::Share(0.0).most(u64::from(u32::MAX)), u64::from(u32::MAX));
        assert_eq!(Growth::Bytes(5).most(u64::MAX), u64::MAX);
        assert_eq!(
            (Growth::Share(0.05).to_string(), Growth::Bytes(1 << 20).to_string()),
            ("+5 %".into(), "+1 MiB".into())
        );
    }
}
