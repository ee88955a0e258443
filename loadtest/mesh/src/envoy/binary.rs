//! Finds Envoy: `ENVOY` names it; otherwise it is in the virtual environment that
//! `loadtest/install-envoy.sh` makes.

use std::path::{Path, PathBuf};
use std::process::Command;

/// There is no Envoy to run.
#[derive(Debug, thiserror::Error)]
pub enum EnvoyMissing {
    /// `ENVOY` is set, but is not a file.
    #[error("ENVOY={0} is not a file; it must name an Envoy executable")]
    NotAFile(String),
    /// It is not installed.
    #[error("no Envoy: run loadtest/install-envoy.sh (it makes target/envoy/), or set ENVOY=/path/to/envoy")]
    NotInstalled,
}

/// The Envoy executable.
///
/// # Errors
/// `ENVOY` is set but is not a file, or it is not set and target/envoy/ has no Envoy.
pub fn locate() -> Result<PathBuf, EnvoyMissing> {
    match std::env::var_os("ENVOY").filter(|path| !path.is_empty()) {
        Some(path) if Path::new(&path).is_file() => Ok(path.into()),
        Some(path) => Err(EnvoyMissing::NotAFile(path.to_string_lossy().into_owned())),
        None => installed(&target_directory()).ok_or(EnvoyMissing::NotInstalled),
    }
}

/// The output of `envoy --version`, shortened to the release, such as `1.40.0`.
pub fn version(envoy: &Path) -> String {
    let said = Command::new(envoy)
        .arg("--version")
        .output()
        .map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    said.ok().as_deref().and_then(release).unwrap_or("unknown").to_owned()
}

/// From `<path> version: <commit>/<release>/Clean/RELEASE/BoringSSL`.
fn release(said: &str) -> Option<&str> {
    said.split_once("version: ")?.1.split('/').nth(1)
}

/// The directory of this workspace.
pub fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap_or(Path::new("."))
}

/// The target directory of this workspace.
pub fn target_directory() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace().join("target"), PathBuf::from)
}

fn installed(target: &Path) -> Option<PathBuf> {
    let libraries = target.join("envoy/lib").read_dir().ok()?;
    libraries
        .filter_map(Result::ok)
        .map(|python| python.path().join("site-packages/envoy/_bin/envoy"))
        .find(|envoy| envoy.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_release() {
        assert_eq!(release("\n/opt/a/envoy  version: 9e55/1.40.0/Clean/RELEASE/BoringSSL\n"), Some("1.40.0"));
        assert_eq!(release("nonsense"), None);
    }

    #[test]
    fn finds_envoy_under_any_python() {
        let target = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(target.path().join("envoy/lib/python3.1")).unwrap();
        assert_eq!(installed(target.path()), None);
        let bin = target.path().join("envoy/lib/python3.99/site-packages/envoy/_bin");
        std::fs::create_dir_all(&bin).unwrap();
        std::fs::write(bin.join("envoy"), "").unwrap();
        assert_eq!(installed(target.path()), Some(bin.join("envoy")));
    }
}
