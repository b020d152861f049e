//! A log of any bytes is read, judged and answered without a panic.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../tests/common/texts.rs"]
mod texts;

fuzz_target!(|bytes: &[u8]| texts::log(bytes));
