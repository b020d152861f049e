//! Code to paste that records snapshots.

/// A piece of code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Snippet {
    /// Its name on the command line.
    pub topic: &'static str,
    /// What it is for, in a line.
    pub about: &'static str,
    /// The code.
    pub code: &'static str,
}

/// All of them.
pub const SNIPPETS: &[Snippet] = &[
    Snippet {
        topic: "plain",
        about: "record and dump, in a program of your own",
        code: include_str!("howto/plain.py"),
    },
    Snippet {
        topic: "hook",
        about: "a snapshot at the moment of the failure, one file a rank",
        code: include_str!("howto/oom_hook.py"),
    },
    Snippet {
        topic: "trainer",
        about: "a callback for Hugging Face's Trainer",
        code: include_str!("howto/trainer.py"),
    },
    Snippet { topic: "lightning", about: "a callback for Lightning", code: include_str!("howto/lightning.py") },
    Snippet {
        topic: "servers",
        about: "vLLM, SGLang and other programs that start their own workers",
        code: include_str!("howto/sitecustomize.py"),
    },
    Snippet {
        topic: "old",
        about: "the same in PyTorch 2.0 and 1.13, which take other arguments",
        code: include_str!("howto/old.py"),
    },
];

/// The piece for `topic`.
pub fn snippet(topic: &str) -> Option<Snippet> {
    SNIPPETS.iter().copied().find(|snippet| snippet.topic == topic)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_recording_is_bounded_and_without_cpp_frames() {
        for snippet in SNIPPETS {
            for line in snippet.code.lines().filter(|line| line.contains("_record_memory_history(")) {
                let is_old = snippet.topic == "old";
                assert!(line.contains("max_entries=") && (is_old || line.contains("stacks=\"python\"")), "{line}");
            }
        }
    }

    /// Releases before 2.1 raise a TypeError on the arguments of later ones, and have no _dump_snapshot.
    #[test]
    fn old_releases_get_their_own_arguments() {
        let old = snippet("old").expect("old").code;
        let call = old.lines().find(|line| line.contains("_record_memory_history(")).expect("the call");
        assert!(call.contains("(True, trace_alloc_max_entries=") && call.contains("trace_alloc_record_context=True"));
        assert!(!call.contains(" max_entries=") && !call.contains("stacks=") && !old.contains("_dump_snapshot("));
    }

    #[test]
    fn the_hook_names_rank_process_and_time_and_swallows_nothing() {
        let hook = snippet("hook").expect("the hook").code;
        for part in ["rank{rank}", "pid{os.getpid()}", "time.strftime", "except Exception"] {
            assert!(hook.contains(part), "{part}");
        }
        // Only the dump is inside a try; the error itself is PyTorch's to raise.
        assert_eq!(hook.matches("try:").count(), 1);
        assert!(snippet("plain").expect("plain").code.contains("    raise\n"));
    }
}
