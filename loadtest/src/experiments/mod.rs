//! The experiments, a folder each: `mod.rs` says what is measured and does it, `command.rs` has its
//! options. `page.rs` shows the results, if more than the table and page of all records is needed.
//!
//! To make the next one, copy [`ablation`], which turns [cases](crate::case) into
//! [records](crate::record). Then add the folder and a row to this file, the command to
//! [`commands`](crate::commands) (the `use`, the variant, its arm), its section, if it has one, to
//! the command `report`, and a row to `loadtest/README.md`. Its tests check the cases and what the
//! page shows; no unit test starts a mesh. To try it: `make release envoy &&
//! target/release/bloc-lab NAME --duration 1s`; the files go to `target/NAME`. What several
//! experiments share is beside this folder.
//!
//! | experiment | what it measures |
//! |---|---|
//! | [`ablation`] | chips alone, bids alone, both, neither |
//! | [`agility`] | a new server joins four that are nearly overloaded |
//! | [`agree`] | whether the simulator agrees with the mesh |
//! | [`bounce`] | the cost of a bounce |
//! | [`chaos`] | faults under load, and whether the promises hold |
//! | [`cost`] | the cost of a request in a real Envoy, with and without filters |
//! | [`demo`] | the cases of `make demo` and `make paper` |
//! | [`estimators`] | sources of the capacity, side by side |
//! | [`follow`] | whether a sidecar's capacity follows the CPU quota that the node agent sets |
//! | [`goals`] | the performance claims |
//! | [`handover`] | the time between two requests of a busy application |
//! | [`overhead`] | the cost of the hold queue |
//! | [`quota`] | who sets CPU quotas: the node agent beside others, in real control groups |
//! | [`regimes`] | a dozen cells of the map of regimes |
//! | [`retries`] | how often a failing application receives a request |
//! | [`soak`] | whether anything grows in a long run, and whether all parts count the same requests |

pub mod ablation;
pub mod agility;
pub mod agree;
pub mod bounce;
pub mod chaos;
pub mod cost;
pub mod demo;
pub mod estimators;
pub mod follow;
pub mod goals;
pub mod handover;
pub mod overhead;
pub mod quota;
pub mod regimes;
pub mod retries;
pub mod soak;
