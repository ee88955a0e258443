//! Fleets of two versions, under load: this one, and the next one, which has the parameter `spare`
//! with a feature.

use crate::control_plane::ControlPlane;
use crate::support::{App, Place, Tally, Traffic, errors, eventually, inbound, metric, next_version, outbound};
use bloc_mesh::envoy::{CONTROL_PLANE_CLUSTER, Envoy, SERVICE};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

const WORKERS: usize = 2;
const CLIENTS: usize = 4;
/// Answers that make a phase.
const ENOUGH: u64 = 150;
/// The longest that a request may take on a busy machine.
const BOUND: Duration = Duration::from_secs(20);

/// A sidecar, in front of an application or of a caller.
struct Sidecar {
    envoy: Envoy,
    address: SocketAddr,
    app: App,
    log: PathBuf,
    /// Its directory.
    _place: Place,
}

/// What the filters of a sidecar have counted, by name.
async fn counts<const N: usize>(sidecar: &Sidecar, side: &str, names: [&str; N]) -> [u64; N] {
    let mut counts = [0; N];
    for (count, name) in counts.iter_mut().zip(names) {
        *count = metric(&sidecar.envoy, side, name).await;
    }
    counts
}

fn asks() -> Value {
    json!({"cluster": CONTROL_PLANE_CLUSTER, "wait": "2s"})
}

async fn pod(place: Place, name: &str, control_plane: SocketAddr) -> Sidecar {
    let configuration = json!({"service": SERVICE, "controlPlane": asks()});
    pod_with(place, name, &configuration, control_plane).await
}

async fn pod_with(place: Place, name: &str, configuration: &Value, control_plane: SocketAddr) -> Sidecar {
    let app = App::start(name).await;
    let bootstrap = inbound(&place, app.address, configuration, Some(control_plane));
    let envoy = Envoy::start(&place.envoy, place.path(), name, &bootstrap, WORKERS).await.unwrap();
    let (address, log) = (envoy.listener("inbound").unwrap(), place.path().join(format!("{name}.log")));
    Sidecar { envoy, address, app, log, _place: place }
}

async fn caller(place: Place, name: &str, pods: &[SocketAddr], control_plane: SocketAddr) -> Sidecar {
    let bootstrap = outbound(&place, pods, &json!({"controlPlane": asks()}), Some(control_plane));
    let envoy = Envoy::start(&place.envoy, place.path(), name, &bootstrap, WORKERS).await.unwrap();
    let (address, log) = (envoy.listener("outbound").unwrap(), place.path().join(format!("{name}.log")));
    Sidecar { envoy, address, app: App::start(name).await, log, _place: place }
}

/// How the servers protect themselves in a phase: more clients than places, so that some attempts
/// are rejected for this reason.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Protection {
    Bids,
    Capacity,
}

impl Protection {
    /// The parameters, at a control plane of this version or (1) of the next.
    fn spec(self, version: usize, capacity: usize, pods: &[SocketAddr]) -> Value {
        let endpoints: Vec<String> = pods.iter().map(ToString::to_string).collect();
        let mut spec = json!({"capacity": {"estimator": "static", "limit": capacity}, "endpoints": endpoints});
        if version == 1 {
            spec["spare"] = json!(true);
        }
        if self == Self::Bids {
            (spec["routing"], spec["concurrency"], spec["hold"]) = (json!("bid"), json!(2), json!(true));
        }
        spec
    }

    /// The counter of rejections at a server, and that at a caller.
    fn counters(self) -> (&'static str, &'static str) {
        match self {
            Self::Bids => ("rejected_bid", "bounces"),
            Self::Capacity => ("rejected_capacity", "rejections"),
        }
    }
}

fn write(place: &Place, spec: &Value) {
    let (file, new) = (place.path().join("services.yaml"), place.path().join("services.new"));
    // JSON is YAML.
    std::fs::write(&new, json!({"services": {SERVICE: spec}}).to_string()).unwrap();
    std::fs::rename(new, file).unwrap();
}

async fn json(control_plane: &ControlPlane, path: &str) -> Value {
    serde_json::from_str(&control_plane.get(path).await).unwrap()
}

/// The control plane is upgraded, rolled back and upgraded again, while sidecars of both versions
/// call and serve each other.
#[tokio::test(flavor = "multi_thread")]
async fn sidecars_and_control_planes_of_two_versions_work_together() {
    let place = Place::new();
    let programs = [place.control_plane(), next_version("bloc-control-plane")];
    write(&place, &Protection::Bids.spec(0, 8, &[]));
    let mut control_plane = ControlPlane::run(programs[0].clone(), &place, "127.0.0.1:0").await;
    let at = control_plane.address;
    let pods = [pod(Place::new(), "old-pod", at).await, pod(Place::next_version(), "new-pod", at).await];
    let addresses = pods.each_ref().map(|pod| pod.address);
    let callers = [
        caller(Place::new(), "old-caller", &addresses, at).await,
        caller(Place::next_version(), "new-caller", &addresses, at).await,
    ];
    // Requests that take longer make queues differ: otherwise there is little to bounce for.
    let start = |caller: &Sidecar, clients, path| Traffic::start(clients, caller.address, path, BOUND);
    let traffic: Vec<Traffic> = (callers.iter())
        .flat_map(|caller| [start(caller, CLIENTS, "/takes/20"), start(caller, 1, "/takes/150")])
        .collect();

    let phases = [
        (0, Protection::Bids, 8),
        (1, Protection::Bids, 9),
        (0, Protection::Capacity, 2),
        (1, Protection::Capacity, 3),
    ];
    for (phase, (version, protection, capacity)) in phases.into_iter().enumerate() {
        if phase > 0 {
            // An update, a crash, an update.
            if phase == 2 {
                control_plane.kill().await
            } else {
                control_plane.end().await
            };
            // As whoever rolls it back must: this version refuses the file of the next.
            write(&place, &protection.spec(version, capacity, &addresses));
            control_plane = ControlPlane::run(programs[version].clone(), &place, &at.to_string()).await;
        } else {
            write(&place, &protection.spec(version, capacity, &addresses));
        }
        let when = format!("phase {phase}, {protection:?}");
        eventually(&format!("{when}: all have the parameters"), async || {
            let mut all = json(&control_plane, "/v1/status").await["proxies"]["current"] == 4;
            for pod in &pods {
                all &= counts(pod, "inbound", ["capacity"]).await == [capacity as u64];
            }
            all.then_some(())
        })
        .await;

        let (at_server, at_caller) = protection.counters();
        let of_pods = ["departed", at_server, "chips_granted"];
        let of_callers = ["requests", at_caller, "attempts", "fallbacks"];
        let now = async || {
            let [one, two] = pods.each_ref();
            let pods = [counts(one, "inbound", of_pods).await, counts(two, "inbound", of_pods).await];
            let [one, two] = callers.each_ref();
            (pods, [counts(one, "outbound", of_callers).await, counts(two, "outbound", of_callers).await])
        };
        let before = now().await;
        eventually(&format!("{when}: every pair works"), async || {
            let after = now().await;
            let grown = |names: &[&'static str], before: &[u64], after: &[u64]| -> Vec<(&'static str, u64)> {
                names
                    .iter()
                    .zip(before.iter().zip(after))
                    .map(|(name, (before, after))| (*name, after - before))
                    .collect()
            };
            let mut done = true;
            for version in 0..2 {
                let pod = grown(&of_pods, &before.0[version], &after.0[version]);
                let caller = grown(&of_callers, &before.1[version], &after.1[version]);
                // Each kind of event occurs at both: what one says, the other understands. Today's
                // bids bounce one request in fifty where there are two servers.
                let enough = if protection == Protection::Bids { 0 } else { 5 };
                let served = pod[0].1 > ENOUGH && pod[1].1 > 5 && pod[2].1 > 5;
                done &= served && caller[0].1 > ENOUGH && caller[1].1 > enough;
                // Each caller has the list of the control plane.
                assert_eq!(caller[3].1, 0, "{when}: {pod:?} {caller:?}");
            }
            done.then_some(())
        })
        .await;

        // The control plane counts both servers, whatever version they and it have.
        eventually(&format!("{when}: the load"), async || {
            let service = json(&control_plane, &format!("/v1/status/services/{SERVICE}")).await;
            let load = &service["load"];
            let is_known = load["arrivalRatePerSecond"].as_f64().is_some_and(|rate| rate > 1.0);
            (load["servers"] == 2 && load["capacityRequests"] == 2 * capacity && is_known).then_some(())
        })
        .await;
        let lacking = json(&control_plane, "/v1/status").await["modules"]["lacking"].clone();
        let old = json!({"feature": "spare", "proxies": 2, "named": ["old-caller", "old-pod"], "services": [SERVICE]});
        assert_eq!(lacking, if version == 1 { json!([old]) } else { json!([]) }, "{when}");
    }

    let mut tally = Tally::default();
    for traffic in traffic {
        tally = tally.and(traffic.end().await);
    }
    println!("{} served, {} rejected", tally.served.len(), tally.rejected.len());
    let [old, new] = pods.each_ref().map(|pod| &pod.app);
    assert_eq!(tally.disagrees_with(&[old, new]), Vec::<String>::new());
    for sidecar in pods.into_iter().chain(callers) {
        let log = std::fs::read_to_string(sidecar.log).unwrap();
        assert_eq!(errors(&log), Vec::<String>::new());
    }
    control_plane.end().await;
}

/// The next version has `spare`; below `with`, this one does not look.
#[tokio::test(flavor = "multi_thread")]
async fn what_stands_below_with_counts_where_the_module_has_the_feature() {
    let of = |limit: u32| json!({"capacity": {"estimator": "static", "limit": limit}});
    let mut later = of(9);
    later["spare"] = json!(true);
    let with = json!({"spare": {"services": {SERVICE: later}}});
    let configuration = json!({"service": SERVICE, "services": {SERVICE: of(7)}, "with": with});
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 1));
    for (place, capacity) in [(Place::new(), 7), (Place::next_version(), 9)] {
        let pod = pod_with(place, "pod", &configuration, nowhere).await;
        eventually("its capacity", async || (counts(&pod, "inbound", ["capacity"]).await == [capacity]).then_some(()))
            .await;
    }
}
