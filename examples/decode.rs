//! Reads snapshots and does nothing else, to measure decoding alone: `cargo run --release --example decode -- FILE …`

use oomscope::snapshot::{LoadOptions, Source, load};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    for path in std::env::args_os().skip(1) {
        let snapshot = load(&Source::from_arg(path.as_ref()), &LoadOptions::default())?;
        println!("{}: {} trace entries", path.to_string_lossy(), snapshot.events.len());
        // The process ends here: giving memory back piece by piece is no part of decoding.
        std::mem::forget(snapshot);
    }
    Ok(())
}
