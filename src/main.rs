//! The `oomscope` command.

use std::io::{self, Write};
use std::process::ExitCode;

use oomscope::cli;

fn main() -> ExitCode {
    match cli::run(std::env::args_os()) {
        Ok(status) => status.into(),
        // Whoever reads the output has seen enough (`| head`).
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            // File and member names may hold anything.
            let message = format!("{error:#}");
            let _ = writeln!(io::stderr(), "oomscope: {}", oomscope::text::printable(&message));
            ExitCode::from(2)
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    let io_errors = error.chain().filter_map(|cause| cause.downcast_ref::<io::Error>());
    io_errors.map(io::Error::kind).any(|kind| kind == io::ErrorKind::BrokenPipe)
}
