//! The lab: a local mesh of real Envoys, the load on it, and the report.
//!
//! | module | what it is for |
//! |---|---|
//! | [`process`] | a child process as a guard: it never outlives us |
//! | [`http`] | one GET, for admin interfaces and readiness |
//! | [`envoy`] | bootstraps for gateway and sidecars, finding and running Envoy |
//! | [`ablation`] | chips alone, bids alone, both, neither |
//! | [`agree`] | whether the simulator says what the mesh says |
//! | [`bounce`] | what a bounce costs |
//! | [`retries`] | how often an application that fails is asked |
//! | [`goals`] | what is claimed of performance |
//! | [`rounds`] | the same cases several times, and their medians |
//! | [`agility`] | a new server joins four that are nearly overloaded |
//! | [`backend`] | the application: a paced HTTP server |
//! | [`policy`] | what balances the load in a case |
//! | [`mesh`] | backends, sidecars, control plane, frontends and gateway, started in waves |
//! | [`load`] | closed loop and open loop clients, what they saw |
//! | [`chaos`] | what breaks under load, and whether what is promised holds |
//! | [`cost`] | what a request pays in a real Envoy, with and without filters |
//! | [`case`] | one experiment: a mesh, a load, a record |
//! | [`record`] | the row of `summary.json` and all that a report needs beyond it |
//! | [`report`] | terminal table and HTML page |
//! | [`demo`] | the cases of `make demo` and `make paper` |
//! | [`estimators`] | where the capacity comes from, side by side |
//! | [`heterogeneous`] | servers of different speeds |
//! | [`overhead`] | what the hold queue costs |
//! | [`soak`] | whether anything grows in a long life, and whether everybody counts the same |
//! | [`throttle`] | less of a processor for one process |
//! | [`seeds`] | independent random streams out of one seed |
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
