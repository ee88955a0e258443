//! A separate wall clock for each Envoy of a mesh, through the library of `bloc-clock`.

use super::error::{MeshError, file_error};
use super::faults::Role;
use super::running::Mesh;
use super::tools::{Tools, ToolsMissing};
use crate::envoy::EnvoyError;
use crate::http;
use serde_json::Value;
use std::fs::{OpenOptions, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(20);
/// The time that may pass between two readings of a clock on a busy machine, in seconds. Steps are
/// larger.
const SLACK: i64 = 60;

impl Tools {
    /// The same programs, with an Envoy whose clock [`Mesh::step_clock`] can step. The files for
    /// that go to `directory`.
    ///
    /// # Errors
    /// The library is not built, or a file cannot be written.
    pub fn with_clocks(&self, directory: &Path) -> Result<Self, MeshError> {
        let library = self.lab.with_file_name("libbloc_clock.so");
        if !library.is_file() {
            let (path, command) = (library.display().to_string(), "cargo build --release -p bloc-clock");
            return Err(ToolsMissing::Unbuilt { path, command }.into());
        }
        let (clocks, envoy) = (directory.join("clocks"), directory.join("envoy-with-clock"));
        std::fs::create_dir_all(&clocks).map_err(|source| file_error(&clocks, source))?;
        let clocks = clocks.canonicalize().map_err(|source| file_error(&clocks, source))?;
        // The shell execs Envoy, so its process id is Envoy's.
        let script = format!(
            "#!/bin/sh\nset -eu\nBLOC_CLOCK='{}'/$$\nhead -c 8 /dev/zero >\"$BLOC_CLOCK\"\nexport BLOC_CLOCK LD_PRELOAD='{}'\nexec '{}' \"$@\"\n",
            clocks.display(),
            library.display(),
            self.envoy.display()
        );
        let executable = || std::fs::set_permissions(&envoy, Permissions::from_mode(0o755));
        std::fs::write(&envoy, script).and_then(|()| executable()).map_err(|source| file_error(&envoy, source))?;
        Ok(Self { envoy, clocks: Some(clocks), ..self.clone() })
    }
}

impl Mesh {
    /// Sets an Envoy's wall clock to the machine's plus this many seconds, and checks that Envoy
    /// sees it. Needs [`Tools::with_clocks`].
    ///
    /// # Errors
    /// The clock cannot be set, or Envoy does not use it.
    pub async fn step_clock(&mut self, role: Role, seconds: i64) -> Result<(), MeshError> {
        let id = self.envoy_mut(role).process().id().unwrap_or_default();
        let file = self.tools.clocks.clone().unwrap_or_default().join(id.to_string());
        let before = self.age(role).await?;
        let step = set(&file, seconds).map_err(|source| file_error(&file, source))?;
        let after = self.age(role).await?;
        if (after - before - step).abs() < SLACK {
            return Ok(());
        }
        Err(MeshError::Clock { name: self.envoy(role).name().to_owned(), step, seen: after - before })
    }

    /// How many seconds an Envoy has run, by its own wall clock.
    async fn age(&self, role: Role) -> Result<i64, MeshError> {
        let (_, info) = http::get(self.envoy(role).admin(), "/server_info", LIMIT).await?;
        let age = uptime(&info).ok_or_else(|| EnvoyError::Answer {
            name: self.envoy(role).name().to_owned(),
            path: "/server_info".to_owned(),
            answer: String::from_utf8_lossy(&info).chars().take(200).collect(),
        });
        Ok(age?)
    }
}

/// Writes the seconds. Returns by how many that steps the clock.
fn set(file: &Path, seconds: i64) -> io::Result<i64> {
    let mut file = OpenOptions::new().read(true).write(true).open(file)?;
    let mut before = [0; size_of::<i64>()];
    file.read_exact(&mut before)?;
    // In place and in one write: Envoy has the page mapped.
    file.write_all_at(&seconds.to_ne_bytes(), 0)?;
    Ok(seconds - i64::from_ne_bytes(before))
}

fn uptime(info: &[u8]) -> Option<i64> {
    let info: Value = serde_json::from_slice(info).ok()?;
    info["uptime_current_epoch"].as_str()?.strip_suffix('s')?.parse().ok()
}
