//! The Kubernetes control plane: etcd, kube-apiserver and kube-controller-manager.
//! [`crate::kubelet`] stands in for scheduler and kubelet. There is no kube-proxy: the sidecars
//! capture requests to a service's address.

use crate::api::{Api, eventually};
use crate::inside::{SCRATCH, script};
use crate::programs::start;
use crate::tools::Tools;
use anyhow::Result;
use bloc_mesh::process::Process;
use std::path::Path;

/// The node's address, on the bridge of its pods.
pub const NODE: &str = "10.77.0.1";
const PROXY: &str = "127.0.0.1:8001";
/// The name of the issuer of service account tokens.
const ISSUER: &str = "https://kubernetes.default.svc.cluster.local";

/// A running cluster.
#[derive(Debug)]
pub struct Cluster {
    /// Access to it.
    pub api: Api,
    processes: Vec<Process>,
}

/// The kubeconfig for programs that need the API server.
pub fn kubeconfig() -> std::path::PathBuf {
    Path::new(SCRATCH).join("kubeconfig")
}

impl Cluster {
    /// Starts it; logs go to `logs`.
    ///
    /// # Errors
    /// A part of it does not get ready.
    pub async fn start(tools: &Tools, logs: &Path) -> Result<Self> {
        let file = |name: &str| format!("{SCRATCH}/{name}");
        let (key, tokens, certificates) = (file("sa.key"), file("tokens.csv"), file("certificates"));
        script(&format!(
            "mkdir -p {certificates}
             openssl genrsa -out {key} 2048 2>{SCRATCH}/openssl.log
             echo 'admin,admin,admin,system:masters' > {tokens}"
        ))?;
        let kube = |name: &str| tools.kube.join(name).display().to_string();
        let flag = |name: &str, value: &str| format!("--{name}={value}");
        let store = "http://127.0.0.1:2379";
        let etcd = [
            kube("etcd"),
            flag("data-dir", &file("etcd")),
            flag("listen-client-urls", store),
            flag("advertise-client-urls", store),
            flag("listen-peer-urls", "http://127.0.0.1:2380"),
            "--unsafe-no-fsync".to_owned(),
        ];
        let server = [
            kube("kube-apiserver"),
            flag("etcd-servers", store),
            flag("bind-address", "0.0.0.0"),
            flag("advertise-address", NODE),
            flag("secure-port", "6443"),
            flag("cert-dir", &certificates),
            flag("service-account-key-file", &key),
            flag("service-account-signing-key-file", &key),
            flag("service-account-issuer", ISSUER),
            flag("service-cluster-ip-range", "10.96.0.0/16"),
            flag("authorization-mode", "RBAC"),
            flag("token-auth-file", &tokens),
            flag("allow-privileged", "true"),
            flag("endpoint-reconciler-type", "none"),
            // Webhooks of services are called at their pods, as there is no kube-proxy.
            flag("enable-aggregator-routing", "true"),
        ];
        std::fs::write(
            kubeconfig(),
            format!(
                "apiVersion: v1\nkind: Config\ncurrent-context: it\n\
                 clusters: [{{name: it, cluster: {{server: 'https://{NODE}:6443', insecure-skip-tls-verify: true}}}}]\n\
                 users: [{{name: it, user: {{token: admin}}}}]\n\
                 contexts: [{{name: it, context: {{cluster: it, user: it}}}}]\n"
            ),
        )?;
        let mut processes = vec![start("etcd", logs, etcd).await?, start("kube-apiserver", logs, server).await?];
        let kubeconfig = kubeconfig().display().to_string();
        let proxy = [kube("kubectl"), flag("kubeconfig", &kubeconfig), "proxy".into(), "--port=8001".into()];
        processes.push(start("kubectl-proxy", logs, proxy).await?);
        let api = Api::new(tools.kube.join("kubectl"), kubeconfig.clone().into(), PROXY);
        eventually("a ready API server", async || {
            for process in &mut processes {
                process.check()?;
            }
            Ok(api.kubectl(["get", "--raw", "/readyz"]).await.ok())
        })
        .await?;
        let controllers = "deployment-controller,daemonset-controller,replicaset-controller,endpointslice-controller,namespace-controller,serviceaccount-controller,\
                           root-ca-certificate-publisher-controller,garbage-collector-controller,disruption-controller";
        let manager = [
            kube("kube-controller-manager"),
            flag("kubeconfig", &kubeconfig),
            flag("controllers", controllers),
            flag("service-account-private-key-file", &key),
            flag("root-ca-file", &format!("{certificates}/apiserver.crt")),
            flag("leader-elect", "false"),
            flag("bind-address", "127.0.0.1"),
            // A deleted namespace is gone when the controller has seen that nothing is left in it.
            flag("namespace-sync-period", "5s"),
        ];
        processes.push(start("kube-controller-manager", logs, manager).await?);
        Ok(Self { api, processes })
    }

    /// Whether all of it runs.
    ///
    /// # Errors
    /// A part has ended.
    pub fn check(&mut self) -> Result<()> {
        self.processes.iter_mut().try_for_each(|process| Ok(process.check()?))
    }
}
