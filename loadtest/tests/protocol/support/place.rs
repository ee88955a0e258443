//! The directory of a test, and the programs that it needs.

use std::path::{Path, PathBuf};
use std::time::SystemTime;
use tempfile::TempDir;

/// The parts of one test.
pub struct Place {
    pub directory: TempDir,
    pub envoy: PathBuf,
    pub module: PathBuf,
}

impl Place {
    /// A new directory; panics if something is missing, or if the module is older than its sources.
    pub fn new() -> Self {
        Self::with_module("bloc.wasm")
    }

    /// The same with the module that crashes on demand.
    pub fn crashing() -> Self {
        Self::with_module("crash.wasm")
    }

    fn with_module(name: &str) -> Self {
        let module = bloc_mesh::envoy::target_directory().join(name);
        let built = modified(&module).unwrap_or_else(|| panic!("{} is missing: run make wasm", module.display()));
        let workspace = Path::new(env!("CARGO_MANIFEST_DIR"))
            .ancestors()
            .find(|folder| folder.join("Cargo.lock").is_file())
            .expect("the workspace");
        for sources in ["filters/policy/src", "filters/engine/src", "filters/wasm/src"] {
            let newest = newest(&workspace.join(sources));
            assert!(newest <= built, "{} is older than {sources}: run make wasm", module.display());
        }
        let envoy = bloc_mesh::envoy::locate().unwrap_or_else(|error| panic!("{error}"));
        Self { directory: tempfile::tempdir().unwrap(), envoy, module }
    }

    /// The same with the module of the next version.
    pub fn next_version() -> Self {
        Self { module: next_version("bloc.wasm"), ..Self::new() }
    }

    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// The control plane's program, which only some tests need.
    pub fn control_plane(&self) -> PathBuf {
        let test = std::env::current_exe().unwrap();
        // Tests are in deps/, programs above it.
        let program = test.parent().and_then(Path::parent).unwrap().join("bloc-control-plane");
        assert!(program.is_file(), "{} is missing: run cargo build -p bloc-control-plane", program.display());
        program
    }
}

/// A file of the next version, which has one more parameter; panics if it is missing.
pub fn next_version(name: &str) -> PathBuf {
    let file = bloc_mesh::envoy::target_directory().join("next").join(name);
    assert!(file.is_file(), "{} is missing: run .ci/next-build module control-plane", file.display());
    file
}

fn modified(file: &Path) -> Option<SystemTime> {
    file.metadata().and_then(|metadata| metadata.modified()).ok()
}

fn newest(directory: &Path) -> SystemTime {
    let entries = directory.read_dir().unwrap().map(|entry| entry.unwrap().path());
    entries
        .map(|path| if path.is_dir() { newest(&path) } else { modified(&path).unwrap() })
        .max()
        .unwrap_or(SystemTime::UNIX_EPOCH)
}
