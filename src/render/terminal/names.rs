//! Site names short enough for a line: without the directories that all of them share.

/// The length of the directory prefix that every path among `names` shares. Names without a directory do not count.
pub fn shared_directory<'a>(names: impl IntoIterator<Item = &'a str>) -> usize {
    let mut shared: Option<&str> = None;
    for name in names {
        let Some(end) = name.rfind(['/', '\\']) else { continue };
        // A site that is a whole stack is more than one path.
        if name.contains(" < ") {
            return 0;
        }
        let directory = &name[..=end];
        shared = Some(match shared {
            None => directory,
            Some(before) => common(before, directory),
        });
    }
    shared.map_or(0, str::len)
}

/// The directories that both start with.
fn common<'a>(one: &'a str, other: &str) -> &'a str {
    let equal = one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
    match one.as_bytes()[..equal].iter().rposition(|&byte| byte == b'/' || byte == b'\\') {
        Some(end) => &one[..=end],
        None => "",
    }
}

/// `name` without the first `shared` bytes, if it has a directory at all.
pub fn without(name: &str, shared: usize) -> &str {
    match name.contains(['/', '\\']) {
        true => name.get(shared..).unwrap_or(name),
        false => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn short<'a>(names: &[&'a str]) -> Vec<&'a str> {
        let shared = shared_directory(names.iter().copied());
        names.iter().map(|name| without(name, shared)).collect()
    }

    #[test]
    fn only_shared_directories_go() {
        assert_eq!(short(&["/a/b/x.py:1", "/a/b/y.py:2", "(no stack)"]), ["x.py:1", "y.py:2", "(no stack)"]);
        assert_eq!(short(&["/a/b/x.py:1", "/a/c/x.py:2"]), ["b/x.py:1", "c/x.py:2"]);
        assert_eq!(short(&["/a/bc/x.py:1", "/a/bd/x.py:2"]), ["bc/x.py:1", "bd/x.py:2"]);
        assert_eq!(short(&["/a/x.py:1", "C:\\b\\x.py:2"]), ["/a/x.py:1", "C:\\b\\x.py:2"]);
        assert_eq!(short(&["/é/x.py:1", "/è/x.py:2"]), ["é/x.py:1", "è/x.py:2"]);
    }
}
