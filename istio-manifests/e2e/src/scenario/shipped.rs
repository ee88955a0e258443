//! The shipped manifests, before any is applied: kustomize builds them, istioctl has no objections,
//! and the API server would accept them.

use crate::istio::ROOT;
use crate::mesh::Mesh;
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};

/// `istioctl validate`'s warning about every EnvoyFilter, and the options that suppress it in
/// `analyze`; all other warnings count as failures.
const OF_EVERY_ENVOY_FILTER: &str = "EnvoyFilter exposes internal implementation details";
const ANALYZE: [&str; 6] =
    ["analyze", "--all-namespaces", "--color=false", "--failure-threshold=Info", "--suppress", "IST0133=EnvoyFilter *"];
/// For `kubectl patch --patch-file`, not for a kustomization.
const PATCH: &str = "attach/gateway.yaml";
/// Those that the manifests create.
const NAMESPACES: [&str; 2] = ["bloc-system", "bloc-node"];

/// Every folder with a kustomization: fields, references, and the results of Istio's analyzers and
/// webhook.
pub async fn istioctl_and_the_api_server_accept_every_manifest(mesh: &Mesh) -> Result<()> {
    let folders = folders(&mesh.tools.manifests)?;
    mesh.know_pod_monitors().await?;
    // A namespaced resource cannot be tried before its namespace exists.
    for namespace in NAMESPACES {
        mesh.api.kubectl(["create", "namespace", namespace]).await?;
    }
    for folder in &folders {
        every_file_is_referred_to(&mesh.tools.manifests, folder)?;
        let name = folder.strip_prefix(&mesh.tools.manifests)?.display().to_string();
        let built = mesh.api.kubectl(["kustomize".as_ref(), folder.as_os_str()]).await?;
        let file = mesh.logs.join(format!("{}.yaml", name.replace('/', "-")));
        std::fs::write(&file, &built)?;
        // A component is empty by itself; a kustomization that refers to it is among the others.
        if built.trim().is_empty() {
            continue;
        }
        let shown = file.display().to_string();
        nothing_against(&mesh.istioctl(&["validate", "-f", &shown]).await.with_context(|| name.clone())?, &name)?;
        mesh.istioctl(&[&ANALYZE[..], &["--use-kube=false", &shown]].concat()).await.with_context(|| name.clone())?;
        let server = "apply --dry-run=server --server-side --validate=strict -k".split(' ').map(AsRef::as_ref);
        mesh.api.kubectl(server.chain([folder.as_os_str()])).await?;
    }
    let patch = mesh.tools.manifests.join(PATCH);
    let arguments = ["-n", ROOT, "patch", "deployment", "istio-ingressgateway", "--dry-run=server", "--patch-file"];
    mesh.api.kubectl(arguments.iter().map(AsRef::as_ref).chain([patch.as_os_str()])).await?;
    println!("        {} folders and {PATCH}", folders.len());
    for namespace in NAMESPACES {
        mesh.api.kubectl(["delete", "namespace", namespace]).await?;
    }
    Ok(())
}

/// The same analyzers on the API server's resources: whether the parts fit together.
pub async fn istioctl_finds_nothing_wrong_in_the_cluster(mesh: &Mesh) -> Result<()> {
    let kubeconfig = crate::cluster::kubeconfig().display().to_string();
    // Not all namespaces: Kubernetes' own have no sidecars, which istioctl would report.
    for namespace in ["bloc-system", "istio-system", "shop"] {
        let here = ["--all-namespaces=false", "--kubeconfig", &kubeconfig, "--namespace", namespace];
        mesh.istioctl(&[&ANALYZE[..], &here].concat()).await.context(namespace)?;
    }
    Ok(())
}

/// Fails on warnings, with which `istioctl validate` succeeds.
fn nothing_against(said: &str, name: &str) -> Result<()> {
    let warnings = said.lines().filter(|line| line.trim_start().starts_with('*'));
    if let Some(warning) = warnings.into_iter().find(|line| !line.contains(OF_EVERY_ENVOY_FILTER)) {
        bail!("istioctl validate of {name}: {}", warning.trim());
    }
    Ok(())
}

/// All folders with a kustomization, by name.
fn folders(manifests: &Path) -> Result<Vec<PathBuf>> {
    let (mut found, mut open) = (Vec::new(), vec![manifests.to_owned()]);
    while let Some(folder) = open.pop() {
        if folder.join("kustomization.yaml").is_file() {
            found.push(folder.clone());
        }
        for entry in folder.read_dir()? {
            let path = entry?.path();
            if path.is_dir() {
                open.push(path);
            }
        }
    }
    found.sort();
    ensure!(found.len() > 5, "no manifests in {}", manifests.display());
    Ok(found)
}

/// A file that no kustomization names would be shipped untested.
fn every_file_is_referred_to(manifests: &Path, folder: &Path) -> Result<()> {
    let kustomization = std::fs::read_to_string(folder.join("kustomization.yaml"))?;
    for entry in folder.read_dir()? {
        let path = entry?.path();
        let Some(name) = path.file_name().and_then(|name| name.to_str()).filter(|name| name.ends_with(".yaml")) else {
            continue;
        };
        let elsewhere = name == "kustomization.yaml" || path == manifests.join(PATCH);
        ensure!(elsewhere || kustomization.contains(name), "no kustomization has {}", path.display());
    }
    Ok(())
}
