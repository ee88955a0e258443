//! Why there is no mesh, or it does not do what it is told.

use super::tools::ToolsMissing;
use crate::envoy::EnvoyError;
use crate::http::HttpError;
use crate::process::ProcessError;
use crate::throttle::CannotThrottle;
use std::net::SocketAddr;
use std::path::Path;

/// Why there is no mesh.
#[derive(Debug, thiserror::Error)]
pub enum MeshError {
    /// A program is missing.
    #[error(transparent)]
    Tools(#[from] ToolsMissing),
    /// A process failed.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// An Envoy failed.
    #[error(transparent)]
    Envoy(#[from] EnvoyError),
    /// A sidecar does not answer.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// A backend refuses another speed, mood or seed.
    #[error("backend-{backend} answers {status} to what it is told")]
    Speed {
        /// Which.
        backend: usize,
        /// What it said.
        status: hyper::StatusCode,
    },
    /// An Envoy goes by another clock than the one that was stepped.
    #[error("{name}: its clock stepped by {seen} s and not by {step} s")]
    Clock {
        /// The Envoy.
        name: String,
        /// By how many seconds it should have.
        step: i64,
        /// By how many it did.
        seen: i64,
    },
    /// Nothing can be throttled here.
    #[error(transparent)]
    Throttle(#[from] CannotThrottle),
    /// A fault could be made a moment before, and now cannot.
    #[error("{fault}: {why}")]
    Fault {
        /// Its name.
        fault: &'static str,
        /// Why not.
        why: String,
    },
    /// An address cannot be listened at.
    #[error("{at}: {source}")]
    Address {
        /// The address.
        at: SocketAddr,
        /// Why not.
        source: std::io::Error,
    },
    /// A file cannot be written.
    #[error("{path}: {source}")]
    File {
        /// The file.
        path: String,
        /// Why not.
        source: std::io::Error,
    },
}

pub(super) fn file_error(path: &Path, source: std::io::Error) -> MeshError {
    MeshError::File { path: path.display().to_string(), source }
}
