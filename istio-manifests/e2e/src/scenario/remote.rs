//! `module-remote` instead of `module`: Istio's agent in each pod downloads the module from the
//! test's server and checks its SHA-256.

use super::failure::{answers, replace_a_backend, serves_without_filters};
use crate::cluster::NODE;
use crate::mesh::Mesh;
use anyhow::{Context, Result, ensure};
use http_body_util::Full;
use hyper::body::Bytes;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::net::TcpListener;
use tokio::process::Command;
use tokio::task::AbortHandle;

/// The agent's directory for downloads.
const DOWNLOADED: &str = "/var/lib/istio/data";
/// In the pattern; no module has this sum.
const NO_SUM: &str = "0000000000000000000000000000000000000000000000000000000000000000";
const PATTERN_URL: &str = "http://bloc-module.bloc-system.svc.cluster.local:8000/bloc.wasm";

/// Running proxies take the module from the URL, and so does a new one, though its volume has no
/// module.
pub async fn the_module_can_be_downloaded(mesh: &Mesh) -> Result<()> {
    let server = Server::start(&mesh.tools.module).await?;
    mesh.api.kubectl(["-n", "shop", "delete", "configmap", "bloc-module"]).await?;
    apply(mesh, &server.url, &sum(&mesh.tools.module).await?).await?;
    mesh.until("the downloaded module in every backend", async || {
        ensure!(mesh.ask("/").await?.status == 200, "no answer");
        for pod in mesh.backends() {
            let filters = mesh.admin(&pod, "config_dump?resource=ecds_filters").await?;
            if !filters.contains(DOWNLOADED) || filters.contains("/etc/bloc/bloc.wasm") {
                return Ok(false);
            }
        }
        Ok(true)
    })
    .await?;
    mesh.capacity_in_force(9).await?;
    let downloads = server.downloads();
    let name = replace_a_backend(mesh).await?;
    mesh.capacity_in_force(9).await?;
    ensure!(server.downloads() > downloads, "{name} has not downloaded the module");
    answers(mesh).await
}

/// The file has another SHA-256, as from a server that an attacker controls.
pub async fn a_pod_that_downloads_another_file_serves_without_filters(mesh: &Mesh) -> Result<()> {
    let other = mesh.logs.join("other.wasm");
    std::fs::write(&other, b"\0asm\x01\0\0\0")?;
    let server = Server::start(&other).await?;
    apply(mesh, &server.url, &sum(&mesh.tools.module).await?.replace('0', "1")).await?;
    serves_without_filters(mesh).await?;
    ensure!(server.downloads() > 0, "no pod asked for the module");
    Ok(())
}

/// There is no server: the pod serves without the filters. Then the volume is used again.
pub async fn a_pod_whose_download_fails_serves_without_filters(mesh: &Mesh) -> Result<()> {
    // The server is dropped at once, so its port is closed.
    let url = Server::start(&mesh.tools.module).await?.url.clone();
    apply(mesh, &url, &sum(&mesh.tools.module).await?.replace('0', "2")).await?;
    serves_without_filters(mesh).await?;
    mesh.apply_folder("module").await?;
    mesh.bring_module("shop", &mesh.tools.module).await?;
    mesh.api.kubectl(["-n", "shop", "rollout", "restart", "deployment", "backend", "frontend"]).await?;
    mesh.ready("shop", "backend", 5).await?;
    mesh.ready("shop", "frontend", 3).await?;
    mesh.capacity_in_force(9).await
}

/// `module-remote` with this URL and this SHA-256.
async fn apply(mesh: &Mesh, url: &str, sum: &str) -> Result<()> {
    let folder = mesh.tools.manifests.join("module-remote");
    let pattern = mesh.api.kubectl(["kustomize".as_ref(), folder.as_os_str()]).await?;
    ensure!(pattern.contains(PATTERN_URL) && pattern.contains(NO_SUM), "the pattern names them elsewhere: {pattern}");
    let file = mesh.logs.join("module-remote.yaml");
    std::fs::write(&file, pattern.replace(PATTERN_URL, url).replace(NO_SUM, sum))?;
    // As a user with the volume does: it has the same name, so that it replaces the other.
    mesh.api.kubectl(["apply".as_ref(), "-f".as_ref(), file.as_os_str()]).await.map(drop)
}

/// A file's SHA-256, computed as by a user.
async fn sum(file: &Path) -> Result<String> {
    let output = Command::new("sha256sum").arg(file).output().await.context("sha256sum (of coreutils)")?;
    let text = String::from_utf8(output.stdout)?;
    Ok(text.split_whitespace().next().context("no sum")?.to_owned())
}

/// Serves a file on the node until it is dropped.
struct Server {
    url: String,
    downloads: Arc<AtomicUsize>,
    task: AbortHandle,
}

impl Server {
    async fn start(file: &Path) -> Result<Self> {
        let content = Bytes::from(std::fs::read(file)?);
        let listener = TcpListener::bind((NODE, 0)).await?;
        let url = format!("http://{}/bloc.wasm", listener.local_addr()?);
        let downloads = Arc::new(AtomicUsize::new(0));
        let counted = downloads.clone();
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (content, counted) = (content.clone(), counted.clone());
                let service = service_fn(move |_: Request<_>| {
                    counted.fetch_add(1, Ordering::Relaxed);
                    let answer = Response::new(Full::new(content.clone()));
                    async { Ok::<_, Infallible>(answer) }
                });
                tokio::spawn(async move {
                    let connection = hyper::server::conn::http1::Builder::new();
                    let _ = connection.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Ok(Self { url, downloads, task: task.abort_handle() })
    }

    fn downloads(&self) -> usize {
        self.downloads.load(Ordering::Relaxed)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}
