//! A sidecar whose listeners come and go, two applications behind it, and a control plane.

use crate::support::traffic::send_known;
use crate::support::{
    App, Changing, FakeControlPlane, Place, Tally, Traffic, WORKERS, Workers, errors, from_sidecar, inbound, outbound,
};
use bloc_mesh::envoy::{Balancing, CONTROL_PLANE_CLUSTER, sidecar_inbound, static_cluster};
use bloc_testhost::history::SERVICES;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

/// How long Envoy drains replaced or removed listeners by default; then it closes their remaining
/// connections.
const DRAIN: Duration = Duration::from_secs(5);
/// The longest that the filters hold a request, so that none is left when a drain ends.
pub const MAX_QUEUE_WAIT: Duration = Duration::from_secs(3);
/// The longest that any request may take on a busy machine. The slowest is held for
/// [`MAX_QUEUE_WAIT`] and executed for a tenth of a second.
pub const BOUND: Duration = Duration::from_secs(9);
/// Clients of each load.
pub const CLIENTS: usize = 8;
/// How long to wait for a sign that something is right.
const SOON: Duration = Duration::from_secs(8);
const POLL: Duration = Duration::from_millis(20);
/// How often a burst is sent after the last change.
const BURSTS: usize = 3;

/// The other service, and the cluster of the outbound listener.
pub const OTHER: &str = "other";

/// A sidecar, its applications and its control plane.
pub struct Stand {
    pub place: Place,
    pub app: App,
    /// Behind the second inbound listener and the outbound one.
    pub other: App,
    pub control_plane: FakeControlPlane,
    pub sidecar: Changing,
    /// What the test found wrong.
    wrong: Vec<String>,
}

impl Stand {
    /// Starts with these listeners, and these services at the control plane.
    pub async fn start(listeners: impl FnOnce(&Place) -> Vec<Value>, services: Value) -> Self {
        Self::draining(DRAIN, listeners, services).await
    }

    /// The same with another drain time, in whole seconds.
    pub async fn draining(drain: Duration, listeners: impl FnOnce(&Place) -> Vec<Value>, services: Value) -> Self {
        let place = Place::new();
        let (app, other) = (App::start("pod").await, App::start(OTHER).await);
        let control_plane = FakeControlPlane::start(services).await;
        let cluster = |name: &str, at, balancing| static_cluster(name, &[at], balancing);
        let mut clusters = vec![
            cluster("app", app.address, Balancing::RoundRobin),
            cluster("other-app", other.address, Balancing::RoundRobin),
            cluster(CONTROL_PLANE_CLUSTER, control_plane.address, Balancing::RoundRobin),
        ];
        let called = SERVICES.into_iter().chain([OTHER]);
        clusters.extend(called.map(|service| cluster(service, other.address, Balancing::ChosenByFilter)));
        let listeners = listeners(&place);
        let sidecar = Changing::start(&place, drain, &clusters, &listeners).await;
        Self { place, app, other, control_plane, sidecar, wrong: Vec::new() }
    }

    /// Clients that send to this listener until they are told to stop.
    pub async fn traffic(&self, listener: &str, clients: usize, path: &'static str) -> Traffic {
        Traffic::start(clients, self.sidecar.address(listener).await, path, BOUND)
    }

    /// Notes what was found wrong.
    pub fn note(&mut self, when: &str, wrong: impl IntoIterator<Item = String>) {
        self.wrong.extend(wrong.into_iter().map(|what| format!("{when}: {what}")));
    }

    /// Notes the results of a load.
    pub fn note_tally(&mut self, when: &str, tally: &Tally) {
        println!(
            "{when}: {} served, {} rejected, longest {:?}",
            tally.served.len(),
            tally.rejected.len(),
            tally.longest
        );
        let wrong = tally.disagrees_with(&[&self.app, &self.other]);
        self.note(when, wrong);
    }

    /// Waits until `holds`; if that takes too long, notes its last error.
    pub async fn soon(&mut self, what: &str, mut holds: impl AsyncFnMut(&Self) -> Result<(), String>) {
        let deadline = Instant::now() + SOON;
        while let Err(why) = holds(self).await {
            if Instant::now() >= deadline {
                self.note(what, [why]);
                return;
            }
            sleep(POLL).await;
        }
    }

    /// Waits until the proxy has the control plane's latest state; the polling thread fetches it.
    pub async fn follows(&mut self, when: &str) {
        self.soon(when, async |stand| {
            if stand.control_plane.is_followed() { Ok(()) } else { Err("the news is not asked for".into()) }
        })
        .await;
    }

    /// Waits until each worker's answers report this capacity for an inbound listener; none: no
    /// capacity. A worker that misses the message about an update applies it at its next tick, and
    /// neither counts nor holds the requests that it gets before.
    pub async fn all_workers_have(&mut self, when: &str, listener: &str, capacity: Option<usize>) {
        let expected = capacity.map(|capacity| u32::try_from(capacity).unwrap());
        let to = self.sidecar.address(listener).await;
        for worker in 0..WORKERS {
            let mut connection = Workers::new(&self.sidecar.envoy, to).connect(worker).await;
            self.soon(&format!("{when}: worker {worker} of {listener}"), async |_| {
                let answer = connection.send(from_sidecar("/x"), "").await?;
                let now = answer.load().and_then(|(_, _, capacity)| capacity);
                if now == expected { Ok(()) } else { Err(format!("its capacity is {now:?}, not {expected:?}")) }
            })
            .await;
        }
    }

    /// Sends `count` requests at once to a listener. Notes if the number admitted is not
    /// `capacity`, or if the application does not work on `concurrency` of them at once.
    pub async fn burst(&mut self, when: &str, probe: &Probe) {
        if let Err(why) = self.try_burst(when, probe).await {
            self.note(when, [why]);
        }
    }

    /// The same after the last change, for parameters with such short waits that a busy machine may
    /// miss their effect.
    pub async fn bursts(&mut self, when: &str, probe: &Probe) {
        let mut said = Ok(());
        for _ in 0..BURSTS {
            said = self.try_burst(when, probe).await;
            if said.is_ok() {
                break;
            }
        }
        self.note(when, said.err());
    }

    async fn try_burst(&mut self, when: &str, probe: &Probe) -> Result<(), String> {
        let to = self.sidecar.address(probe.listener).await;
        let app = if probe.behind_other { &self.other } else { &self.app };
        let mut requests = JoinSet::new();
        for _ in 0..probe.count {
            requests.spawn(send_known(to, "/hold", BOUND));
        }
        let mut tally = Tally::default();
        let deadline = Instant::now() + MAX_QUEUE_WAIT - Duration::from_millis(500);
        let expected = (probe.count - probe.capacity, probe.concurrency);
        let mut stable = 0;
        let seen = loop {
            while let Some(done) = requests.try_join_next() {
                let (id, answer, took) = done.unwrap();
                tally.count(id, answer, took);
            }
            let seen = (tally.rejected.len() + tally.lost.len(), app.at_once());
            // One too many may arrive a moment later.
            stable = if seen == expected { stable + 1 } else { 0 };
            if stable > 5 || Instant::now() >= deadline {
                break seen;
            }
            sleep(POLL).await;
        };
        // Including those that are admitted only now.
        while !requests.is_empty() {
            (0..app.at_once()).for_each(|_| app.release());
            while let Some(done) = requests.try_join_next() {
                let (id, answer, took) = done.unwrap();
                tally.count(id, answer, took);
            }
            sleep(POLL).await;
        }
        app.keep();
        self.note_tally(when, &tally);
        let ((rejected, inside), (wanted, right)) = (seen, expected);
        if seen == expected {
            return Ok(());
        }
        Err(format!("{rejected} of {} rejected and {inside} inside, not {wanted} and {right}", probe.count))
    }

    /// Notes if the held requests of a load are admitted by ticks instead of messages.
    pub async fn keeps_holding(&mut self, when: &str, service: &str, traffic: &Traffic) {
        let count = async |stand: &Self| {
            let metric = async |name: &str| stand.sidecar.metric("inbound", service, name).await;
            (metric("held").await, metric("rescued").await, traffic.answers())
        };
        let before = count(self).await;
        sleep(Duration::from_secs(3)).await;
        let after = count(self).await;
        let (held, rescued, answers) = (after.0 - before.0, after.1 - before.1, after.2 - before.2);
        println!("{when}: {answers} answers, {held} held, {rescued} rescued");
        let few = answers < 120 || held < 50;
        self.note(when, few.then(|| format!("only {answers} answers within 3 s, {held} of them held")));
        // A tick may occur between a message and its arrival.
        let late = rescued * 10 > held;
        self.note(when, late.then(|| format!("{rescued} of {held} held requests were let in by a tick only")));
    }

    /// Notes if the control plane is not polled repeatedly, one poll at a time.
    pub async fn polled(&mut self, when: &str) {
        for (what, polls) in [("a poll", 1), ("further polls", 2)] {
            self.control_plane.most_at_once();
            let before = self.control_plane.polls();
            self.soon(&format!("{when}: {what}"), async |stand| {
                let (new, now) = (stand.control_plane.polls() - before, stand.control_plane.under_way());
                if new >= polls && now == 1 { Ok(()) } else { Err(format!("{new} new ones, {now} under way")) }
            })
            .await;
        }
        let most = self.control_plane.most_at_once();
        self.note(when, (most > 1).then(|| format!("{most} polls at once")));
    }

    /// Fails with everything that was found wrong, including what every test checks at its end.
    pub async fn end(mut self, services: &[&str]) {
        for service in services {
            self.soon("at the end", async |stand| {
                let left = stand.sidecar.metric("inbound", service, "in_flight").await;
                if left == 0 { Ok(()) } else { Err(format!("{left} of {service} in flight")) }
            })
            .await;
        }
        let log = self.sidecar.log();
        self.note("in the log", errors(&log));
        assert!(self.wrong.is_empty(), "{:#?}\nEnvoy's log:\n{log}", self.wrong);
    }
}

/// A burst that shows which configuration is in force.
#[derive(Clone, Copy)]
pub struct Probe {
    pub listener: &'static str,
    pub behind_other: bool,
    pub count: usize,
    pub capacity: usize,
    pub concurrency: usize,
}

impl Probe {
    /// Twenty requests to a listener of the first application.
    pub fn new(listener: &'static str, capacity: usize, concurrency: usize) -> Self {
        Self { listener, behind_other: false, count: 20, capacity: capacity.min(20), concurrency }
    }

    /// The same at a listener of the other application.
    pub fn other(self) -> Self {
        Self { behind_other: true, ..self }
    }
}

/// The parameters of a service with these limits.
pub fn spec(capacity: usize, concurrency: usize) -> Value {
    let wait = format!("{}ms", MAX_QUEUE_WAIT.as_millis());
    json!({
        "capacity": {"estimator": "static", "limit": capacity},
        "concurrency": concurrency,
        "hold": true,
        "maxQueueWait": wait,
    })
}

/// Adds the stand's control plane.
pub fn polling(mut configuration: Value) -> Value {
    configuration["controlPlane"] = json!({"cluster": CONTROL_PLANE_CLUSTER, "wait": "1s"});
    configuration
}

/// The configuration of an inbound filter in front of `service`.
pub fn front(service: &str, parameters: Value) -> Value {
    json!({"service": service, "services": {service: parameters}})
}

/// An inbound listener to the cluster `to`, with our filter or, without a configuration, as in
/// stock Envoy; another `mark` makes another version.
pub fn listener(place: &Place, name: &str, to: &str, configuration: Option<&Value>, mark: u32) -> Value {
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
    let mut bootstrap = match configuration {
        Some(configuration) => inbound(place, nowhere, configuration, None),
        None => sidecar_inbound(nowhere, None),
    };
    let route = bloc_mesh::envoy::route_configuration(&mut bootstrap);
    route["virtual_hosts"][0]["routes"][0]["route"]["cluster"] = json!(to);
    listener_of(bootstrap, name, mark)
}

/// An outbound listener to [`OTHER`].
pub fn caller(place: &Place, name: &str, configuration: &Value) -> Value {
    caller_of(place, name, OTHER, configuration)
}

/// An outbound listener to one of the clusters that lead to the other application.
pub fn caller_of(place: &Place, name: &str, service: &str, configuration: &Value) -> Value {
    let mut bootstrap = outbound(place, &[], configuration, None);
    let route = bloc_mesh::envoy::route_configuration(&mut bootstrap);
    route["virtual_hosts"][0]["routes"][0]["route"]["cluster"] = json!(service);
    listener_of(bootstrap, name, 0)
}

fn listener_of(mut bootstrap: Value, name: &str, mark: u32) -> Value {
    crate::support::balance(&mut bootstrap);
    let mut listener = bootstrap["static_resources"]["listeners"][0].take();
    listener["name"] = json!(name);
    let manager = &mut listener["filter_chains"][0]["filters"][0]["typed_config"];
    manager["stat_prefix"] = json!(name);
    manager["server_name"] = json!(format!("mark-{mark}"));
    listener
}
