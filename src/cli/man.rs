//! `oomscope man`

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::CommandFactory;
use clap_mangen::Man;

use super::{Cli, Status, output};

/// Writes manual pages, one a command, into a directory.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  oomscope man ~/.local/share/man/man1 && man oomscope-report")]
pub struct Args {
    /// The directory, which is made if needed
    #[arg(value_name = "DIR")]
    directory: PathBuf,
}

pub fn run(args: &Args) -> Result<Status> {
    let directory = &args.directory;
    fs::create_dir_all(directory).with_context(|| format!("cannot make {}", directory.display()))?;
    // Pages are the same on every terminal, and list commands in a section of their own.
    let mut command = Cli::command().disable_help_subcommand(true);
    command.build();
    let pages = std::iter::once(&command).chain(command.get_subcommands());
    for page in pages {
        // `oomscope top` has the page `oomscope-top`.
        let name = page.get_display_name().unwrap_or_else(|| page.get_name()).to_owned();
        let mut text = Vec::new();
        Man::new(page.clone()).title(&name).render(&mut text)?;
        output::write(&directory.join(format!("{name}.1")), &String::from_utf8(text)?)?;
    }
    Ok(Status::Done)
}
