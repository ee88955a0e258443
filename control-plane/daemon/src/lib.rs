//! What the control plane and the node agent share.
//!
//! | module | contents |
//! |---|---|
//! | [`cpu`] | the messages of `POST /v1/cpu` |
//! | [`file`](mod@file) | replaces files |
//! | [`options`] | command-line options: the log, a port, a source |
//! | [`process`] | signals, the limit of open files |
//! | [`ranges`] | checks of names and numbers |
//! | [`server`] | accepts connections, within limits |
//! | [`shares`] | what each caller takes of a whole |
//! | [`throttle`] | limits repeated log messages |
//! | [`watched`] | reads files again when they change |
#![allow(missing_docs, reason = "nobody publishes this crate, and most names need no comment")]

use std::sync::{Mutex, MutexGuard, PoisonError};

pub mod cpu;
pub mod file;
pub mod options;
pub mod process;
pub mod ranges;
pub mod server;
pub mod shares;
pub mod throttle;
pub mod watched;

/// Locks. After a panic under this lock, the current values serve better than none.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
