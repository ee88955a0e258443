//! A kube-apiserver and its etcd on free loopback ports, and control planes that use it with only
//! the rights in `rbac.yaml`.

use super::programs::{audit_policy, etcd_arguments, free_port, kubeconfig, program, server_arguments, start};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams};
use kube::{Api, Client, Config};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

/// The longest time that a test waits for anything.
pub const LIMIT: Duration = Duration::from_secs(60);

pub struct Cluster {
    directory: TempDir,
    ports: [u16; 3],
    etcd: Child,
    server: Child,
    pub client: Client,
}

impl Cluster {
    pub async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path();
        let key = path.join("sa.key").display().to_string();
        let made = Command::new("openssl").args(["genrsa", "-out", &key, "2048"]).output().await.unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        std::fs::write(path.join("tokens.csv"), "admin,admin,admin,system:masters\nbloc,bloc,bloc\n").unwrap();
        std::fs::write(path.join("audit.json"), audit_policy().to_string()).unwrap();
        let ports = [free_port(), free_port(), free_port()];
        std::fs::write(path.join("kubeconfig"), kubeconfig(ports[2]).to_string()).unwrap();
        let etcd = start(path, "etcd", &program("etcd"), &etcd_arguments(&ports));
        let server = start(path, "kube-apiserver", &program("kube-apiserver"), &server_arguments(&ports));
        let client = client(&ports, "admin", None);
        let cluster = Self { directory, ports, etcd, server, client };
        cluster.ready().await;
        for name in ["bloc-system", "shop"] {
            let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            cluster.apply::<Namespace>(Api::all(cluster.client.clone()), namespace).await;
        }
        for document in include_str!("../../rbac.yaml").split("---") {
            let mut object: Value = serde_saphyr::from_str(document).unwrap();
            let client = cluster.client.clone();
            let subjects = json!([{"kind": "User", "name": "bloc", "apiGroup": "rbac.authorization.k8s.io"}]);
            match object["kind"].as_str().unwrap() {
                "ClusterRole" => cluster.apply::<ClusterRole>(Api::all(client), object).await,
                "Role" => cluster.apply::<Role>(Api::namespaced(client, "bloc-system"), object).await,
                "ClusterRoleBinding" => {
                    object["subjects"] = subjects;
                    cluster.apply::<ClusterRoleBinding>(Api::all(client), object).await;
                }
                "RoleBinding" => {
                    object["subjects"] = subjects;
                    cluster.apply::<RoleBinding>(Api::namespaced(client, "bloc-system"), object).await;
                }
                other => panic!("{other}"),
            }
        }
        cluster
    }

    /// A client with a token of its own.
    pub fn client_with(&self, token: &str) -> Client {
        client(&self.ports, token, None)
    }

    /// A client that acts as a user.
    pub fn client_as(&self, user: &str) -> Client {
        client(&self.ports, "admin", Some(user.to_owned()))
    }

    /// What kubectl writes, as an administrator.
    pub async fn kubectl(&self, arguments: &[&str]) -> String {
        let server = format!("--server=https://127.0.0.1:{}", self.ports[2]);
        let mut command = Command::new(program("kubectl"));
        command.args([&server, "--insecure-skip-tls-verify", "--token=admin"]).args(arguments).kill_on_drop(true);
        let done = timeout(LIMIT, command.output()).await.unwrap().unwrap();
        assert!(done.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    }

    /// Waits until the API server is ready.
    pub async fn ready(&self) {
        let begin = Instant::now();
        loop {
            let request = axum::http::Request::get("/readyz").body(Vec::new()).unwrap();
            match self.client.request_text(request).await {
                Ok(text) if text == "ok" => return,
                answer => assert!(begin.elapsed() < LIMIT, "no API server: {answer:?}"),
            }
            sleep(Duration::from_millis(200)).await;
        }
    }

    /// Kills the API server, which ends all watches.
    pub async fn kill_server(&mut self) {
        self.server.kill().await.unwrap();
    }

    /// Starts the API server again.
    pub async fn restart_server(&mut self) {
        self.server =
            start(self.directory.path(), "kube-apiserver", &program("kube-apiserver"), &server_arguments(&self.ports));
        self.ready().await;
    }

    /// Stops all and makes a backup of etcd, or (`put_back`) replaces etcd's data by that.
    pub async fn back_up(&mut self, put_back: bool) {
        self.kill_server().await;
        self.etcd.kill().await.unwrap();
        let script = if put_back { "rm -r etcd && cp -r backup etcd" } else { "cp -r etcd backup" };
        let done = Command::new("sh").args(["-c", script]).current_dir(self.directory.path()).status().await;
        assert!(done.unwrap().success());
        self.etcd = start(self.directory.path(), "etcd", &program("etcd"), &etcd_arguments(&self.ports));
        self.restart_server().await;
    }

    async fn apply<K>(&self, api: Api<K>, object: Value)
    where
        K: Clone + DeserializeOwned + std::fmt::Debug,
    {
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let begin = Instant::now();
        loop {
            match api.patch(&name, &PatchParams::apply("test").force(), &Patch::Apply(&object)).await {
                Ok(_) => return,
                // A new namespace or right takes effect with a delay.
                Err(error) => {
                    let bad = matches!(&error, kube::Error::Api(status) if [400, 422].contains(&status.code));
                    assert!(!bad && begin.elapsed() < LIMIT, "{error}");
                }
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Creates or changes a Service in shop with port 80.
    pub async fn service(&self, name: &str) {
        let service = json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {"ports": [{"name": "web", "port": 80}]},
        });
        self.apply::<Service>(Api::namespaced(self.client.clone(), "shop"), service).await;
    }

    pub async fn delete_service(&self, name: &str) {
        let api = Api::<Service>::namespaced(self.client.clone(), "shop");
        api.delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// Creates or changes a slice of a Service in shop, with ready endpoints.
    pub async fn slice(&self, service: &str, name: &str, ready: &[String]) {
        let endpoints: Vec<_> = ready.iter().map(|ip| (ip.as_str(), true)).collect();
        self.slice_at(service, name, 8080, &endpoints).await;
    }

    /// The same with another target port, and a readiness for each endpoint.
    pub async fn slice_at(&self, service: &str, name: &str, port: u16, endpoints: &[(&str, bool)]) {
        let endpoints: Vec<Value> =
            endpoints.iter().map(|(ip, ready)| json!({"addresses": [ip], "conditions": {"ready": ready}})).collect();
        let slice = json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
            "metadata": {"name": name, "labels": {"kubernetes.io/service-name": service}},
            "ports": [{"name": "web", "port": port, "protocol": "TCP"}], "endpoints": endpoints,
        });
        self.apply::<EndpointSlice>(Api::namespaced(self.client.clone(), "shop"), slice).await;
    }

    /// Defines Istio's VirtualServices, with any content.
    pub async fn virtual_services(&self) {
        let schema = json!({"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}});
        let definition = json!({
            "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": "virtualservices.networking.istio.io"},
            "spec": {
                "group": "networking.istio.io", "scope": "Namespaced",
                "names": {"kind": "VirtualService", "plural": "virtualservices", "singular": "virtualservice"},
                "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
            },
        });
        self.apply::<CustomResourceDefinition>(Api::all(self.client.clone()), definition).await;
    }

    /// Creates or changes a VirtualService in shop for `host`.
    pub async fn route(&self, name: &str, host: &str, attempts: u32) {
        let rule = json!({"route": [{"destination": {"host": host}}], "retries": {"attempts": attempts}});
        let service = json!({
            "apiVersion": "networking.istio.io/v1", "kind": "VirtualService", "metadata": {"name": name},
            "spec": {"hosts": [host], "http": [rule]},
        });
        let kind = ApiResource {
            group: "networking.istio.io".into(),
            version: "v1".into(),
            api_version: "networking.istio.io/v1".into(),
            kind: "VirtualService".into(),
            plural: "virtualservices".into(),
        };
        self.apply(Api::<DynamicObject>::namespaced_with(self.client.clone(), "shop", &kind), service).await;
    }

    /// Sets the parameters of shop's services.
    pub async fn policy(&self, services: &str) {
        let map = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "bloc", "labels": {"bloc.dev/policy": "true"}}, "data": {"services.yaml": services},
        });
        self.apply::<ConfigMap>(Api::namespaced(self.client.clone(), "shop"), map).await;
    }

    /// The text of the copy of that ConfigMap's last good content.
    pub async fn copy(&self) -> String {
        let maps = Api::<ConfigMap>::namespaced(self.client.clone(), "bloc-system");
        let copy = maps.get_opt("last-good.shop.bloc").await.unwrap();
        copy.and_then(|map| map.data?.remove("services.yaml")).unwrap_or_default()
    }

    /// Removes the control plane's rights, or restores them.
    pub async fn rights(&self, given: bool) {
        let api = Api::<ClusterRole>::all(self.client.clone());
        let mut role: Value =
            serde_saphyr::from_str(include_str!("../../rbac.yaml").split("---").next().unwrap()).unwrap();
        if !given {
            role["rules"] = json!([]);
        }
        self.apply(api, role).await;
    }

    /// Starts a control plane, which listens when this returns.
    pub async fn control_plane(&self, name: &str) -> ControlPlane {
        self.control_plane_with(name, &[]).await
    }

    /// The same, with further arguments.
    pub async fn control_plane_with(&self, name: &str, more: &[&str]) -> ControlPlane {
        self.run(name, Path::new(env!("CARGO_BIN_EXE_bloc-control-plane")), more).await
    }

    /// The same, of another build.
    pub async fn control_plane_of(&self, name: &str, program: &Path) -> ControlPlane {
        self.run(name, program, &[]).await
    }

    async fn run(&self, name: &str, program: &Path, more: &[&str]) -> ControlPlane {
        let file = self.directory.path().join(format!("{name}.address"));
        let path = file.display().to_string();
        let own = ["--source", "kubernetes", "--listen", "127.0.0.1:0", "--address-file", &path];
        let arguments: Vec<String> = own.iter().chain(more).map(|&argument| argument.to_owned()).collect();
        let process = start(self.directory.path(), name, program, &arguments);
        let begin = Instant::now();
        let address = loop {
            match std::fs::read_to_string(&file) {
                Ok(text) => break text.trim().to_owned(),
                Err(_) => assert!(begin.elapsed() < LIMIT, "{name} does not listen"),
            }
            sleep(Duration::from_millis(20)).await;
        };
        let client = reqwest::Client::builder().no_proxy().timeout(LIMIT).build().unwrap();
        ControlPlane { url: format!("http://{address}"), client, process }
    }

    /// The number of lists of Services, ConfigMaps or EndpointSlices by control planes.
    pub fn lists(&self) -> usize {
        self.log("audit").lines().count()
    }

    /// The log of a program.
    pub fn log(&self, name: &str) -> String {
        std::fs::read_to_string(self.directory.path().join(format!("{name}.log"))).unwrap_or_default()
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            for name in ["one", "two"] {
                eprintln!("== {name}\n{}", self.log(name));
            }
        }
        // Both are killed when dropped, but the API server has to go first: without etcd it only
        // logs errors.
        let _ = (self.server.start_kill(), self.etcd.start_kill());
    }
}

fn client(ports: &[u16; 3], token: &str, user: Option<String>) -> Client {
    let mut config = Config::new(format!("https://127.0.0.1:{}", ports[2]).parse().unwrap());
    config.accept_invalid_certs = true;
    config.auth_info.token = Some(token.to_owned().into());
    config.auth_info.impersonate = user;
    Client::try_from(config).unwrap()
}

/// A running control plane.
pub struct ControlPlane {
    pub url: String,
    client: reqwest::Client,
    process: Child,
}

impl ControlPlane {
    pub async fn get(&self, path: &str) -> String {
        self.client.get(format!("{}{path}", self.url)).send().await.unwrap().text().await.unwrap()
    }

    /// Sends JSON; returns the status and the text of the answer.
    pub async fn post(&self, path: &str, headers: &[(&str, &str)], body: &Value) -> (u16, String) {
        let mut request = self.client.post(format!("{}{path}", self.url)).json(body);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let response = request.send().await.unwrap();
        (response.status().as_u16(), response.text().await.unwrap())
    }

    pub async fn is_ready(&self) -> bool {
        self.get("/readyz").await == "ready\n"
    }

    /// The value of a metric.
    pub async fn metric(&self, name: &str) -> Option<f64> {
        let text = self.get("/metrics").await;
        text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.parse().ok())
    }

    /// The highest resident memory so far, in bytes.
    pub fn peak_memory(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.process.id().unwrap())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }

    /// Terminates it as Kubernetes does.
    pub async fn terminate(mut self) {
        let pid = Pid::from_raw(self.process.id().unwrap().cast_signed());
        kill(pid, Signal::SIGTERM).unwrap();
        timeout(LIMIT, self.process.wait()).await.unwrap().unwrap();
    }

    /// Sends SIGSTOP, and SIGCONT after a while.
    pub async fn pause(&self, time: Duration) {
        let pid = Pid::from_raw(i32::try_from(self.process.id().unwrap()).unwrap());
        kill(pid, Signal::SIGSTOP).unwrap();
        sleep(time).await;
        kill(pid, Signal::SIGCONT).unwrap();
    }

    pub async fn kill(mut self) {
        timeout(LIMIT, self.process.kill()).await.unwrap().unwrap();
    }
}

/// Waits for a condition that has no event.
pub async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let begin = Instant::now();
    while !condition().await {
        assert!(begin.elapsed() < LIMIT, "{what} did not come to pass");
        sleep(Duration::from_millis(50)).await;
    }
}
