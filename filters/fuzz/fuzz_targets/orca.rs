//! See [`bloc_fuzz::orca`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| bloc_fuzz::orca(data));
