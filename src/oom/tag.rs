//! Which rank or process a line of a log comes from, by the prefix that launchers and loggers write.

use serde::Serialize;

/// The speaker of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Tag {
    /// A rank: `[rank3]:`, `[default3]:`, `[1,3]<stderr>:`, `rank=3`, `TP3`, `(Worker_TP3 pid=17)`.
    Rank(u32),
    /// A process: `(EngineCore pid=3129)`.
    Pid(u32),
}

impl std::fmt::Display for Tag {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Rank(rank) => write!(f, "rank {rank}"),
            Self::Pid(pid) => write!(f, "process {pid}"),
        }
    }
}

/// What is written before the number of a rank, in the order of trust.
const RANK: [&[u8]; 11] = [
    b"[rank",
    b"[default",
    b"[Rank ",
    b"[RANK ",
    b"rank=",
    b"rank: ",
    b"Rank ",
    b"Worker_TP",
    b"Worker_DP",
    b" TP",
    b"[1,",
];

/// The tag in `prefix`, which is the part of a line before its text.
pub fn of_prefix(prefix: &[u8]) -> Option<Tag> {
    let mut best: Option<(usize, u32)> = None;
    let mut pid = None;
    // One pass: a log has this done for every line that matters.
    for at in 0..prefix.len() {
        if !matches!(prefix[at], b'[' | b'r' | b'R' | b'W' | b' ' | b'p') {
            continue;
        }
        let rest = &prefix[at..];
        let trust = RANK.iter().position(|word| rest.starts_with(word));
        if let Some(trust) = trust.filter(|trust| best.is_none_or(|(found, _)| *trust < found))
            && let Some(rank) = number(&rest[RANK[trust].len()..])
        {
            best = Some((trust, rank));
        }
        if pid.is_none() && rest.starts_with(b"pid=") {
            pid = number(&rest[4..]);
        }
    }
    best.map(|(_, rank)| Tag::Rank(rank)).or(pid.map(Tag::Pid))
}

fn number(text: &[u8]) -> Option<u32> {
    let digits = text.iter().take_while(|c| c.is_ascii_digit()).count();
    std::str::from_utf8(&text[..digits]).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_of_launchers() {
        for (prefix, tag) in [
            ("[rank3]: torch.OutOfMemoryError: ", Some(Tag::Rank(3))),
            ("[default7]:[rank7]: ", Some(Tag::Rank(7))),
            ("[1,12]<stderr>:", Some(Tag::Rank(12))),
            ("[2024-05-01 10:00:00 TP1] ", Some(Tag::Rank(1))),
            ("(Worker_TP0 pid=77) ERROR ", Some(Tag::Rank(0))),
            ("(EngineCore_0 pid=3129) ", Some(Tag::Pid(3129))),
            ("[rank]: ", None),
            ("2024-05-01 ", None),
        ] {
            assert_eq!(of_prefix(prefix.as_bytes()), tag, "{prefix}");
        }
    }
}
