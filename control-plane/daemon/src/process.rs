//! What a process has to do with the system.

use std::io;
use tokio::signal::unix::{SignalKind, signal};

/// Raises the limit of open files as far as it goes: the usual one of 1,024 is too low for held
/// connections, and for two files for each container.
pub fn raise_open_files() {
    if let Err(error) = rlimit::increase_nofile_limit(u64::MAX) {
        tracing::warn!(%error, "cannot raise the limit on open files");
    }
}

/// From now on, SIGTERM and SIGINT complete what this returns.
///
/// # Errors
/// The system refuses to tell of signals.
pub fn stopped() -> io::Result<impl Future<Output = ()>> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
