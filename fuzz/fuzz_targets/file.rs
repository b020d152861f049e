//! A file of any bytes is told for what it is, and read or salvaged, and goes through the commands without a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../tests/common/exercise.rs"]
mod exercise;

fuzz_target!(|bytes: &[u8]| {
    let _ = exercise::some(bytes);
});
