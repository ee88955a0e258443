//! A compiled module.

use std::path::{Path, PathBuf};
use std::time::SystemTime;
use wasmtime::{Config, Engine, OptLevel};

/// How a module is compiled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compile {
    /// Quickly, with instructions counted: for tests and for counting.
    Metered,
    /// With optimisation and without counting: for measuring time.
    Optimised,
}

/// A compiled module; cheap to clone.
#[derive(Clone)]
pub struct Module {
    pub(crate) inner: wasmtime::Module,
    metered: bool,
}

/// Why there is no module.
#[derive(Debug, thiserror::Error)]
pub enum ModuleError {
    /// It has not been built.
    #[error("{0} is missing: run make wasm")]
    Missing(PathBuf),
    /// It is older than its sources.
    #[error("{module} is older than {source_file}: run make wasm")]
    Stale {
        /// The module.
        module: PathBuf,
        /// The newest of its sources.
        source_file: PathBuf,
    },
    /// It cannot be compiled.
    #[error("the module cannot be compiled: {0}")]
    Invalid(String),
}

impl Module {
    /// target/bloc.wasm, if it is not older than its sources.
    ///
    /// # Errors
    /// It is missing, older than its sources, or not valid.
    pub fn just_built(compile: Compile) -> Result<Self, ModuleError> {
        Self::from_file(&just_built()?, compile)
    }

    /// A module in a file.
    ///
    /// # Errors
    /// It is missing or not valid.
    pub fn from_file(file: &Path, compile: Compile) -> Result<Self, ModuleError> {
        let bytes = std::fs::read(file).map_err(|_| ModuleError::Missing(file.to_owned()))?;
        Self::new(&bytes, compile)
    }

    /// A module as WebAssembly text or binary.
    ///
    /// # Errors
    /// It is not valid.
    pub fn new(bytes: &[u8], compile: Compile) -> Result<Self, ModuleError> {
        let invalid = |error: &dyn std::fmt::Display| ModuleError::Invalid(error.to_string());
        let binary = wat::parse_bytes(bytes).map_err(|error| invalid(&error))?;
        let metered = compile == Compile::Metered;
        let mut config = Config::new();
        config.consume_fuel(metered);
        config.cranelift_opt_level(if metered { OptLevel::None } else { OptLevel::Speed });
        let engine = Engine::new(&config).map_err(|error| invalid(&error))?;
        let inner = wasmtime::Module::new(&engine, &binary).map_err(|error| invalid(&format!("{error:#}")))?;
        Ok(Self { inner, metered })
    }

    /// Whether instructions are counted.
    pub fn is_metered(&self) -> bool {
        self.metered
    }
}

/// The path of target/bloc.wasm.
///
/// # Errors
/// It is missing, or older than its sources.
pub fn just_built() -> Result<PathBuf, ModuleError> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap_or(Path::new("."));
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace.join("target"), PathBuf::from);
    let module = target.join("bloc.wasm");
    let built = modified(&module).ok_or_else(|| ModuleError::Missing(module.clone()))?;
    for sources in ["filters/policy/src", "filters/engine/src", "filters/wasm/src"] {
        if let Some((at, source_file)) = newest(&workspace.join(sources))
            && at > built
        {
            return Err(ModuleError::Stale { module, source_file });
        }
    }
    Ok(module)
}

fn modified(file: &Path) -> Option<SystemTime> {
    file.metadata().and_then(|metadata| metadata.modified()).ok()
}

fn newest(directory: &Path) -> Option<(SystemTime, PathBuf)> {
    let entries = directory.read_dir().ok()?.filter_map(Result::ok).map(|entry| entry.path());
    entries.filter_map(|path| if path.is_dir() { newest(&path) } else { Some((modified(&path)?, path)) }).max()
}
