use oomscope::snapshot::{LoadOptions, Source, load};
fn main() {
    for arg in std::env::args_os().skip(1) {
        let source = Source::from_arg(std::path::Path::new(&arg));
        let t = std::time::Instant::now();
        match load(&source, &LoadOptions::default()) {
            Ok(s) => println!(
                "{:?} {} devices={} segments={} blocks={} events={} strings stacks={} frames={} warnings={:?} {:?}",
                arg,
                s.format.torch(),
                s.devices.len(),
                s.segments.len(),
                s.blocks.len(),
                s.events.len(),
                s.stacks.len(),
                s.frames.len(),
                s.warnings,
                t.elapsed()
            ),
            Err(e) => println!("{arg:?} ERROR {e}"),
        }
    }
}
