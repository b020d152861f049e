//! The output of nvidia-smi, of any bytes, in each of its forms.
#![no_main]

use libfuzzer_sys::fuzz_target;
use oomscope::oom::smi;

fuzz_target!(|bytes: &[u8]| {
    smi::parse(&String::from_utf8_lossy(bytes));
});
