//! What a file is, told by its first bytes.

use super::error::NotASnapshot;

/// What a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Pickle,
    Gzip,
    Zstd,
    Zip,
    Html,
    Json,
    Other(NotASnapshot),
}

/// Bytes that are enough to tell.
pub(super) const HEAD: usize = 4096;

pub(super) fn kind(head: &[u8]) -> Kind {
    match head {
        [0x80, 0..=5, ..] => return Kind::Pickle,
        [0x1f, 0x8b, ..] => return Kind::Gzip,
        [0x28, 0xb5, 0x2f, 0xfd, ..] => return Kind::Zstd,
        [b'P', b'K', 3 | 5 | 7, 4 | 6 | 8, ..] => return Kind::Zip,
        [0xfd, b'7', b'z', b'X', b'Z', ..] => return Kind::Other(NotASnapshot::Compressed("xz")),
        [b'B', b'Z', b'h', ..] => return Kind::Other(NotASnapshot::Compressed("bzip2")),
        [4, b'"', b'M', 0x18, ..] => return Kind::Other(NotASnapshot::Compressed("lz4")),
        _ => {}
    }
    if head.starts_with(b"SQLite format 3\0") {
        return Kind::Other(NotASnapshot::Sqlite);
    }
    if head.starts_with(b"PAR1") {
        return Kind::Other(NotASnapshot::Parquet);
    }
    if head.get(257..262) == Some(b"ustar") {
        return Kind::Other(NotASnapshot::Tar);
    }
    // Protocols 0 and 1 have no header: a dict or a list, memoised or filled at once.
    if matches!(head, [b'(', b'd' | b'l', ..] | [b'}' | b']', b'q' | b'r' | b'(' | b'.' | b'p', ..]) {
        return Kind::Pickle;
    }
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
    if text.first() == Some(&b'<') {
        return Kind::Html;
    }
    if is_json(text) {
        return Kind::Json;
    }
    if !head.contains(&0)
        && std::str::from_utf8(&head[..head.len().min(HEAD / 2)]).map_or_else(|e| e.error_len().is_none(), |_| true)
    {
        return Kind::Other(NotASnapshot::Text);
    }
    Kind::Other(NotASnapshot::Binary)
}

/// Whether a file that begins with `head` is a pickle.
pub fn is_pickle(head: &[u8]) -> bool {
    kind(&head[..head.len().min(HEAD)]) == Kind::Pickle
}

/// Whether a file that begins with `head` is packed, in a way that is unpacked here or not.
pub fn is_compressed(head: &[u8]) -> bool {
    let kind = kind(&head[..head.len().min(HEAD)]);
    matches!(kind, Kind::Gzip | Kind::Zstd | Kind::Zip | Kind::Other(NotASnapshot::Compressed(_)))
}

/// A JSON object or list: a bracket, then something that may follow it. A log line may start with `[` too.
fn is_json(text: &[u8]) -> bool {
    match text.split_first() {
        Some((b'{', rest)) => matches!(rest.trim_ascii_start().first(), Some(b'"' | b'}') | None),
        Some((b'[', rest)) => matches!(rest.trim_ascii_start().first(), Some(b'{' | b'[' | b']') | None),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_bytes_tell() {
        let cases: [(&[u8], Kind); 12] = [
            (b"\x80\x04\x95", Kind::Pickle),
            (b"(dp0\n", Kind::Pickle),
            (b"}q\x00(", Kind::Pickle),
            (b"\x1f\x8b\x08", Kind::Gzip),
            (b"PK\x03\x04", Kind::Zip),
            (b"\n<!DOCTYPE html>", Kind::Html),
            (b"  {\"segments\": [", Kind::Json),
            (b"[{\"device\"", Kind::Json),
            (b"[rank0]: torch.OutOfMemoryError", Kind::Other(NotASnapshot::Text)),
            (b"CUDA out of memory", Kind::Other(NotASnapshot::Text)),
            (b"SQLite format 3\0", Kind::Other(NotASnapshot::Sqlite)),
            (b"\0\0\0\0", Kind::Other(NotASnapshot::Binary)),
        ];
        for (head, expected) in cases {
            assert_eq!(kind(head), expected, "{}", String::from_utf8_lossy(head));
        }
    }
}
