//! Pages written by `torch.cuda._memory_viz`: the pickle stands in the script as base64.

use std::io::{self, BufRead, Read};

use base64::engine::general_purpose::STANDARD;
use base64::read::DecoderReader;

use super::LoadError;

/// The key in front of the text.
const KEY: &[u8] = b"\"base64\"";

/// A reader of the first pickle embedded in `page`.
pub(super) fn embedded<'a>(mut page: Box<dyn BufRead + 'a>) -> Result<Box<dyn Read + 'a>, LoadError> {
    if !skip_past_key(&mut page).map_err(LoadError::reading)? {
        return Err(LoadError::HtmlWithoutData);
    }
    for wanted in [b':', b'"'] {
        if next_visible(&mut page).map_err(LoadError::reading)? != Some(wanted) {
            return Err(LoadError::HtmlWithoutData);
        }
    }
    let mut text = Quoted { page, ended: false };
    if text.fill().map_err(LoadError::reading)?.is_empty() {
        return Err(LoadError::HtmlWithoutData);
    }
    Ok(Box::new(DecoderReader::new(text, &STANDARD)))
}

/// Uses everything up to the end of the first [`KEY`]; answers whether there is one.
fn skip_past_key(page: &mut impl BufRead) -> io::Result<bool> {
    let mut matched = 0;
    loop {
        let bytes = page.fill_buf()?;
        if bytes.is_empty() {
            return Ok(false);
        }
        for (at, &byte) in bytes.iter().enumerate() {
            // Only its first byte can start the key anew.
            matched = if byte == KEY[matched] { matched + 1 } else { usize::from(byte == KEY[0]) };
            if matched == KEY.len() {
                page.consume(at + 1);
                return Ok(true);
            }
        }
        let length = bytes.len();
        page.consume(length);
    }
}

/// The next byte that is not white space, used.
fn next_visible(page: &mut impl BufRead) -> io::Result<Option<u8>> {
    loop {
        let Some(&byte) = page.fill_buf()?.first() else { return Ok(None) };
        page.consume(1);
        if !byte.is_ascii_whitespace() {
            return Ok(Some(byte));
        }
    }
}

/// The text up to the closing quote, or to the end of a page that breaks off.
struct Quoted<'a> {
    page: Box<dyn BufRead + 'a>,
    ended: bool,
}

impl Quoted<'_> {
    fn fill(&mut self) -> io::Result<&[u8]> {
        if self.ended {
            return Ok(&[]);
        }
        let bytes = self.page.fill_buf()?;
        let length = bytes.iter().position(|&byte| byte == b'"').unwrap_or(bytes.len());
        Ok(&bytes[..length])
    }
}

impl Read for Quoted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let bytes = self.fill()?;
        let length = bytes.len().min(buffer.len());
        buffer[..length].copy_from_slice(&bytes[..length]);
        self.ended = length == 0 && !buffer.is_empty();
        self.page.consume(length);
        Ok(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pickle(page: &[u8], capacity: usize) -> Result<Vec<u8>, LoadError> {
        let mut out = Vec::new();
        let reader = io::BufReader::with_capacity(capacity, page);
        embedded(Box::new(reader))?.read_to_end(&mut out).map_err(LoadError::Read)?;
        Ok(out)
    }

    #[test]
    fn the_text_is_found_however_it_arrives() {
        let page = b"<script>\"name\": \"\"base64\" : \n \"aGVsbG8=\", \"base64\": \"b3RoZXI=\"</script>";
        for capacity in [1, 2, 3, 7, 1000] {
            assert_eq!(pickle(page, capacity).unwrap(), b"hello");
        }
        for page in [&b"<p>nothing</p>"[..], b"<\"base64\": 7>", b"<\"base64\": \"\">", b"<\"base64\""] {
            assert!(matches!(pickle(page, 1000), Err(LoadError::HtmlWithoutData)));
        }
    }
}
