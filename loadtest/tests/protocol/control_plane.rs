//! The control plane and the sidecars.

use crate::support::{App, Place, Pod, eventually, from_sidecar, inbound, outbound, request, send, sender};
use bloc_mesh::envoy::{Envoy, SERVICE};
use bloc_mesh::process::{Process, Program};
use serde_json::json;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::Instant;

pub struct ControlPlane {
    process: Process,
    pub address: SocketAddr,
    file: PathBuf,
}

impl ControlPlane {
    pub async fn start(place: &Place, listen: &str) -> Self {
        Self::run(place.control_plane(), place, listen).await
    }

    /// The same with this program.
    pub async fn run(executable: PathBuf, place: &Place, listen: &str) -> Self {
        let (file, written) = (place.path().join("services.yaml"), place.path().join("control-plane.address"));
        let _ = std::fs::remove_file(&written);
        let arguments = [
            "--source".to_owned(),
            format!("file:{}", file.display()),
            "--listen".to_owned(),
            listen.to_owned(),
            "--address-file".to_owned(),
            written.display().to_string(),
        ];
        let program =
            Program { name: "control-plane".into(), executable, arguments: arguments.map(Into::into).to_vec() };
        let mut process = Process::start(program, place.path()).await.unwrap();
        let address = process.written(&written, crate::support::PATIENCE, |text| text.parse().ok()).await.unwrap();
        Self { process, address, file }
    }

    pub async fn get(&self, path: &str) -> String {
        let (_, body) = bloc_mesh::http::get(self.address, path, Duration::from_secs(5)).await.unwrap();
        String::from_utf8_lossy(&body).into_owned()
    }

    /// Ends it as a node does that fails.
    pub async fn kill(self) {
        self.process.kill().await;
    }

    /// Ends it as a rolling update does.
    pub async fn end(self) {
        self.process.end().await;
    }

    /// The value of a metric without labels.
    pub async fn metric(&self, name: &str) -> f64 {
        let text = self.get("/metrics").await;
        let line = text
            .lines()
            .find(|line| line.split(' ').next() == Some(name))
            .unwrap_or_else(|| panic!("no {name} in\n{text}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }
}

pub fn write(place: &Place, capacity: &str, endpoints: &[SocketAddr]) {
    let endpoints: Vec<String> = endpoints.iter().map(|at| format!("\"{at}\"")).collect();
    let text = format!(
        "services:\n  {SERVICE}:\n    capacity: {{estimator: static, limit: {capacity}}}\n    endpoints: [{}]\n",
        endpoints.join(", ")
    );
    let (file, new) = (place.path().join("services.yaml"), place.path().join("services.new"));
    std::fs::write(&new, text).unwrap();
    std::fs::rename(new, file).unwrap();
}

pub async fn pod(place: &Place, name: &str, control_plane: SocketAddr) -> Pod {
    let app = App::start(name).await;
    let configuration = json!({"service": SERVICE, "controlPlane": {"cluster": "bloc-control-plane", "wait": "5s"}});
    let bootstrap = inbound(place, app.address, &configuration, Some(control_plane));
    let sidecar = Envoy::start(&place.envoy, place.path(), name, &bootstrap, 2).await.unwrap();
    let address = sidecar.listener("inbound").unwrap();
    Pod { app, sidecar, address }
}

async fn capacity_of(pod: &Pod) -> Option<u32> {
    send(pod.address, from_sidecar("/probe"), "").await.unwrap().load()?.2
}

#[tokio::test(flavor = "multi_thread")]
async fn proxies_follow_the_file_and_keep_the_last_good_state() {
    let place = Place::new();
    write(&place, "10", &[]);
    let control_plane = ControlPlane::start(&place, "127.0.0.1:0").await;
    let (one, two) = (pod(&place, "one", control_plane.address).await, pod(&place, "two", control_plane.address).await);
    write(&place, "10", &[one.address, two.address]);
    let configuration = json!({"controlPlane": {"cluster": "bloc-control-plane", "wait": "5s"}});
    let bootstrap = outbound(&place, &[one.address, two.address], &configuration, Some(control_plane.address));
    let (envoy, to) = sender(&place, &bootstrap).await;
    for pod in [&one, &two] {
        eventually("the capacity from the control plane", async || (capacity_of(pod).await == Some(10)).then_some(()))
            .await;
    }
    // The sender asks for a service after the first request to it.
    send(to, request("/x"), "").await.unwrap();
    eventually("a list from the control plane's endpoints", async || {
        send(to, request("/x"), "").await.unwrap();
        let counter = async |name: &str| crate::support::metric(&envoy, "outbound", name).await;
        (counter("requests").await > counter("fallbacks").await).then_some(())
    })
    .await;
    eventually("one poll for each Envoy, not for each worker", async || {
        let held = control_plane.metric("bloc_polls_held").await;
        println!("polls held: {held}");
        (held == 3.0).then_some(())
    })
    .await;

    let (stop, sent) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let clients: Vec<_> = (0..4)
        .map(|_| {
            let (stop, sent) = (Arc::clone(&stop), Arc::clone(&sent));
            tokio::spawn(async move {
                while !stop.load(Ordering::Relaxed) {
                    let answer = send(to, request("/x"), "").await.expect("no request is lost");
                    assert_eq!(answer.status.as_u16(), 200);
                    sent.fetch_add(1, Ordering::Relaxed);
                }
            })
        })
        .collect();

    // A change reaches every sidecar. It takes less than a second; since a machine may be busy, the
    // test only waits for it and prints the time.
    let changed = Instant::now();
    write(&place, "20", &[one.address, two.address]);
    for pod in [&one, &two] {
        eventually("the new capacity", async || (capacity_of(pod).await == Some(20)).then_some(())).await;
    }
    println!("a change was in force in all sidecars after {:?}", changed.elapsed());

    // An invalid file changes nothing.
    write(&place, "0", &[one.address, two.address]);
    eventually("the refusal", async || (control_plane.metric("bloc_config_rejected_total").await >= 1.0).then_some(()))
        .await;
    // The status may be a second old.
    let refusal = "services.backend.capacity.limit: 0 is not allowed; allowed: 1 to 1000000";
    eventually(refusal, async || control_plane.get("/v1/status").await.contains(refusal).then_some(())).await;
    assert_eq!(capacity_of(&one).await, Some(20));

    // While the control plane is gone, the last good state stays. After its restart, proxies poll
    // it again.
    let ControlPlane { process, address, .. } = control_plane;
    process.kill().await;
    let before = sent.load(Ordering::Relaxed);
    eventually("traffic without a control plane", async || (sent.load(Ordering::Relaxed) > before + 200).then_some(()))
        .await;
    assert_eq!(capacity_of(&one).await, Some(20));
    write(&place, "30", &[one.address, two.address]);
    let control_plane = ControlPlane::start(&place, &address.to_string()).await;
    assert!(control_plane.file.is_file());
    for pod in [&one, &two] {
        eventually("the capacity after the restart", async || (capacity_of(pod).await == Some(30)).then_some(())).await;
    }
    stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.unwrap();
    }
    control_plane.process.end().await;
}
