//! See [`bloc_fuzz::load_report`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| bloc_fuzz::load_report(data));
