//! Words whose mere presence in a log tells something, found in one pass.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, MatchKind};

use super::squash::{self, Squashed};

const CLUES: &[&str] = &[
    // Programs.
    "vllm/",
    "vllm.",
    "vLLM API server",
    "sglang/",
    "server_args=ServerArgs(",
    "Load weight begin",
    "transformers/trainer.py",
    "***** Running training *****",
    "***** Running Evaluation",
    "diffusers/",
    "lightning/pytorch",
    "pytorch_lightning",
    "deepspeed/",
    ".backward(",
    ", in backward",
    "optimizer.step(",
    ", in training_step",
    ", in evaluation_loop",
    ", in prediction_step",
    "enable_sleep_mode=True",
    "--enable-sleep-mode",
    "torch_memory_saver",
    // What servers say about their memory.
    "total_gpu_memory (",
    "gpu_memory_utilization (",
    "gpu_memory_utilization=",
    "'gpu_memory_utilization': ",
    "mem_fraction_static=",
    "model weights take ",
    "Model loading took ",
    "Loading model weights took ",
    "Load weight end",
    "non_torch_memory takes ",
    "PyTorch activation peak memory takes ",
    "reserved for KV Cache is ",
    "Available KV cache memory: ",
    "Graph capturing finished in",
    "Memory pool end",
    "Memory profiling takes",
];

static FINDER: LazyLock<AhoCorasick> = LazyLock::new(|| {
    AhoCorasick::builder().match_kind(MatchKind::LeftmostFirst).build(CLUES).expect("a few constant patterns")
});

/// Which clues a log has.
pub struct Clues<'a> {
    log: &'a [u8],
    seen: Vec<bool>,
    /// The last place of each before the first message.
    last: Vec<Option<usize>>,
}

impl<'a> Clues<'a> {
    /// Gathers from `log`; the last places are those before `until`.
    pub fn gather(log: &'a [u8], until: usize) -> Self {
        let mut clues = Self { log, seen: vec![false; CLUES.len()], last: vec![None; CLUES.len()] };
        for found in FINDER.find_iter(log) {
            let clue = found.pattern().as_usize();
            clues.seen[clue] = true;
            if found.start() < until {
                clues.last[clue] = Some(found.start());
            }
        }
        clues
    }

    fn index(words: &str) -> Option<usize> {
        let found = CLUES.iter().position(|clue| *clue == words);
        debug_assert!(found.is_some(), "{words} is not in the table");
        found
    }

    /// Whether `words` are in the log.
    pub fn has(&self, words: &str) -> bool {
        Self::index(words).is_some_and(|clue| self.seen[clue])
    }

    /// The text from the last `words` on, squashed, a few hundred bytes of it.
    pub fn text(&self, words: &str) -> Option<Squashed> {
        let at = self.last[Self::index(words)?]?;
        Some(squash::plain(self.log, at, self.log.len().min(at + 300)))
    }
}
