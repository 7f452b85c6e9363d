#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| dgmm_fuzz::fits::check(input));
