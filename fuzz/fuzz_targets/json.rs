//! JSON of any text behind the first bracket.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../tests/common/exercise.rs"]
mod exercise;

fuzz_target!(|bytes: &[u8]| {
    let text = if bytes.starts_with(b"{\"") { bytes.to_vec() } else { [b"{\"segments\": [", bytes].concat() };
    let _ = exercise::some(&text);
});
