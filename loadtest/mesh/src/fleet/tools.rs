//! The programs that a mesh consists of, and their paths.

use crate::envoy::{self, EnvoyMissing};
use crate::policy::Policy;
use std::path::{Path, PathBuf};

pub use crate::envoy::target_directory;

/// The programs of a mesh.
#[derive(Clone, Debug)]
pub struct Tools {
    /// Envoy.
    pub envoy: PathBuf,
    /// `bloc-lab`, whose `backend` command is the application.
    pub lab: PathBuf,
    /// `bloc.wasm`; needed by policies with our filters.
    pub module: PathBuf,
    /// `reference.wasm`; needed by [`Policy::NoopFilters`].
    pub reference: PathBuf,
    /// `bloc-control-plane`; needed when a mesh has one.
    pub control_plane: PathBuf,
    /// The folder of the Envoys' clocks, if they have their own: see [`Tools::with_clocks`].
    pub(super) clocks: Option<PathBuf>,
}

/// A program is missing.
#[derive(Debug, thiserror::Error)]
pub enum ToolsMissing {
    /// Envoy.
    #[error(transparent)]
    Envoy(#[from] EnvoyMissing),
    /// One of our programs.
    #[error("{path} is missing: run `{command}`")]
    Unbuilt {
        /// Where it should be.
        path: String,
        /// The command that builds it.
        command: &'static str,
    },
}

impl Tools {
    /// The usual paths: Envoy from [`envoy::locate`], the control plane beside `lab`, the module
    /// from `BLOC_WASM` or else `target/bloc.wasm`.
    ///
    /// # Errors
    /// There is no Envoy. The other programs are checked by [`Tools::need`], which knows which ones
    /// are needed.
    pub fn beside(lab: &Path) -> Result<Self, ToolsMissing> {
        let module = std::env::var_os("BLOC_WASM").filter(|path| !path.is_empty());
        Ok(Self {
            envoy: envoy::locate()?,
            lab: lab.to_owned(),
            module: module.map_or_else(|| target_directory().join("bloc.wasm"), PathBuf::from),
            reference: target_directory().join("reference.wasm"),
            control_plane: lab.with_file_name("bloc-control-plane"),
            clocks: None,
        })
    }

    /// Checks that our programs exist that a mesh with this policy needs, with or without a control
    /// plane.
    ///
    /// # Errors
    /// [`ToolsMissing::Unbuilt`] with the command that builds it.
    pub fn need(&self, policy: Policy, control_plane: bool) -> Result<(), ToolsMissing> {
        let needs = [
            (true, &self.lab, "cargo build --release -p bloc-lab"),
            (policy.routing().is_some(), &self.module, "make wasm"),
            (policy == Policy::NoopFilters, &self.reference, "make wasm"),
            (control_plane, &self.control_plane, "cargo build --release -p bloc-control-plane"),
        ];
        match needs.into_iter().find(|(needed, path, _)| *needed && !path.is_file()) {
            None => Ok(()),
            Some((_, path, command)) => Err(ToolsMissing::Unbuilt { path: path.display().to_string(), command }),
        }
    }
}
