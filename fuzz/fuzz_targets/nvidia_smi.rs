//! The output of nvidia-smi, of any bytes, in each of its forms, and the account of the card that it gives.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../tests/common/texts.rs"]
mod texts;

fuzz_target!(|bytes: &[u8]| texts::nvidia_smi(bytes));
