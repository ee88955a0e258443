//! Services that a sidecar stands in front of, named by Istio in the metadata of its inbound
//! clusters.

use crate::host::{FakeHost, Process, Seen};
use crate::thread::{SECOND, Thread, came};
use bloc_engine::names::MAX_CLUSTERS;
use bloc_engine::root::Root;
use bloc_policy::proxy::roster;

struct Sidecar {
    thread: Thread,
    root: Root<FakeHost>,
}

impl Sidecar {
    fn new() -> Self {
        let process = Process::new(1);
        process.is_connected.set(true);
        let thread = Thread::of(&process);
        let configuration = r#"{"services":{"checkout":{},"payment":{}},"controlPlane":{"cluster":"a","wait":"30s"}}"#;
        let root = thread.plug(1, "bloc.inbound", configuration);
        Self { thread, root }
    }

    /// Sends a request through this cluster, which is this service's. Returns how many requests of
    /// the service `counted` have been admitted.
    fn admitted(&self, cluster: &str, service: &str, counted: &str) -> i64 {
        self.serve(cluster, Some(service));
        self.thread.engine.vm().flush();
        self.thread.process.metric(&format!("bloc.inbound.{counted}.admitted")).unwrap_or(0)
    }

    fn serve(&self, cluster: &str, service: Option<&str>) {
        let (cluster, service) = (Some(cluster.to_owned()), service.map(str::to_owned));
        drop(came(&self.root, Seen { cluster, service, ..Seen::default() }));
    }
}

/// Istio may change a cluster's service.
#[test]
fn the_service_of_a_cluster_is_read_once_between_two_ticks() {
    let mut sidecar = Sidecar::new();
    assert_eq!(sidecar.admitted("inbound|80||", "checkout", "checkout"), 1);
    assert_eq!(sidecar.admitted("inbound|80||", "payment", "checkout"), 2);
    assert_eq!(sidecar.admitted("inbound|90||", "payment", "payment"), 1, "another cluster");
    sidecar.thread.tick(&mut sidecar.root);
    assert_eq!(sidecar.admitted("inbound|80||", "payment", "payment"), 2);
}

#[test]
fn ten_thousand_clusters_are_remembered_between_two_ticks() {
    let sidecar = Sidecar::new();
    (1..MAX_CLUSTERS).for_each(|number| sidecar.serve(&number.to_string(), None));
    for (cluster, remembers) in [("last", true), ("one too many", false)] {
        let before = sidecar.admitted(cluster, "checkout", "checkout");
        let after = sidecar.admitted(cluster, "payment", "checkout");
        assert_eq!(after - before, i64::from(remembers), "{cluster}");
    }
}

#[test]
fn requests_of_services_beyond_ten_thousand_pass_uncounted() {
    let sidecar = Sidecar::new();
    (1..MAX_CLUSTERS).for_each(|number| sidecar.serve(&number.to_string(), Some(&number.to_string())));
    assert_eq!(sidecar.admitted("last", "checkout", "checkout"), 1);
    assert_eq!(sidecar.admitted("one too many", "payment", "payment"), 0);
    assert_eq!(sidecar.admitted("another", "checkout", "checkout"), 2, "it is known");
}

#[test]
fn every_service_is_reported_to_the_control_plane() {
    let mut sidecar = Sidecar::new();
    for services in [&["checkout"][..], &["checkout", "payment"]] {
        let last = services.last().copied();
        sidecar.serve(&format!("inbound|{}||", services.len()), last);
        sidecar.thread.process.advance(SECOND * 5);
        sidecar.root.tick();
        assert_eq!(roster::served(&sidecar.thread.host).iter().collect::<Vec<_>>(), services);
    }
    sidecar.thread.messages();
    sidecar.serve("inbound|3||", Some("payment"));
    assert_eq!(sidecar.thread.messages().len(), 0, "it is announced once");
}
