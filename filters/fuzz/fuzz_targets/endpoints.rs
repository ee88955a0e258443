//! See [`bloc_fuzz::endpoints`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| bloc_fuzz::endpoints(data));
