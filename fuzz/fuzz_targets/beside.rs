//! What is read beside a snapshot: lists of requests, figures to compare with, rules, marks, the shapes of a model, flags.
#![no_main]

use libfuzzer_sys::fuzz_target;

#[path = "../../tests/common/texts.rs"]
mod texts;

fuzz_target!(|bytes: &[u8]| texts::beside(bytes));
