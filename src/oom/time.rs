//! Times at the beginning of log lines.

use memchr::memchr;

/// A time of day, with a day where the line gives one. Microseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogTime {
    /// Days since some day, when the line has a date with a year or at least month and day.
    pub day: Option<i64>,
    /// Microseconds since midnight.
    pub of_day: i64,
}

const DAY: i64 = 86_400_000_000;

impl LogTime {
    /// Microseconds from `self` to `later`; a clock that seems to run back has passed midnight.
    pub fn until(self, later: Self) -> Option<u64> {
        let days = match (self.day, later.day) {
            (Some(from), Some(to)) => to - from,
            _ => 0,
        };
        let gap = days * DAY + later.of_day - self.of_day;
        let gap = if gap < -DAY / 2 && self.day.is_none() { gap + DAY } else { gap };
        u64::try_from(gap).ok()
    }
}

/// How far into a line a time is looked for: prefixes may have a rank or a level before it.
const REACH: usize = 160;

/// The first time in the line that `text` begins with, written as `HH:MM:SS`, with fractions and a date before it if
/// there are any.
pub fn of_line(text: &[u8]) -> Option<LogTime> {
    let line = &text[..text.len().min(REACH)];
    let line = &line[..memchr(b'\n', line).unwrap_or(line.len())];
    let at =
        line.windows(8).position(|w| w[2] == b':' && w[5] == b':' && digits(w, 0) && digits(w, 3) && digits(w, 6))?;
    let two = |at: usize| i64::from(line[at] - b'0') * 10 + i64::from(line[at + 1] - b'0');
    let (hour, minute, second) = (two(at), two(at + 3), two(at + 6));
    if hour > 24 || minute > 59 || second > 60 {
        return None;
    }
    let rest = &line[at + 8..];
    let fraction = match rest.first() {
        Some(b'.' | b',') => {
            rest[1..]
                .iter()
                .take(6)
                .take_while(|c| c.is_ascii_digit())
                .fold((0i64, 1_000_000i64), |(sum, unit), c| (sum + i64::from(c - b'0') * unit / 10, unit / 10))
                .0
        }
        _ => 0,
    };
    Some(LogTime { day: day_before(&line[..at]), of_day: ((hour * 60 + minute) * 60 + second) * 1_000_000 + fraction })
}

fn digits(bytes: &[u8], at: usize) -> bool {
    bytes[at].is_ascii_digit() && bytes[at + 1].is_ascii_digit()
}

/// The date that ends just before a time: `2024-05-01 `, `2024/05/01T`, `05-01 `.
fn day_before(before: &[u8]) -> Option<i64> {
    let before = before.strip_suffix(b"T").unwrap_or_else(|| before.trim_ascii_end());
    let length = before.iter().rev().take_while(|c| c.is_ascii_digit() || matches!(c, b'-' | b'/')).count();
    let date = std::str::from_utf8(&before[before.len() - length..]).ok()?;
    let parts: Vec<i64> = date.split(['-', '/']).map(|part| part.parse().ok()).collect::<Option<_>>()?;
    match parts.as_slice() {
        [year, month, day] if *year > 31 => civil(*year, *month, *day),
        // Without a year any will do: what counts are differences.
        [month, day] => civil(2000, *month, *day),
        _ => None,
    }
}

/// Days since 1970-01-01 (proleptic Gregorian); nothing for numbers that are no date.
fn civil(year: i64, month: i64, day: i64) -> Option<i64> {
    if !(0..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let year = year - i64::from(month <= 2);
    let era = year / 400;
    let of_era = year - era * 400;
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    Some(era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_common_formats() {
        let read = |line: &str| of_line(line.as_bytes());
        let noon = 43_200_000_000;
        assert_eq!(read("2024-05-01 12:00:00,500 INFO x"), Some(LogTime { day: Some(19_844), of_day: noon + 500_000 }));
        assert_eq!(
            read("[rank0]: 2024-05-01T12:00:00.5Z x"),
            Some(LogTime { day: Some(19_844), of_day: noon + 500_000 })
        );
        assert!(read("INFO 04-01 12:00:00 [a.py:1] x").is_some_and(|t| t.of_day == noon && t.day.is_some()));
        assert_eq!(read("12:00:00 x"), Some(LogTime { day: None, of_day: noon }));
        assert_eq!(read("25:00:00"), None);
        assert_eq!(read("no time"), None);
        let no_date = Some(LogTime { day: None, of_day: noon });
        assert_eq!(read("9223372036854775807-1 12:00:00"), no_date);
        assert_eq!(read("2024-5-9223372036854775807 12:00:00"), no_date);
    }

    #[test]
    fn gaps() {
        let at = |text: &str| of_line(text.as_bytes()).expect("a time");
        assert_eq!(at("23:59:59 a").until(at("00:00:01 b")), Some(2_000_000));
        assert_eq!(at("2024-02-28 23:00:00").until(at("2024-03-01 01:00:00")), Some(26 * 3_600_000_000));
        assert_eq!(at("10:00:02 a").until(at("10:00:01 b")), None);
    }
}
