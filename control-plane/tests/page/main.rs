//! The page in a real Chromium, driven over WebDriver: what it shows, that it follows what happens
//! without a reload, the keyboard, both schemes, and size.
//!
//! Needs Debian's packages `chromium` and `chromium-driver`; without them `make test` leaves these
//! tests out. `cargo test -p bloc-control-plane --test page -- --ignored` writes the picture of the
//! README, `control-plane/page.png`.
#![allow(missing_docs, reason = "tests")]

mod browser;
#[path = "../common/mod.rs"]
mod common;
mod fleet;
mod keyboard;
mod look;
mod service;
mod size;
mod updates;
