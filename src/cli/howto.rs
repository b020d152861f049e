//! `oomscope howto`

use anyhow::Result;
use clap::ValueEnum;

use super::{Status, output};
use crate::oom::howto::{SNIPPETS, snippet};

/// Prints capture code to paste: recording, and a hook for the moment of the failure that is safe with N ranks.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  oomscope howto                                the list
  oomscope howto hook > oom_hook.py             the hook that the others use")]
pub struct Args {
    /// What to print the code for
    #[arg(value_enum)]
    topic: Option<Topic>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Topic {
    /// Record and dump, in a program of your own
    Plain,
    /// A snapshot at the moment of the failure, one file a rank
    Hook,
    /// A callback for Hugging Face's Trainer
    Trainer,
    /// A callback for Lightning
    Lightning,
    /// vLLM, SGLang and other programs that start their own workers
    Servers,
    /// The same in PyTorch 2.0 and 1.13, which take other arguments
    Old,
}

impl Topic {
    fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Hook => "hook",
            Self::Trainer => "trainer",
            Self::Lightning => "lightning",
            Self::Servers => "servers",
            Self::Old => "old",
        }
    }
}

pub fn run(args: &Args) -> Result<Status> {
    let text = match args.topic.and_then(|topic| snippet(topic.name())) {
        Some(snippet) => snippet.code.to_owned(),
        None => {
            let row = |snippet: &crate::oom::howto::Snippet| {
                format!("  oomscope howto {:<10} {}\n", snippet.topic, snippet.about)
            };
            format!("Code to paste that records snapshots:\n{}", SNIPPETS.iter().map(row).collect::<String>())
        }
    };
    output::print(&text)?;
    Ok(Status::Done)
}
