//! A pickle of any bytes is read or salvaged, and goes through the commands without a panic.
//!
//! Bytes that are changed at random seldom leave a pickle whole, so that little behind the decoder would be tried: every
//! other change is one of opcodes, as in `tests/hostile`.
#![no_main]

use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};

#[path = "../../tests/common/exercise.rs"]
mod exercise;
#[path = "../../tests/hostile/opcodes.rs"]
mod opcodes;
#[path = "../../tests/hostile/random.rs"]
mod random;

fuzz_target!(|bytes: &[u8]| {
    // Without the header the bytes may be taken for something else.
    let pickle = if bytes.starts_with(b"\x80") { bytes.to_vec() } else { [b"\x80\x04", bytes].concat() };
    let _ = exercise::some(&pickle);
});

fuzz_mutator!(|bytes: &mut [u8], size: usize, most: usize, seed: u32| {
    let mut random = random::Random(u64::from(seed));
    let mut changed = opcodes::opcodes(&bytes[..size]);
    if changed.is_empty() || random.below(2) == 0 {
        return fuzzer_mutate(bytes, size, most);
    }
    let before = changed.clone();
    opcodes::change(&mut changed, &before, &mut random);
    let changed = changed.concat();
    if changed.is_empty() || changed.len() > most {
        return fuzzer_mutate(bytes, size, most);
    }
    bytes[..changed.len()].copy_from_slice(&changed);
    changed.len()
});
