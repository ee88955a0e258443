//! The fuzz targets of what the filters read from others. Each target checks that nothing crashes,
//! and what must hold besides. Those of the control plane are in `control-plane/fuzz`.
//!
//! A new target belongs here. Its file in `fuzz_targets` only passes the bytes on, and its file in
//! `corpus` holds only inputs, one a line. The scripts beside these folders run the fuzzers.
//!
//! | target | reads | what must hold |
//! |---|---|---|
//! | [`load_report`] | `x-bloc-load` | numbers within their range; RFC 9651 allows the header; it reads the same after it is written again |
//! | [`orca`] | `endpoint-load-metrics` | the same |
//! | [`bid`] | `x-bloc-bid`; the key in `x-bloc-endpoints`; `x-bloc-reject` | a bid is finite and reads the same again; an invalid one counts as missing; a key and a reason read the same again |
//! | [`plugin`] | the plugin configuration | every parameter within its documented range |
//! | [`endpoints`] | endpoint lists and reports, by a sender with requests under way | a list names existing servers, each once; estimates are numbers; nothing is lost |
//! | [`sync_response`] | the control plane's answer | as `plugin`; a sender and a server work with it |
//!
//! The targets are ordinary functions, so `cargo test` replays the committed corpus without a
//! fuzzer; `fuzz.sh` runs the fuzzers.

pub mod corpus;
mod endpoints;
mod headers;
mod parameters;
mod sync;

pub use endpoints::endpoints;
pub use headers::{bid, load_report, orca};
pub use parameters::plugin;
pub use sync::sync_response;

/// Handles one input.
pub type Target = fn(&[u8]);

/// The targets by name.
pub const TARGETS: [(&str, Target); 6] = [
    ("bid", bid),
    ("endpoints", endpoints),
    ("load_report", load_report),
    ("orca", orca),
    ("plugin", plugin),
    ("sync_response", sync_response),
];
