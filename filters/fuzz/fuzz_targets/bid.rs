//! See [`bloc_fuzz::bid`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| bloc_fuzz::bid(data));
