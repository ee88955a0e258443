//! What the control plane and the node agent share: how they run, and what they say to each other.
//!
//! | module | what it is for |
//! |---|---|
//! | [`cpu`] | the messages of `POST /v1/cpu` |
//! | [`file`](mod@file) | replaces files |
//! | [`options`] | options of the command line: the log, a port, a source |
//! | [`process`] | signals, the limit of open files |
//! | [`ranges`] | which names and numbers are allowed |
//! | [`server`] | accepts connections, within limits |
//! | [`shares`] | what each caller takes of a whole |
//! | [`throttle`] | which of many like messages the log gets |
//! | [`watched`] | reads files again when they change |

pub mod cpu;
pub mod file;
pub mod options;
pub mod process;
pub mod ranges;
pub mod server;
pub mod shares;
pub mod throttle;
pub mod watched;
