//! A log of any bytes is read, judged and answered without a panic: `cargo +nightly fuzz run oom_log`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use oomscope::oom::{Inputs, Marks, diagnose, read, smi};

fuzz_target!(|bytes: &[u8]| {
    let log = read(bytes, &Marks::built_in());
    for message in log.messages.iter().take(16) {
        assert!(message.offset <= message.end);
        diagnose(Inputs {
            facts: log.facts(message),
            log: Some(&log),
            message: Some(message),
            ..Inputs::default()
        });
    }
    smi::parse(&String::from_utf8_lossy(bytes));
});
