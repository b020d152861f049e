//! Numbers as people read them: sizes in binary units, grouped counts, durations; and sizes as people write them.

use thiserror::Error;

const BINARY: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
const DECIMAL: [&str; 7] = ["B", "KB", "MB", "GB", "TB", "PB", "EB"];

/// `n` with a noun: `1 device`, `3 devices`.
pub fn number_of(n: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(n), if n == 1 { "" } else { "s" })
}

/// A size in the largest binary unit that leaves at least 1: `512 B`, `76.1 MiB`, `1.63 GiB`.
///
/// One decimal up to MiB, two from GiB on (one from 100 on), so that about three digits carry the figure.
pub fn bytes(n: u64) -> String {
    scaled(n, 1024.0, &BINARY)
}

/// [`bytes`] without decimals that are zero: `20 MiB`, `1.5 GiB`. For sizes that were chosen, not measured.
pub fn bytes_short(n: u64) -> String {
    let text = bytes(n);
    match text.split_once(' ') {
        Some((number, unit)) if number.contains('.') => {
            format!("{} {unit}", number.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => text,
    }
}

/// A size in decimal units, as model cards give it: `14.50 GB`.
pub fn bytes_decimal(n: u64) -> String {
    scaled(n, 1000.0, &DECIMAL)
}

/// A change in bytes with its sign: `+76.1 MiB`, `−2.9 GiB`, `0 B`.
pub fn bytes_change(change: i64) -> String {
    let size = bytes(change.unsigned_abs());
    match change {
        0 => size,
        1.. => format!("+{size}"),
        _ => format!("−{size}"),
    }
}

fn scaled(n: u64, base: f64, units: &[&str; 7]) -> String {
    if (n as f64) < base {
        return format!("{n} B");
    }
    let mut value = n as f64;
    let mut unit = 0;
    // The comparison is with what will be printed, so that 1023.99 MiB prints as 1.00 GiB.
    while unit < 6 && value >= base - 0.05 {
        value /= base;
        unit += 1;
    }
    let decimals = if unit < 3 || value >= 99.995 { 1 } else { 2 };
    format!("{value:.decimals$} {}", units[unit])
}

/// A count in groups of three: `1 804`.
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() * 4 / 3 + 1);
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(' ');
        }
        out.push(c);
    }
    out
}

/// A duration given in microseconds: `830 µs`, `12.4 ms`, `3.21 s`, `2 min 05 s`, `1 h 02 min`, `3 d 04 h`.
pub fn duration(us: u64) -> String {
    const S: u64 = 1_000_000;
    match us {
        0..1_000 => format!("{us} µs"),
        1_000..999_950 => format!("{:.1} ms", us as f64 / 1e3),
        999_950..59_995_000 => format!("{:.2} s", us as f64 / 1e6),
        _ => {
            let s = us / S + (us % S >= S / 2) as u64;
            match s {
                0..3_600 => format!("{} min {:02} s", s / 60, s % 60),
                3_600..86_400 => format!("{} h {:02} min", s / 3_600, s % 3_600 / 60),
                _ => format!("{} d {:02} h", s / 86_400, s % 86_400 / 3_600),
            }
        }
    }
}

/// Why a text is no size. Each message says what is accepted.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SizeError {
    /// No number at the beginning.
    #[error("'{0}' is not a size: write a number with a unit, like 20MiB, 1.5GiB, 80GB or 512B")]
    Number(String),
    /// A small number without a unit, which hardly means bytes.
    #[error("'{text}' has no unit: write {number}GiB (or {number}B for bytes)")]
    NoUnit {
        /// The whole text.
        text: String,
        /// Its number, as written.
        number: String,
    },
    /// The number is followed by something that is no unit.
    #[error(
        "'{unit}' in '{text}' is no unit: use B, KiB, MiB, GiB, TiB (powers of 1024) or KB, MB, GB, TB (powers of 1000)"
    )]
    Unit {
        /// The whole text.
        text: String,
        /// What was read as its unit.
        unit: String,
    },
    /// A bare prefix, which some programs take as 1000 and some as 1024.
    #[error(
        "'{text}' can mean two sizes: write {number}{prefix}iB (powers of 1024) or {number}{prefix}B (powers of 1000)"
    )]
    Ambiguous {
        /// The whole text.
        text: String,
        /// Its number, as written.
        number: String,
        /// K, M, G, T, P or E.
        prefix: char,
    },
    /// More than 2^64 − 1 bytes.
    #[error("'{0}' is more than 16 EiB: check the unit")]
    TooLarge(String),
}

/// The least number without a unit that is taken for bytes.
const LEAST_BARE: u64 = 1 << 20;

/// Reads a size that somebody writes: `20MiB`, `1.5 GiB`, `80 GB` (decimal), `512B`. Upper and lower case are the same.
///
/// A number without a unit is one of bytes from 1 MiB on, as PyTorch prints them, and 0 is 0 in any unit. A smaller one
/// is refused: whoever writes `80` means GiB. A fraction of a byte is rounded to the nearest.
///
/// # Errors
/// [`SizeError`] says what is accepted instead.
pub fn parse_size(text: &str) -> Result<u64, SizeError> {
    let trimmed = text.trim();
    let (number, unit) = trimmed.split_at(number_end(trimmed));
    let unit = unit.trim();
    let as_number = || SizeError::Number(shown(text));
    let value: f64 = number.parse().map_err(|_| as_number())?;
    let factor = unit_factor(unit).ok_or_else(|| match unit.chars().next().map(|c| c.to_ascii_uppercase()) {
        None => as_number(),
        Some(prefix) if unit.chars().count() == 1 && "KMGTPE".contains(prefix) => {
            SizeError::Ambiguous { text: shown(text), number: shown(number), prefix }
        }
        Some(_) => SizeError::Unit { text: shown(text), unit: shown(unit) },
    })?;
    let size = multiplied(number, value, factor).ok_or_else(|| SizeError::TooLarge(shown(text)))?;
    if unit.is_empty() && value != 0.0 && size < LEAST_BARE {
        return Err(SizeError::NoUnit { text: shown(text), number: shown(number) });
    }
    Ok(size)
}

/// `number`, which is `value`, times `factor`, rounded; `None` above 2^64 − 1.
fn multiplied(number: &str, value: f64, factor: u64) -> Option<u64> {
    // Whole numbers are multiplied exactly; f64 would lose the last digits of an address-sized one.
    if let Ok(whole) = number.parse::<u64>() {
        return whole.checked_mul(factor);
    }
    let product = (value * factor as f64).round();
    (product < u64::MAX as f64).then_some(product as u64)
}

/// Why a text is no count.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "'{0}' is not a count: write a whole number like 8e9 or 8000000000, or one with K, M, B or G, T for 10^3, 10^6, 10^9, \
     10^12, like 350M, 8B, 1.5T"
)]
pub struct CountError(String);

/// Reads a count as model cards give it: `8B`, `350M`, `1.5T`, `8e9`, `8000000000`. B and G are 10^9, upper and lower
/// case are the same.
///
/// # Errors
/// [`CountError`] says what is accepted; fractions and more than 2^64 − 1 are not.
pub fn parse_count(text: &str) -> Result<u64, CountError> {
    let trimmed = text.trim();
    let (number, suffix) = trimmed.split_at(number_end(trimmed));
    let factor = match suffix.trim().to_ascii_uppercase().as_str() {
        "" => 1,
        "K" => 1_000,
        "M" => 1_000_000,
        "B" | "G" => 1_000_000_000,
        "T" => 1_000_000_000_000,
        _ => return Err(CountError(shown(text))),
    };
    let value: f64 = number.parse().map_err(|_| CountError(shown(text)))?;
    // 0.35 × 10^9 is not quite whole in binary.
    let product = value * factor as f64;
    let is_whole = (product - product.round()).abs() <= product * 1e-12;
    multiplied(number, value, factor).filter(|_| is_whole).ok_or_else(|| CountError(shown(text)))
}

/// Length of the number at the beginning of `text`: digits, a fraction, an exponent. The `E` of `1EiB` is no exponent.
fn number_end(text: &str) -> usize {
    let b = text.as_bytes();
    let digits = |from: usize| b[from..].iter().take_while(|c| c.is_ascii_digit()).count();
    let mut end = digits(0);
    if b.get(end) == Some(&b'.') {
        end += 1 + digits(end + 1);
    }
    if end > 0 && matches!(b.get(end), Some(b'e' | b'E')) {
        let sign = matches!(b.get(end + 1), Some(b'+' | b'-')) as usize;
        let exponent = digits((end + 1 + sign).min(b.len()));
        if exponent > 0 {
            end += 1 + sign + exponent;
        }
    }
    end
}

fn unit_factor(unit: &str) -> Option<u64> {
    let position = |units: &[&str; 7]| units.iter().position(|u| u.eq_ignore_ascii_case(unit)).map(|i| i as u32);
    if unit.is_empty() || ["byte", "bytes"].iter().any(|name| name.eq_ignore_ascii_case(unit)) {
        return Some(1);
    }
    position(&BINARY).map(|i| 1024u64.pow(i)).or_else(|| position(&DECIMAL).map(|i| 1000u64.pow(i)))
}

/// What was written, short and harmless enough for a message.
fn shown(text: &str) -> String {
    crate::text::printable(&crate::text::shorten(text.trim(), 40)).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_print_with_about_three_digits() {
        for (n, text) in [
            (0, "0 B"),
            (512, "512 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1_048_575, "1.0 MiB"),
            (79_797_658, "76.1 MiB"),
            (646_342_246, "616.4 MiB"),
            (10_171_187, "9.7 MiB"),
            (1_073_741_823, "1.00 GiB"),
            (1_073_679_000, "1023.9 MiB"),
            (1_750_199_173, "1.63 GiB"),
            (3_736_621_547, "3.48 GiB"),
            (85_899_345_920, "80.00 GiB"),
            (150_323_855_360, "140.0 GiB"),
            (u64::MAX, "16.00 EiB"),
        ] {
            assert_eq!(bytes(n), text, "{n}");
        }
        assert_eq!(bytes_short(20 << 20), "20 MiB");
        assert_eq!(bytes_short(3 << 29), "1.5 GiB");
        assert_eq!(bytes_short(0), "0 B");
        assert_eq!(bytes_short(100 << 30), "100 GiB");
        assert_eq!(bytes_decimal(14_500_000_000), "14.50 GB");
        assert_eq!(bytes_decimal(999), "999 B");
        assert_eq!(bytes_change(20 << 20), "+20.0 MiB");
        assert_eq!(bytes_change(i64::MIN), "−8.00 EiB");
        assert_eq!(bytes_change(0), "0 B");
    }

    #[test]
    fn counts_are_grouped() {
        assert_eq!(count(0), "0");
        assert_eq!(count(999), "999");
        assert_eq!(count(1_804), "1 804");
        assert_eq!(count(1_234_567), "1 234 567");
        assert_eq!(count(u64::MAX), "18 446 744 073 709 551 615");
    }

    #[test]
    fn durations() {
        for (us, text) in [
            (0, "0 µs"),
            (830, "830 µs"),
            (12_400, "12.4 ms"),
            (999_960, "1.00 s"),
            (3_210_000, "3.21 s"),
            (59_999_999, "1 min 00 s"),
            (125_000_000, "2 min 05 s"),
            (3_599_800_000, "1 h 00 min"),
            (3_725_000_000, "1 h 02 min"),
            (273_600_000_000, "3 d 04 h"),
        ] {
            assert_eq!(duration(us), text, "{us}");
        }
        assert!(duration(u64::MAX).ends_with(" h"));
    }

    #[test]
    fn sizes_are_read() {
        for (text, n) in [
            ("0", 0),
            (" 512 B ", 512),
            ("512 bytes", 512),
            ("1048576", 1 << 20),
            ("20MiB", 20 << 20),
            ("2gib", 2 << 30),
            ("1.5GiB", 3 << 29),
            ("8e9", 8_000_000_000),
            ("1.6E+7", 16_000_000),
            ("80 GB", 80_000_000_000),
            ("1EiB", 1 << 60),
            ("2E3KiB", 2_048_000),
            (".5KiB", 512),
            ("18446744073709551615", u64::MAX),
        ] {
            assert_eq!(parse_size(text), Ok(n), "{text}");
        }
    }

    #[test]
    fn what_is_no_size_says_what_is() {
        for text in ["", "  ", "MiB", "-5", "nan", "inf", "1.2.3", ".", "e9", "0x10", "+1", "é"] {
            let error = parse_size(text).expect_err(text).to_string();
            assert!(error.contains("MiB") && error.contains("GB"), "{text}: {error}");
        }
        assert_eq!(parse_size("5 bananas"), Err(SizeError::Unit { text: "5 bananas".into(), unit: "bananas".into() }));
        assert_eq!(
            parse_size("2g").expect_err("ambiguous").to_string(),
            "'2g' can mean two sizes: write 2GiB (powers of 1024) or 2GB (powers of 1000)"
        );
        assert_eq!(
            parse_size("80").expect_err("no unit").to_string(),
            "'80' has no unit: write 80GiB (or 80B for bytes)"
        );
        for text in ["530", "0.5", "1048575", "8e2"] {
            assert!(matches!(parse_size(text), Err(SizeError::NoUnit { .. })), "{text}");
        }
        for text in ["16EiB", "18446744073709551616", "1e30", "1e999"] {
            assert_eq!(parse_size(text), Err(SizeError::TooLarge(text.into())));
        }
    }

    #[test]
    fn counts_are_read_as_model_cards_write_them() {
        for (text, n) in [
            ("8B", 8_000_000_000),
            ("70b", 70_000_000_000),
            ("7M", 7_000_000),
            ("350M", 350_000_000),
            ("1.5T", 1_500_000_000_000),
            ("0.35 G", 350_000_000),
            ("12K", 12_000),
            ("8e9", 8_000_000_000),
            ("1.5e9", 1_500_000_000),
            ("8030261248", 8_030_261_248),
            ("0", 0),
        ] {
            assert_eq!(parse_count(text), Ok(n), "{text}");
        }
        for text in ["", "B", "8GiB", "8GB", "1.5", "-8B", "8 billion", "1e30", "30000000T", "nan"] {
            let error = parse_count(text).expect_err(text).to_string();
            assert!(error.contains("not a count") && !error.contains("MiB"), "{text}: {error}");
        }
    }
}
