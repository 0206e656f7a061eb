//! The target `text` under libFuzzer.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| sluice_fuzz::targets::text::run(data));
