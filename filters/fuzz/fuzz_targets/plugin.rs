//! See [`bloc_fuzz::plugin`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| bloc_fuzz::plugin(data));
