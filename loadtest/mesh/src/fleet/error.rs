//! Why a mesh does not start, or does not do what it is told.

use super::tools::ToolsMissing;
use crate::envoy::EnvoyError;
use crate::http::HttpError;
use crate::process::ProcessError;
use crate::throttle::CannotThrottle;
use std::net::SocketAddr;
use std::path::Path;

/// Why a mesh does not start, or does not do what it is told.
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
    /// A backend refuses another speed, behaviour or seed.
    #[error("backend-{backend} answers {status} to what it is told")]
    Speed {
        /// The backend's number.
        backend: usize,
        /// The status of its answer.
        status: hyper::StatusCode,
    },
    /// An Envoy does not use the clock that was stepped.
    #[error("{name}: its clock stepped by {seen} s and not by {step} s")]
    Clock {
        /// The Envoy.
        name: String,
        /// The step that was set, in seconds.
        step: i64,
        /// The step that Envoy saw, in seconds.
        seen: i64,
    },
    /// This machine cannot throttle a process.
    #[error(transparent)]
    Throttle(#[from] CannotThrottle),
    /// A fault that could be injected a moment ago cannot be injected now.
    #[error("{fault}: {why}")]
    Fault {
        /// Its name.
        fault: &'static str,
        /// Why not.
        why: String,
    },
    /// The mesh cannot listen on an address.
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
