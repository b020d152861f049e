//! Text from untrusted files, made safe and short enough to show: used by terminal tables and by pictures alike.
//!
//! Names in a snapshot come from whoever wrote the file. A terminal obeys escape sequences, and both terminals and
//! browsers obey direction marks, so neither may pass.

use std::borrow::Cow;

/// What stands for the part left out of a shortened text.
const ELLIPSIS: char = '…';

/// The text with every character replaced that could move a cursor, start an escape sequence or reorder what is read.
///
/// Control characters become their visible pictures (`␛`, `␊`), the others U+FFFD. Borrows when nothing changes.
pub fn printable(text: &str) -> Cow<'_, str> {
    if text.chars().all(|c| visible(c) == c) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(visible).collect())
}

/// `path`, or a site that begins with one, without its directories, whichever system it is from.
pub fn base_name(path: &str) -> &str {
    path.rsplit(['/', '\\']).next().unwrap_or(path)
}

/// The character to show for `c`: itself unless it controls the reader.
pub(crate) fn visible(c: char) -> char {
    match c {
        '\0'..='\x1f' => char::from_u32(0x2400 + c as u32).unwrap_or(char::REPLACEMENT_CHARACTER),
        '\x7f' => '\u{2421}',
        '\u{80}'..='\u{9f}'
        | '\u{61c}'
        | '\u{180e}'
        | '\u{200b}'
        | '\u{200e}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{feff}'
        | '\u{fff9}'..='\u{fffb}'
        | '\u{e0000}'..='\u{e007f}' => char::REPLACEMENT_CHARACTER,
        // U+FFFE and U+FFFF of every plane are not characters; XML forbids the first two.
        _ if c as u32 & 0xfffe == 0xfffe => char::REPLACEMENT_CHARACTER,
        _ => c,
    }
}

/// Columns that `text` takes on a terminal (approximated: combining marks 0, East Asian wide and emoji 2, else 1).
pub fn width(text: &str) -> usize {
    text.chars().map(char_width).sum()
}

/// Columns that one character takes on a terminal.
pub fn char_width(c: char) -> usize {
    match c as u32 {
        0..=0x1f | 0x7f..=0x9f => 0,
        0x20..=0x2ff => 1,
        0x300..=0x36f | 0x483..=0x489 | 0x591..=0x5bd | 0x610..=0x61a | 0x64b..=0x65f => 0,
        0xe31 | 0xe34..=0xe3a | 0xe47..=0xe4e | 0x1ab0..=0x1aff | 0x1dc0..=0x1dff => 0,
        0x200b..=0x200f | 0x20d0..=0x20ff | 0xfe00..=0xfe0f | 0xfe20..=0xfe2f | 0xe0100..=0xe01ef => 0,
        0x1100..=0x115f | 0x2e80..=0x303e | 0x3041..=0xa4cf | 0xac00..=0xd7a3 | 0xf900..=0xfaff => 2,
        0xfe30..=0xfe6f | 0xff00..=0xff60 | 0xffe0..=0xffe6 => 2,
        0x1f300..=0x1f64f | 0x1f680..=0x1f6ff | 0x1f900..=0x1f9ff | 0x1fa70..=0x1faff | 0x20000..=0x3fffd => 2,
        _ => 1,
    }
}

/// The pieces of `text` between which a line may be broken: words, but a figure stays in one piece, with its unit
/// (`1 804`, `2.88 GiB`, `75 %`).
pub fn words(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text.trim_start();
    std::iter::from_fn(move || {
        let mut end = 0;
        loop {
            let start = end + (rest.len() - end - rest[end..].trim_start().len());
            let next = rest[start..].split_whitespace().next();
            match next {
                Some(word) if end == 0 || continues(&rest[..end], word) => end = start + word.len(),
                _ => break,
            }
        }
        let (piece, after) = rest.split_at(end);
        rest = after.trim_start();
        (end > 0).then_some(piece)
    })
}

/// Units that stay with their number.
const UNITS: [&str; 16] =
    ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "KB", "MB", "GB", "TB", "%", "µs", "ms", "s", "min"];

/// Whether `next` is a part of the figure that `before` ends in.
fn continues(before: &str, next: &str) -> bool {
    let last = before.split_whitespace().next_back().unwrap_or(before);
    let number = last.trim_start_matches(|c: char| !c.is_ascii_digit());
    let is_digits = |text: &str| !text.is_empty() && text.chars().all(|c| c.is_ascii_digit());
    let next = next.trim_end_matches(['.', ',', ';', ':', ')', '?', '!']);
    let is_group = is_digits(number) && number.len() <= 3 && is_digits(next) && next.len() == 3;
    is_group || (number.ends_with(|c: char| c.is_ascii_digit()) && UNITS.contains(&next))
}

/// `text` shortened in the middle to at most `columns` terminal columns; what is cut is replaced by one `…`.
///
/// More is kept of the end than of the beginning, because the end of a site is the file and the line.
pub fn shorten(text: &str, columns: usize) -> Cow<'_, str> {
    shorten_by(text, columns, char_width)
}

/// [`shorten`] with another measure of a character, e.g. its width in a font.
pub fn shorten_by(text: &str, limit: usize, measure: impl Fn(char) -> usize) -> Cow<'_, str> {
    let total: usize = text.chars().map(&measure).sum();
    if total <= limit {
        return Cow::Borrowed(text);
    }
    let Some(room) = limit.checked_sub(measure(ELLIPSIS)) else { return Cow::Borrowed("") };
    let mut used = 0;
    let tail_start = text
        .char_indices()
        .rev()
        .take_while(|&(_, c)| {
            used += measure(c);
            used <= room - room * 2 / 5
        })
        .last()
        .map_or(text.len(), |(i, _)| i);
    let tail: usize = text[tail_start..].chars().map(&measure).sum();
    let mut used = 0;
    let head_end = text[..tail_start]
        .char_indices()
        .take_while(|&(_, c)| {
            used += measure(c);
            used <= room - tail
        })
        .last()
        .map_or(0, |(i, c)| i + c.len_utf8());
    Cow::Owned(format!("{}{ELLIPSIS}{}", &text[..head_end], &text[tail_start..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn controls_become_visible_and_plain_text_is_borrowed() {
        assert!(matches!(printable("train.py:41  é 漢"), Cow::Borrowed(_)));
        assert_eq!(printable("a\x1b[31m\nb\t\x7f"), "a␛[31m␊b␉␡");
        assert_eq!(printable("\u{202e}gpj.exe\u{9b}\u{ffff}"), "\u{fffd}gpj.exe\u{fffd}\u{fffd}");
    }

    #[test]
    fn widths() {
        assert_eq!(width("abc"), 3);
        assert_eq!(width("漢字"), 4);
        assert_eq!(width("e\u{301}"), 1);
        assert_eq!(width("🔥"), 2);
    }

    #[test]
    fn figures_are_not_broken() {
        let pieces = |text: &'static str| words(text).collect::<Vec<_>>();
        assert_eq!(
            pieces(" at  event 1 804, (at most 2.87 GiB)"),
            ["at", "event", "1 804,", "(at", "most", "2.87 GiB)"]
        );
        assert_eq!(pieces("−1 234 567 B or 75 %."), ["−1 234 567 B", "or", "75 %."]);
        assert_eq!(pieces("step 3 first, line 1042 100 more"), ["step", "3", "first,", "line", "1042", "100", "more"]);
        assert!(pieces("  ").is_empty());
    }

    #[test]
    fn shortening_keeps_both_ends() {
        assert_eq!(shorten("short", 5), "short");
        assert_eq!(shorten("/home/me/project/train.py:41", 20), "/home/m…/train.py:41");
        assert_eq!(shorten("abcdef", 1), "…");
        assert_eq!(shorten("abcdef", 0), "");
        assert_eq!(shorten("漢漢漢漢", 4), "…漢");
        for columns in 0..40 {
            assert!(width(&shorten("/a/長い/パス/to/some/module/trainer.py:1234", columns)) <= columns);
        }
    }
}
