//! The target `answer` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sluice_fuzz::targets::answer::run(data));
