//! How etcd and a kube-apiserver are started, and what they read.

use serde_json::{Value, json};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use tokio::process::{Child, Command};

pub fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

pub fn program(name: &str) -> PathBuf {
    // Where build.sh puts it, unless `KUBE_BIN` is set.
    let built = || bloc_mesh::envoy::target_directory().join("kube");
    let path = std::env::var_os("KUBE_BIN").map_or_else(built, PathBuf::from).join(name);
    assert!(path.is_file(), "{} is missing: istio-manifests/e2e/build.sh builds it", path.display());
    path
}

pub fn start(directory: &Path, name: &str, executable: &Path, arguments: &[String]) -> Child {
    let log =
        std::fs::OpenOptions::new().create(true).append(true).open(directory.join(format!("{name}.log"))).unwrap();
    let mut command = Command::new(executable);
    command.args(arguments).current_dir(directory).stdin(Stdio::null()).kill_on_drop(true);
    command.env("KUBECONFIG", directory.join("kubeconfig"));
    command.stdout(log.try_clone().unwrap()).stderr(log).spawn().unwrap()
}

pub fn etcd_arguments(ports: &[u16; 3]) -> Vec<String> {
    let (client, peer) = (format!("http://127.0.0.1:{}", ports[0]), format!("http://127.0.0.1:{}", ports[1]));
    vec![
        "--data-dir=etcd".into(),
        format!("--listen-client-urls={client}"),
        format!("--advertise-client-urls={client}"),
        format!("--listen-peer-urls={peer}"),
        format!("--initial-advertise-peer-urls={peer}"),
        format!("--initial-cluster=default={peer}"),
        // As kubeadm sets it: without it, the watches of what never changes get no bookmarks.
        "--watch-progress-notify-interval=5s".into(),
        "--unsafe-no-fsync".into(),
        "--log-level=error".into(),
    ]
}

pub fn server_arguments(ports: &[u16; 3]) -> Vec<String> {
    let mut arguments: Vec<String> = [
        "--bind-address=127.0.0.1",
        "--advertise-address=127.0.0.1",
        "--cert-dir=certs",
        "--service-account-key-file=sa.key",
        "--service-account-signing-key-file=sa.key",
        "--service-account-issuer=https://kubernetes.default.svc",
        "--service-cluster-ip-range=10.96.0.0/16",
        "--authorization-mode=RBAC",
        "--token-auth-file=tokens.csv",
        "--disable-admission-plugins=ServiceAccount",
        "--endpoint-reconciler-type=none",
        "--audit-policy-file=audit.json",
        "--audit-log-path=audit.log",
    ]
    .map(str::to_owned)
    .to_vec();
    arguments.push(format!("--etcd-servers=http://127.0.0.1:{}", ports[0]));
    arguments.push(format!("--secure-port={}", ports[2]));
    arguments
}

/// Logs each list by a control plane, except of VirtualServices: where they are not defined, they
/// are tried each second.
pub fn audit_policy() -> Value {
    let resources = json!([
        {"group": "", "resources": ["services", "configmaps"]},
        {"group": "discovery.k8s.io", "resources": ["endpointslices"]},
    ]);
    json!({
        "apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
        "rules": [{"level": "Metadata", "users": ["bloc"], "verbs": ["list"], "resources": resources}, {"level": "None"}],
    })
}

/// As JSON, which is also YAML.
pub fn kubeconfig(port: u16) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "x",
        "clusters": [{"name": "c", "cluster": {"server": format!("https://127.0.0.1:{port}"), "insecure-skip-tls-verify": true}}],
        "users": [{"name": "u", "user": {"token": "bloc"}}],
        "contexts": [{"name": "x", "context": {"cluster": "c", "user": "u"}}],
    })
}
