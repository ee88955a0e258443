//! The page in a real Chromium, driven over WebDriver: contents, updates without a reload,
//! keyboard, both colour schemes, and size.
//!
//! Only tests that need a browser belong here. `tests/status.rs` tests the JSON behind the page.
//!
//! Needs Debian's packages `chromium` and `chromium-driver`; without them, `make test` skips these
//! tests. `cargo test -p bloc-control-plane --test page -- --ignored` writes the README's picture,
//! `control-plane/page.png`.
#![allow(missing_docs, reason = "tests")]

mod browser;
#[path = "../common/mod.rs"]
mod common;
mod cpu;
mod fleet;
mod keyboard;
mod look;
mod service;
mod size;
mod updates;
