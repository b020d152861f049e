//! Sizes as error texts write them: `7.65 GiB`, `576.00 KiB`, `0 bytes`, `671088640 bytes`.

/// From here on a figure is a marker for "not known" or "no limit", not a size: 2^60 bytes.
///
/// Windows and WSL answer 2^64 − 1 when they cannot tell a process's use; rounded to two decimals and printed in GiB
/// that is `17179869184.00 GiB`.
pub const ABSURD: u64 = 1 << 60;

/// A figure in a text.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figure {
    /// Bytes; `None` when the text gives the marker for "unknown".
    pub bytes: Option<u64>,
    /// How far the true value may be from `bytes`, because the text has only so many decimals.
    pub tolerance: u64,
}

/// Units after squashing: lower case, longest first. PyTorch's `GB` (MPS) is 2^30 as well.
const UNITS: [(&[u8], u32); 10] = [
    (b"bytes", 0),
    (b"byte", 0),
    (b"kib", 1),
    (b"mib", 2),
    (b"gib", 3),
    (b"tib", 4),
    (b"kb", 1),
    (b"mb", 2),
    (b"gb", 3),
    (b"tb", 4),
];

/// The figure at the beginning of `text` (lower case, no white space) and its length.
pub fn read(text: &[u8]) -> Option<(Figure, usize)> {
    let number = text.iter().take_while(|c| c.is_ascii_digit() || **c == b'.').count();
    let (unit, exponent) = UNITS.iter().find(|(unit, _)| text[number..].starts_with(unit))?;
    let digits = std::str::from_utf8(&text[..number]).ok()?;
    Some((figure(digits, *exponent)?, number + unit.len()))
}

/// The figure that ends where `text` ends (lower case, no white space).
pub fn read_back(text: &[u8]) -> Option<Figure> {
    let (unit, exponent) = UNITS.iter().find(|(unit, _)| text.ends_with(unit))?;
    let before = &text[..text.len() - unit.len()];
    let number = before.iter().rev().take_while(|c| c.is_ascii_digit() || **c == b'.').count();
    let digits = std::str::from_utf8(&before[before.len() - number..]).ok()?;
    figure(digits.trim_start_matches('.'), *exponent)
}

/// A plain number of bytes at the beginning of `text`.
pub fn read_plain(text: &[u8]) -> Option<(Figure, usize)> {
    let number = text.iter().take_while(|c| c.is_ascii_digit()).count();
    let digits = std::str::from_utf8(&text[..number]).ok()?;
    Some((figure(digits, 0)?, number))
}

fn figure(digits: &str, exponent: u32) -> Option<Figure> {
    let digits = digits.trim_end_matches('.');
    let value: f64 = digits.parse().ok()?;
    let unit = 1024f64.powi(exponent as i32);
    let decimals = digits.split_once('.').map_or(0, |(_, fraction)| fraction.len().min(18)) as i32;
    let bytes = (value * unit).round();
    if bytes >= ABSURD as f64 {
        return Some(Figure { bytes: None, tolerance: 0 });
    }
    let tolerance = if exponent == 0 { 0 } else { (unit / 10f64.powi(decimals) / 2.0).ceil() as u64 };
    Some(Figure { bytes: Some(bytes as u64), tolerance })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_in_every_unit() {
        for (text, bytes, tolerance) in [
            ("7.65gib.gpu", 8_214_124_954, 5_368_710),
            ("576.00kib", 589_824, 6),
            ("0bytes", 0, 0),
            ("671088640bytes(free", 671_088_640, 0),
            ("1.45gb,", 1_556_925_645, 5_368_710),
        ] {
            let (figure, _) = read(text.as_bytes()).expect(text);
            assert_eq!(figure, Figure { bytes: Some(bytes), tolerance }, "{text}");
        }
        assert_eq!(read_back(b"ofwhich6.87gib").and_then(|f| f.bytes), Some(7_376_606_331));
        assert_eq!(read_back(b"memory.5.00mib").and_then(|f| f.bytes), Some(5 << 20));
    }

    #[test]
    fn markers_and_nonsense() {
        assert_eq!(read(b"17179869184.00gib").expect("a figure").0.bytes, None);
        for text in ["", "gib", ".gib", "1..2gib", "-1gib", "7.65", "12parsecs"] {
            assert_eq!(read(text.as_bytes()), None, "{text}");
        }
    }
}
