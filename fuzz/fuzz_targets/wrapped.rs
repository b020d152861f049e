//! A pickle in each wrapping, which is damaged at one place.
#![no_main]

use std::io::{Cursor, Write};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::GzEncoder;
use libfuzzer_sys::fuzz_target;
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

#[path = "../../tests/common/exercise.rs"]
mod exercise;

fn wrap(kind: u8, pickle: &[u8]) -> Vec<u8> {
    match kind % 4 {
        0 => {
            let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
            gzip.write_all(pickle).unwrap();
            gzip.finish().unwrap()
        }
        1 => zstd::encode_all(pickle, 1).unwrap(),
        2 => {
            let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
            archive.start_file("snapshot.pickle", SimpleFileOptions::default()).unwrap();
            archive.write_all(pickle).unwrap();
            archive.finish().unwrap().into_inner()
        }
        _ => format!("<script>\"base64\": \"{}\"</script>", STANDARD.encode(pickle)).into_bytes(),
    }
}

fuzz_target!(|input: (u8, u16, u8, bool, &[u8])| {
    let (kind, at, byte, cut, pickle) = input;
    let mut file = wrap(kind, pickle);
    let at = usize::from(at) % file.len();
    if cut {
        file.truncate(at);
    } else {
        file[at] ^= byte;
    }
    let _ = exercise::some(&file);
});
