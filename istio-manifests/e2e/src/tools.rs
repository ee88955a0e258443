//! The programs of the mesh.

use anyhow::{Context, Result, ensure};
use bloc_mesh::envoy::{locate, target_directory};
use std::path::{Path, PathBuf};

/// Where each program is.
#[derive(Clone, Debug)]
pub struct Tools {
    /// etcd, kube-apiserver, kube-controller-manager, kubectl: `KUBE_BIN`, else target/kube.
    pub kube: PathBuf,
    /// pilot-discovery, pilot-agent, istioctl, Istio's own file `envoy_bootstrap.json`, and the
    /// definition of PodMonitors, `podmonitors.yaml`: `ISTIO_BIN`, else target/istio.
    pub istio: PathBuf,
    /// Envoy.
    pub envoy: PathBuf,
    /// The module.
    pub module: PathBuf,
    /// The folder of bloc-control-plane, bloc-lab and bloc-node-agent.
    pub own: PathBuf,
    /// istio-manifests/.
    pub manifests: PathBuf,
}

impl Tools {
    /// Finds them all.
    ///
    /// # Errors
    /// One is missing; the message names the make target that provides it.
    pub fn find() -> Result<Self> {
        let target = target_directory();
        let folder =
            |variable: &str, name: &str| std::env::var_os(variable).map_or_else(|| target.join(name), PathBuf::from);
        let own = std::env::current_exe()?.parent().context("a program lies in a folder")?.to_owned();
        let tools = Self {
            kube: folder("KUBE_BIN", "kube"),
            istio: folder("ISTIO_BIN", "istio"),
            envoy: locate()?,
            module: target.join("bloc.wasm"),
            own,
            manifests: Path::new(env!("CARGO_MANIFEST_DIR"))
                .parent()
                .context("e2e/ lies in istio-manifests/")?
                .to_owned(),
        };
        for name in ["etcd", "kube-apiserver", "kube-controller-manager", "kubectl"] {
            check(&tools.kube.join(name), "istio-manifests/e2e/build.sh")?;
        }
        for name in ["pilot-discovery", "pilot-agent", "istioctl", "envoy_bootstrap.json", "podmonitors.yaml"] {
            check(&tools.istio.join(name), "istio-manifests/e2e/build.sh")?;
        }
        check(&tools.module, "make wasm")?;
        for name in ["bloc-control-plane", "bloc-lab", "bloc-node-agent"] {
            check(&tools.own.join(name), "cargo build -p bloc-control-plane -p bloc-lab -p bloc-node-agent")?;
        }
        Ok(tools)
    }
}

fn check(file: &Path, remedy: &str) -> Result<()> {
    ensure!(file.is_file(), "{} is missing: run {remedy}", file.display());
    Ok(())
}
