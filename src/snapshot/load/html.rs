//! Pages written by `torch.cuda._memory_viz`: the pickle stands in the script as base64.

use std::io::Read;

use base64::engine::general_purpose::STANDARD;
use base64::read::DecoderReader;

use super::LoadError;

/// The key in front of the text.
const KEY: &[u8] = b"\"base64\"";

/// A reader of the first pickle embedded in `page`.
pub(super) fn embedded(page: &[u8]) -> Result<Box<dyn Read + '_>, LoadError> {
    let text = find(page, KEY)
        .map(|at| page[at + KEY.len()..].trim_ascii_start())
        .and_then(|rest| rest.strip_prefix(b":"))
        .and_then(|rest| rest.trim_ascii_start().strip_prefix(b"\""))
        .ok_or(LoadError::HtmlWithoutData)?;
    let length = text.iter().position(|&byte| byte == b'"').unwrap_or(text.len());
    if length == 0 {
        return Err(LoadError::HtmlWithoutData);
    }
    Ok(Box::new(DecoderReader::new(&text[..length], &STANDARD)))
}

fn find(bytes: &[u8], what: &[u8]) -> Option<usize> {
    bytes.windows(what.len()).position(|window| window == what)
}
