//! What was meant by a call that goes to the wrong door.

use std::ffi::OsString;
use std::path::Path;

use anyhow::anyhow;

use crate::snapshot::{LoadError, is_compressed, is_pickle};

/// Says that the first of `arguments` (behind the program's name) is neither a file nor one of `commands`, when it looks
/// like a command; with the one that is nearest.
pub fn no_such_command(arguments: &[OsString], commands: &[&str]) -> Option<String> {
    let word = arguments.get(1)?.to_str()?;
    let is_plain = word.len() > 1 && word.chars().all(|c| c.is_ascii_lowercase()) && !Path::new(word).exists();
    if !is_plain {
        return None;
    }
    let nearest = commands.iter().map(|name| (strsim::osa_distance(word, name), *name)).min();
    Some(match nearest.filter(|(distance, _)| *distance <= (word.len() / 3).max(1)) {
        Some((_, name)) => format!("no such command or file `{word}`; did you mean `{name}`?"),
        None => format!("no such command or file `{word}`; `oomscope --help` lists the commands"),
    })
}

/// `error` of reading the snapshot `file`; with the command that reads it, when it is a text.
pub fn not_a_snapshot(error: LoadError, file: &str) -> anyhow::Error {
    match error.is_text() {
        true => anyhow!("{error}; for a log, or an error text, try `oomscope oom {file}`"),
        false => error.into(),
    }
}

/// Which command reads the content `bytes` of `file`, in which no message was found.
pub fn not_a_log(bytes: &[u8], file: &str) -> Option<String> {
    if is_pickle(bytes) {
        return Some(format!("this is a snapshot: `oomscope {file}`"));
    }
    is_compressed(bytes).then(|| format!("it is compressed: a snapshot is read by `oomscope {file}`, a log unpacked"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(word: &str) -> Option<String> {
        no_such_command(&["oomscope".into(), word.into()], &["report", "top", "oom", "segments"])
    }

    #[test]
    fn the_nearest_command_is_named() {
        for (word, name) in [("reprot", "report"), ("segmets", "segments"), ("tpo", "top"), ("ooom", "oom")] {
            assert_eq!(said(word).unwrap(), format!("no such command or file `{word}`; did you mean `{name}`?"));
        }
        assert!(said("nothing").unwrap().contains("--help"));
        for file in ["a.pickle", "dir/report", "--json", "-", "src", "Reprot"] {
            assert_eq!(said(file), None, "{file}");
        }
    }
}
