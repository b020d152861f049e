//! A whole log: its messages, the phase of each, and what servers say about their memory.

use std::borrow::Cow;

use super::budget::Budget;
use super::clues::Clues;
use super::facts::Facts;
use super::marks::Marks;
use super::message::{Kind, Message};
use super::phases::Chronology;
use super::scan::scan;

/// What a log says.
#[derive(Clone, Debug, PartialEq)]
pub struct Log {
    /// Its out-of-memory messages, in order.
    pub messages: Vec<Message>,
    /// Its phases.
    pub chronology: Chronology,
    /// A server's memory budget before the first message.
    pub budget: Budget,
    /// Programs that the log is of, by what they write.
    pub programs: Programs,
}

/// Programs and libraries that a log names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Programs {
    /// vLLM.
    pub vllm: bool,
    /// SGLang.
    pub sglang: bool,
    /// Hugging Face's `Trainer`.
    pub trainer: bool,
    /// Diffusers.
    pub diffusers: bool,
    /// PyTorch Lightning.
    pub lightning: bool,
    /// DeepSpeed.
    pub deepspeed: bool,
    /// A backward pass or an optimiser: training, whoever does it.
    pub training: bool,
    /// An evaluation loop.
    pub evaluation: bool,
    /// vLLM's sleep mode, or another pool that is moved to the host.
    pub sleep_mode: bool,
}

/// Reads `log` by `marks`.
pub fn read(log: &[u8], marks: &Marks) -> Log {
    let log = decoded(log);
    let (messages, chronology) = rayon::join(|| scan(&log), || Chronology::new(&log, marks));
    let until = messages.first().map_or(log.len(), |message| message.offset);
    let clues = Clues::gather(&log, until);
    Log { budget: Budget::read(&clues), programs: Programs::of(&clues), messages, chronology }
}

/// PowerShell redirects in UTF-16.
fn decoded(log: &[u8]) -> Cow<'_, [u8]> {
    let little = log.starts_with(&[0xff, 0xfe]);
    if !little && !log.starts_with(&[0xfe, 0xff]) {
        return Cow::Borrowed(log);
    }
    let unit = |pair: &[u8]| match little {
        true => u16::from_le_bytes([pair[0], pair[1]]),
        false => u16::from_be_bytes([pair[0], pair[1]]),
    };
    let units: Vec<u16> = log[2..].chunks_exact(2).map(unit).collect();
    Cow::Owned(String::from_utf16_lossy(&units).into_bytes())
}

impl Programs {
    /// Those of either.
    pub fn and(self, other: Self) -> Self {
        Self {
            vllm: self.vllm || other.vllm,
            sglang: self.sglang || other.sglang,
            trainer: self.trainer || other.trainer,
            diffusers: self.diffusers || other.diffusers,
            lightning: self.lightning || other.lightning,
            deepspeed: self.deepspeed || other.deepspeed,
            training: self.training || other.training,
            evaluation: self.evaluation || other.evaluation,
            sleep_mode: self.sleep_mode || other.sleep_mode,
        }
    }

    fn of(clues: &Clues) -> Self {
        let has = |words: &[&str]| words.iter().any(|words| clues.has(words));
        Self {
            vllm: has(&["vllm/", "vLLM API server", "gpu_memory_utilization (", "Memory profiling takes", "vllm."]),
            sglang: has(&["sglang/", "Load weight begin", "server_args=ServerArgs("]),
            trainer: has(&["transformers/trainer.py", "***** Running training *****"]),
            diffusers: has(&["diffusers/"]),
            lightning: has(&["lightning/pytorch", "pytorch_lightning"]),
            deepspeed: has(&["deepspeed/"]),
            training: has(&[
                ".backward(",
                ", in backward",
                "optimizer.step(",
                ", in training_step",
                "***** Running training *****",
            ]),
            evaluation: has(&[", in evaluation_loop", ", in prediction_step", "***** Running Evaluation"]),
            sleep_mode: has(&["enable_sleep_mode=True", "--enable-sleep-mode", "torch_memory_saver"]),
        }
    }
}

impl Log {
    /// The facts of one of the messages, with what the server's budget adds.
    pub fn facts(&self, message: &Message) -> Facts {
        let mut facts = Facts::of_message(message);
        // vLLM's account says what PyTorch has reserved, where the message is cut before that.
        if facts.reserved.is_none()
            && message.kind == Kind::Allocator
            && let Some(reserved) = self.budget.reserved()
        {
            facts.reserved = Some(reserved);
            facts.active = Some(reserved);
            facts.stranded = Some(0);
        }
        facts
    }
}
