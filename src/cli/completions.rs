//! `oomscope completions`

use anyhow::Result;
use clap_complete::Shell;

use super::{Status, output};

/// Prints what makes a shell complete commands, flags and their values.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  oomscope completions bash > ~/.local/share/bash-completion/completions/oomscope
  oomscope completions zsh > ~/.zfunc/_oomscope        with fpath+=~/.zfunc before compinit in ~/.zshrc
  oomscope completions fish > ~/.config/fish/completions/oomscope.fish")]
pub struct Args {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

pub fn run(args: &Args) -> Result<Status> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut super::command(), "oomscope", &mut script);
    output::print(&String::from_utf8(script)?)?;
    Ok(Status::Done)
}
