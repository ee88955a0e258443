//! A server whose CPU changes.

use super::*;
use crate::config::{CapacitySpec, ServiceParameters, ServiceSpec};
use crate::server::departures::Totals;
use crate::units::{Concurrency, Timestamp};
use crate::wire::load_report::LoadReport;
use std::time::Duration;

const NOTHING: ServerCpu = ServerCpu { cores: None, used: None, per_request_us: None };

fn per_core(per_core: f64, limit: Option<i64>) -> ServiceParameters {
    let capacity = Some(CapacitySpec::PerCore { per_core, limit });
    ServiceSpec { concurrency: Some(4), capacity, ..ServiceSpec::default() }.validate().unwrap()
}

fn slo(slo: &str) -> ServiceParameters {
    let capacity = Some(CapacitySpec::Slo { slo: slo.to_owned() });
    ServiceSpec { concurrency: Some(4), capacity, ..ServiceSpec::default() }.validate().unwrap()
}

/// Its four places take 100 ms: 40 requests per second.
fn measured(mut server: Server) -> Server {
    let (flag, took) = (server.flag(Concurrency::new(0), false), Duration::from_millis(100));
    server.depart(flag, took, Concurrency::new(0), Timestamp::ZERO.after(took));
    server.measure(Totals::default(), true, Timestamp::ZERO);
    server
}

fn capacity(server: &Server) -> Option<u32> {
    server.capacity().map(Concurrency::get)
}

fn cores(cores: f64) -> ServerCpu {
    ServerCpu { cores: Some(cores), ..NOTHING }
}

#[test]
fn a_capacity_per_core_follows_the_cores_at_once() {
    let mut server = Server::new(&per_core(8.0, None));
    let mut provided = |cpu| {
        server.provide(cpu);
        capacity(&server)
    };
    assert_eq!([cores(2.0), cores(1.0), cores(0.01)].map(&mut provided), [16, 8, 1].map(Some));
    assert_eq!([NOTHING, cores(1.0)].map(provided), [None, Some(8)]);
}

#[test]
fn the_capacity_from_an_slo_moves_at_once_with_what_the_cpu_is_enough_for() {
    let mut server = measured(Server::new(&slo("2s")));
    assert_eq!((server.service_rate(), capacity(&server)), (Some(40.0), Some(80)));
    let mut provided = |cores, per_request_us| {
        server.provide(ServerCpu { cores, per_request_us, used: None });
        (server.service_rate(), capacity(&server))
    };
    assert_eq!(provided(Some(0.5), Some(25_000.0)), (Some(40.0), Some(40)));
    assert_eq!(provided(Some(0.25), Some(25_000.0)), (Some(40.0), Some(20)), "half of it");
    assert_eq!(provided(Some(2.0), Some(25_000.0)), (Some(40.0), Some(80)), "as measured");
    assert_eq!(provided(Some(1e-9), Some(1e9)), (Some(40.0), Some(4)), "never below the concurrency");
    assert_eq!(provided(None, Some(25_000.0)), (Some(40.0), Some(80)));
    assert_eq!(provided(Some(0.25), None), (Some(40.0), Some(80)));
}

#[test]
fn a_service_rate_that_was_not_measured_is_not_known_from_the_cpu() {
    let mut server = Server::new(&slo("2s"));
    server.provide(ServerCpu { per_request_us: Some(25_000.0), ..cores(0.5) });
    assert_eq!((server.service_rate(), capacity(&server)), (None, None));
    let server = measured(server);
    assert_eq!((server.service_rate(), capacity(&server)), (Some(40.0), Some(40)), "but it bounds what is");
}

#[test]
fn callers_are_told_the_service_rate_that_was_measured() {
    for routing in ["bid", "mu", "bloc"] {
        let spec = format!(r#"{{"routing":"{routing}","concurrency":4,"capacity":{{"estimator":"slo","slo":"2s"}}}}"#);
        let spec: ServiceSpec = serde_json::from_str(&spec).unwrap();
        let mut server = measured(Server::new(&spec.validate().unwrap()));
        let before = server.bare_report(Concurrency::new(10));
        assert_eq!((before.service, before.capacity), (Some(40.0), Some(80)), "{routing}");
        server.provide(ServerCpu { per_request_us: Some(25_000.0), ..cores(0.5) });
        let report = server.bare_report(Concurrency::new(10));
        assert_eq!(report, LoadReport { capacity: Some(40), ..before }, "{routing}: ORCA follows from it");
    }
}

#[test]
fn all_configurations_share_the_cpu() {
    let mut one = measured(Server::new(&slo("2s")));
    one.provide(ServerCpu { per_request_us: Some(25_000.0), used: Some(0.125), ..cores(0.5) });
    let mut two = one.beside(&per_core(8.0, None));
    assert_eq!(capacity(&two), Some(4));
    assert_eq!(capacity(&one.beside(&slo("1s"))), Some(20));
    one.provide(ServerCpu { per_request_us: Some(25_000.0), ..cores(0.25) });
    assert_eq!((capacity(&one), one.service_rate(), two.service_rate()), (Some(20), Some(40.0), Some(40.0)));
    assert_eq!(capacity(&two), Some(4), "until it is told");
    two.provide(cores(0.25));
    assert_eq!(capacity(&two), Some(2));
    two.configure(&per_core(16.0, Some(3)));
    assert_eq!(capacity(&two), Some(3), "a new parameter at the same cores");
}

#[test]
fn a_report_has_the_headroom_if_it_is_known() {
    let mut server = Server::new(&per_core(8.0, None));
    let mut reported = |cpu| {
        server.provide(cpu);
        let report = server.bare_report(Concurrency::new(0));
        let mut text = String::new();
        report.encode(&mut text);
        text.split(", ").find(|member| member.starts_with("cpu")).map(str::to_owned)
    };
    let mut headroom = |used| reported(ServerCpu { used: Some(used), ..cores(0.75) });
    assert_eq!(
        [0.5, 0.75, 1.0, 0.0].map(&mut headroom),
        ["cpu=0.333", "cpu=0", "cpu=0", "cpu=1"].map(|s| Some(s.into()))
    );
    assert_eq!([cores(0.75), NOTHING].map(reported), [None, None]);
}
