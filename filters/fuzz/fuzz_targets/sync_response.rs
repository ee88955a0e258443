//! See [`bloc_fuzz::sync_response`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| bloc_fuzz::sync_response(data));
