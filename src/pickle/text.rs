//! The textual arguments of protocol 0, and integers of any length.

/// An integer as the pickle writes it, in the width that holds it.
pub(super) enum Integer {
    /// Fits 64 signed bits.
    Signed(i64),
    /// 2^63 to 2^64 − 1.
    Unsigned(u64),
    /// Everything else, as Python's `float()` would give it.
    Huge(f64),
}

/// Little-endian two's complement of any length (LONG1, LONG4); no bytes are 0.
pub(super) fn long(bytes: &[u8]) -> Integer {
    let negative = bytes.last().is_some_and(|b| b & 0x80 != 0);
    let fill = if negative { 0xff } else { 0 };
    let significant = bytes.len() - bytes.iter().rev().take_while(|&&b| b == fill).count();
    let mut low = [fill; 8];
    low[..significant.min(8)].copy_from_slice(&bytes[..significant.min(8)]);
    let word = u64::from_le_bytes(low);
    match significant {
        0..=8 if !negative && word >> 63 == 0 => Integer::Signed(word as i64),
        0..=8 if negative && word >> 63 == 1 => Integer::Signed(word as i64),
        0..=8 if !negative => Integer::Unsigned(word),
        _ => {
            let magnitude =
                bytes.iter().rev().fold(0.0, |sum: f64, &b| sum * 256.0 + f64::from(if negative { !b } else { b }));
            Integer::Huge(if negative { -magnitude - 1.0 } else { magnitude })
        }
    }
}

/// Decimal digits of any length (INT, LONG), a trailing `L` allowed.
pub(super) fn decimal(line: &[u8]) -> Option<Integer> {
    let text = std::str::from_utf8(line).ok()?.trim();
    let text = text.strip_suffix('L').unwrap_or(text);
    if let Ok(value) = text.parse() {
        return Some(Integer::Signed(value));
    }
    if let Ok(value) = text.parse() {
        return Some(Integer::Unsigned(value));
    }
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let plain = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    plain.then(|| text.parse().ok().map(Integer::Huge)).flatten()
}

/// The argument of UNICODE: Latin-1 with `\uXXXX` and `\UXXXXXXXX` escapes ("raw-unicode-escape").
pub(super) fn raw_unicode(line: &[u8]) -> String {
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((&byte, tail)) = rest.split_first() {
        let digits = match (byte, tail.first()) {
            (b'\\', Some(b'u')) => 4,
            (b'\\', Some(b'U')) => 8,
            _ => 0,
        };
        if digits > 0
            && let Some(code) = tail.get(1..=digits).and_then(hex)
        {
            out.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            rest = &tail[digits + 1..];
        } else if let (b'\\', Some(&escaped)) = (byte, tail.first()) {
            // Not an escape: both stand for themselves, so that a second backslash starts none either.
            out.extend(['\\', char::from(escaped)]);
            rest = &tail[1..];
        } else {
            out.push(char::from(byte));
            rest = tail;
        }
    }
    out
}

/// The argument of STRING: a quoted Python 2 `repr`. `None` when it is not quoted.
pub(super) fn quoted(line: &[u8]) -> Option<Vec<u8>> {
    let line = line.trim_ascii();
    let (&quote, inner) = line.split_first()?;
    if !matches!(quote, b'\'' | b'"') || inner.last() != Some(&quote) {
        return None;
    }
    let mut rest = &inner[..inner.len() - 1];
    let mut out = Vec::with_capacity(rest.len());
    while let Some((&byte, tail)) = rest.split_first() {
        let (value, used) = match (byte, tail.first()) {
            (b'\\', Some(b'x')) => match tail.get(1..3).and_then(hex) {
                Some(code) => (code as u8, 4),
                None => (byte, 1),
            },
            (b'\\', Some(b'n')) => (b'\n', 2),
            (b'\\', Some(b't')) => (b'\t', 2),
            (b'\\', Some(b'r')) => (b'\r', 2),
            (b'\\', Some(&other)) => (other, 2),
            _ => (byte, 1),
        };
        out.push(value);
        rest = &rest[used..];
    }
    Some(out)
}

fn hex(digits: &[u8]) -> Option<u32> {
    // `from_str_radix` alone would take a sign.
    if !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signed(bytes: &[u8]) -> i64 {
        match long(bytes) {
            Integer::Signed(v) => v,
            _ => panic!("{bytes:?} is not a signed 64-bit integer"),
        }
    }

    #[test]
    fn long_of_any_length() {
        assert_eq!(signed(&[]), 0);
        assert_eq!(signed(&[0xff]), -1);
        assert_eq!(signed(&[0xff, 0x00]), 255);
        assert_eq!(signed(&[0, 0, 0, 0, 0, 0, 0, 0x80]), i64::MIN);
        assert_eq!(signed(&[5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), 5);
        assert!(matches!(long(&[0, 2, 0, 0, 0, 0, 0, 0x80, 0]), Integer::Unsigned(0x8000_0000_0000_0200)));
        assert!(matches!(long(&[0, 0, 0, 0, 0, 0, 0, 0, 1]), Integer::Huge(v) if v == 18446744073709551616.0));
        assert!(matches!(long(&[0, 0, 0, 0, 0, 0, 0, 0, 0xff]), Integer::Huge(v) if v == -18446744073709551616.0));
    }

    #[test]
    fn text_forms() {
        assert!(matches!(decimal(b"18446744073709551615L"), Some(Integer::Unsigned(u64::MAX))));
        assert!(decimal(b"nan").is_none());
        assert_eq!(raw_unicode(b"a\\u00e9\xe9\\n"), "aéé\\n");
        assert_eq!(raw_unicode(b"\\\\u0041\\u004"), "\\\\u0041\\u004");
        assert_eq!(quoted(b"'a\\x41\\'b'").unwrap(), b"aA'b");
        assert!(quoted(b"'").is_none());
    }
}
