//! A configuration string of any text, as each release reads it.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../tests/common/texts.rs"]
mod texts;

fuzz_target!(|conf: &str| texts::settings(conf));
