//! The lab: experiments on a local mesh of real Envoys, and their reports.
//!
//! The mesh and its load are not here but in `bloc-mesh`; simulation in virtual time is `bloc-sim`.
//!
//! | module | what it is for |
//! |---|---|
//! | [`commands`] | the commands of `bloc-lab` |
//! | [`experiments`] | the experiments, a folder each |
//! | [`report`] | terminal table and HTML page of records |
//! | [`case`] | a case: a mesh, a load, and how long it is measured |
//! | [`record`] | the result of a case: its row of `summary.json`, and what a report needs besides |
//! | [`series`] | many cases in a row |
//! | [`rounds`] | the same cases several times, and their medians |
//! | [`heterogeneous`] | cases with servers of different speeds |
//! | [`timeline`] | percentiles over time |

pub mod case;
pub mod commands;
mod console;
pub mod experiments;
pub mod heterogeneous;
pub mod record;
pub mod report;
pub mod rounds;
pub mod series;
pub mod timeline;
