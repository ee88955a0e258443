//! See [`bloc_control_plane_fuzz::agent_message`].
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| bloc_control_plane_fuzz::agent_message(data));
