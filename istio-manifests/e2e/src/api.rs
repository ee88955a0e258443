//! The Kubernetes API: through `kubectl` as a user, through `kubectl proxy` as a node.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;
use tokio::process::Command;
use tokio::time::{Instant, sleep};

/// How long something may take before a test fails. Generous: a machine under load is slow, not
/// wrong, and Envoy drains listeners for 45 seconds.
pub const PATIENCE: Duration = Duration::from_secs(120);
const POLL: Duration = Duration::from_millis(100);

/// Access to a cluster.
#[derive(Clone, Debug)]
pub struct Api {
    kubectl: PathBuf,
    kubeconfig: PathBuf,
    proxy: String,
    client: reqwest::Client,
}

impl Api {
    /// `proxy` is the address of a running `kubectl proxy`.
    pub fn new(kubectl: PathBuf, kubeconfig: PathBuf, proxy: &str) -> Self {
        Self { kubectl, kubeconfig, proxy: format!("http://{proxy}"), client: reqwest::Client::new() }
    }

    /// Runs kubectl; returns its output.
    ///
    /// # Errors
    /// It failed, with its message.
    pub async fn kubectl<A: AsRef<std::ffi::OsStr>>(&self, arguments: impl IntoIterator<Item = A>) -> Result<String> {
        let mut command = Command::new(&self.kubectl);
        command.arg("--kubeconfig").arg(&self.kubeconfig).args(arguments).kill_on_drop(true);
        let shown = format!("{command:?}");
        let output = tokio::time::timeout(PATIENCE, command.output()).await.context("kubectl takes too long")??;
        if !output.status.success() {
            bail!("{shown}: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        Ok(String::from_utf8(output.stdout)?)
    }

    /// `kubectl apply --server-side` of a text.
    ///
    /// # Errors
    /// The text is refused.
    pub async fn apply(&self, yaml: &str) -> Result<String> {
        let file = tempfile::Builder::new().suffix(".yaml").tempfile()?;
        std::fs::write(&file, yaml)?;
        let file = file.path().as_os_str();
        self.kubectl(["apply".as_ref(), "--server-side".as_ref(), "-f".as_ref(), file]).await
    }

    /// Gets a path; none if it does not exist.
    ///
    /// # Errors
    /// No answer, or another status.
    pub async fn get(&self, path: &str) -> Result<Option<Value>> {
        let answer = self.client.get(format!("{}{path}", self.proxy)).timeout(PATIENCE).send().await?;
        if answer.status() == 404 {
            return Ok(None);
        }
        Ok(Some(answer.error_for_status()?.json().await?))
    }

    /// The items of a list.
    ///
    /// # Errors
    /// No answer.
    pub async fn list(&self, path: &str) -> Result<Vec<Value>> {
        let list = self.get(path).await?.with_context(|| format!("{path} does not exist"))?;
        Ok(list["items"].as_array().cloned().unwrap_or_default())
    }

    /// Sends a body.
    ///
    /// # Errors
    /// It is refused, with the API server's message.
    pub async fn send(&self, method: reqwest::Method, path: &str, kind: &str, body: &Value) -> Result<Value> {
        let request = self.client.request(method, format!("{}{path}", self.proxy)).timeout(PATIENCE);
        let answer = request.header("content-type", kind).body(body.to_string()).send().await?;
        let status = answer.status();
        let answer: Value = answer.json().await?;
        if !status.is_success() {
            bail!("{path}: {status}: {}", answer["message"]);
        }
        Ok(answer)
    }

    /// Merges `patch` into an object.
    ///
    /// # Errors
    /// It is refused.
    pub async fn merge(&self, path: &str, patch: &Value) -> Result<Value> {
        self.send(reqwest::Method::PATCH, path, "application/merge-patch+json", patch).await
    }
}

/// Waits until `condition` gives a value.
///
/// # Errors
/// It did not within [`PATIENCE`]; with the last error, if there was one.
pub async fn eventually<T>(what: &str, mut condition: impl AsyncFnMut() -> Result<Option<T>>) -> Result<T> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let last = condition().await;
        if let Ok(Some(value)) = last {
            return Ok(value);
        }
        if Instant::now() >= deadline {
            return match last {
                Err(error) => Err(error.context(format!("{what} did not happen"))),
                Ok(_) => bail!("{what} did not happen within {PATIENCE:?}"),
            };
        }
        sleep(POLL).await;
    }
}
