//! Text that is safe inside XML, whatever a file called its functions.

use std::borrow::Cow;

use crate::text::visible;

/// `text` for an element or a double-quoted attribute.
///
/// XML 1.0 forbids most control characters even when escaped, so they are replaced by U+FFFD (their visible pictures are
/// in few fonts); line ends and tabs stay. Direction marks are replaced too, because they would reorder what is read.
pub fn escape(text: &str) -> Cow<'_, str> {
    if text.chars().all(|c| !matches!(c, '&' | '<' | '>' | '"' | '\'') && shown(c) == c) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            _ => out.push(shown(c)),
        }
    }
    Cow::Owned(out)
}

fn shown(c: char) -> char {
    if c == visible(c) || matches!(c, '\n' | '\t') { c } else { char::REPLACEMENT_CHARACTER }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_character_gives_well_formed_xml() {
        let all: String = (0..=0x10ffff).filter_map(char::from_u32).collect();
        let xml = format!("<a b=\"{0}\">{0}</a>", escape(&all));
        assert!(roxmltree::Document::parse(&xml).is_ok());
    }

    #[test]
    fn markup_is_text() {
        assert_eq!(escape("</text><script>alert(1)</script>"), "&lt;/text&gt;&lt;script&gt;alert(1)&lt;/script&gt;");
        assert_eq!(escape("\" onload='x' &amp; \0\r\n"), "&quot; onload=&#39;x&#39; &amp;amp; \u{fffd}\u{fffd}\n");
        assert!(matches!(escape("train.py:41"), Cow::Borrowed(_)));
    }
}
