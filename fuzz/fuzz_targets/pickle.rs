//! A pickle of any bytes is read or salvaged, and goes through all commands without a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../tests/common/exercise.rs"]
mod exercise;

fuzz_target!(|bytes: &[u8]| {
    // Without the header the bytes may be taken for something else.
    let pickle = if bytes.starts_with(b"\x80") { bytes.to_vec() } else { [b"\x80\x04", bytes].concat() };
    let _ = exercise::everything(&pickle);
});
