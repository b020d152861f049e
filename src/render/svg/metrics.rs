//! How wide a text will be, without asking a font.

use super::UNITS;
use crate::text::{char_width, shorten_by, visible};
use std::borrow::Cow;

/// Advance widths of U+0020..U+007E in hundredths of the font size: for each the wider one of two common sans-serif
/// families, a wide one and a narrow one, as measured. So a text may end early but never runs into the next.
#[rustfmt::skip]
const WIDTHS: [u8; 95] = [
    32, 41, 46, 84, 64, 96, 78, 28, 40, 40, 50, 84, 32, 37, 32, 34, // space to /
    64, 64, 64, 64, 64, 64, 64, 64, 64, 64, 34, 34, 84, 84, 84, 56, // 0 to ?
    102, 69, 69, 73, 78, 67, 62, 78, 76, 30, 50, 67, 56, 87, 75, 79, // @ to O
    67, 79, 73, 67, 62, 74, 69, 99, 69, 67, 69, 40, 34, 40, 84, 56, // P to _
    50, 62, 64, 55, 64, 62, 36, 64, 64, 28, 28, 58, 28, 98, 64, 62, // ` to o
    64, 64, 42, 53, 40, 64, 60, 82, 60, 60, 53, 64, 34, 64, 84, // p to ~
];

/// Width of one character in hundredths of the font size.
fn advance(c: char) -> usize {
    match visible(c) {
        c @ ' '..='~' => WIDTHS[c as usize - 0x20] as usize,
        // The replacement of a control character, whichever it is.
        shown if shown != c => 105,
        '…' | char::REPLACEMENT_CHARACTER => 105,
        c => [0, 80, 105][char_width(c).min(2)],
    }
}

/// An upper bound of the width of `text` set in `size` (both in drawing units), bold or not.
pub fn text_width(text: &str, size: i32, bold: bool) -> i32 {
    let hundredths: usize = text.chars().map(advance).sum();
    // Bold letters are up to this much wider; the measured mean is 8 %.
    let factor = if bold { 1.15 } else { 1.0 };
    (hundredths as f64 * size as f64 / 100.0 * factor).ceil().min(i32::MAX as f64 / UNITS as f64) as i32
}

/// `text` shortened in the middle so that it is at most `width` wide in `size` (both in drawing units).
pub fn shorten_to(text: &str, width: i32, size: i32) -> Cow<'_, str> {
    let hundredths = (width.max(0) as i64 * 100 / size.max(1) as i64) as usize;
    shorten_by(text, hundredths, advance)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_grow_with_text_and_size() {
        assert_eq!(text_width("", 120, false), 0);
        assert_eq!(text_width("616.4 MiB", 100, false), 504);
        assert!(text_width("616.4 MiB", 100, true) > 504);
        assert!(text_width(&"m".repeat(100_000_000), 1_000_000, true) > 0);
    }

    #[test]
    fn shortened_text_fits() {
        let name = "/home/me/a/rather/long/path/to/the/trainer.py:1234";
        for width in [0, 50, 500, 1_500, 9_999] {
            assert!(text_width(&shorten_to(name, width, 110), 110, false) <= width.max(1), "{width}");
        }
    }
}
