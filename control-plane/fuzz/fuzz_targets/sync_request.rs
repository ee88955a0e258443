//! See [`bloc_control_plane_fuzz::sync_request`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| bloc_control_plane_fuzz::sync_request(data));
