//! Signals and limits of the process.

use std::io;
use tokio::signal::unix::{SignalKind, signal};

/// Raises the limit on open files as far as possible: the usual 1,024 are too few for held
/// connections and for the files of each container.
pub fn raise_open_files() {
    if let Err(error) = rlimit::increase_nofile_limit(u64::MAX) {
        tracing::warn!(%error, "cannot raise the limit on open files");
    }
}

/// From now on, SIGTERM and SIGINT complete the returned future.
pub fn stopped() -> io::Result<impl Future<Output = ()>> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
