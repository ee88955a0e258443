//! The lab: a local mesh of real Envoys, the load on it, and the report.
//!
//! The options of the commands are not here but in the binary (`main.rs`, `commands`). Simulation
//! in virtual time is `bloc-sim`.
//!
//! | module | what it is for |
//! |---|---|
//! | [`process`] | a child process that ends when its guard is dropped |
//! | [`http`] | one GET, for admin interfaces and readiness |
//! | [`envoy`] | bootstraps for gateway and sidecars, finding and running Envoy |
//! | [`ablation`] | chips alone, bids alone, both, neither |
//! | [`agree`] | whether the simulator agrees with the mesh |
//! | [`bounce`] | the cost of a bounce |
//! | [`retries`] | how often a failing application receives a request |
//! | [`goals`] | the performance claims |
//! | [`rounds`] | the same cases several times, and their medians |
//! | [`agility`] | a new server joins four that are nearly overloaded |
//! | [`backend`] | the application: a paced HTTP server |
//! | [`policy`] | what balances the load in a case |
//! | [`mesh`] | backends, sidecars, control plane, frontends and gateway, started in waves |
//! | [`load`] | closed-loop and open-loop clients, and their results |
//! | [`chaos`] | faults under load, and whether the promises hold |
//! | [`cost`] | the cost of a request in a real Envoy, with and without filters |
//! | [`case`] | one experiment: a mesh, a load, a record |
//! | [`record`] | the row of `summary.json` and all that a report needs beyond it |
//! | [`report`] | terminal table and HTML page |
//! | [`demo`] | the cases of `make demo` and `make paper` |
//! | [`estimators`] | sources of the capacity, side by side |
//! | [`heterogeneous`] | servers of different speeds |
//! | [`overhead`] | the cost of the hold queue |
//! | [`soak`] | whether anything grows in a long run, and whether all parts count the same requests |
//! | [`throttle`] | limits the CPU of a process |
//! | [`seeds`] | independent random streams from one seed |
//! | [`timeline`] | percentiles over time |
//! | [`quantity`] | command line values with their ranges |

pub mod ablation;
pub mod agility;
pub mod agree;
pub mod backend;
pub mod bounce;
pub mod case;
pub mod chaos;
pub mod cost;
pub mod demo;
pub mod envoy;
pub mod estimators;
pub mod goals;
pub mod heterogeneous;
pub mod http;
pub mod load;
pub mod mesh;
pub mod overhead;
pub mod policy;
pub mod process;
pub mod quantity;
pub mod record;
pub mod report;
pub mod retries;
pub mod rounds;
pub mod seeds;
pub mod soak;
pub mod throttle;
pub mod timeline;
