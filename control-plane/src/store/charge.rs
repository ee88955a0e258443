//! The bytes that a proxy takes between its polls: an upper estimate.
//!
//! bytes = PROXY + 5 × its id + its version
//!       + for each name: USE, and NAME + its text unless the service is in force
//!       + for each name that it could not read: UNREAD + its text
//!       + for each call: CALL + its name, and for each bucket of a histogram: BUCKET
//!       + for each load: LOAD + its name, and for each service in force that it serves: SERVER + its id
//!
//! A name is charged in full to every proxy that uses it, although it is stored once. Otherwise the
//! first proxy could leave, and the others would pay less than the name takes. Services in force
//! are ours, and so are their names.

use super::poll::Poll;

/// A held poll: connection with its read buffer, task, record and map entries. Measured: 10,000
/// proxies that call five services took 200 MB (`examples/scale`).
const PROXY: usize = 18 << 10;
/// A use of a name: 24 bytes in the subscription, and 16 in the half-full index.
const USE: usize = 56;
/// A name: an allocation with its counts, and an entry in a half-full table.
const NAME: usize = 112;
/// A reported load in the record.
const LOAD: usize = 312;
/// An unshared name in a list of the record.
const UNREAD: usize = 48;
/// Reported calls in the record.
const CALL: usize = 128;
/// A bucket of a histogram in the record.
const BUCKET: usize = 16;
/// A server of a service: its rates and its map entries.
const SERVER: usize = 768;

/// The bytes that the proxy behind `poll` takes; `in_force` tells which services exist.
pub fn of(poll: &Poll, in_force: impl Fn(&str) -> bool) -> usize {
    let version = poll.version.as_ref().map_or(0, |version| version.stamps.len() * 16);
    let names = poll.services.iter().chain(&poll.serves);
    let names: usize = names.map(|name| USE + if in_force(name) { 0 } else { NAME + name.len() }).sum();
    let loads: usize = poll.load.iter().map(|load| LOAD + load.service.len()).sum();
    let unread: usize = poll.unread.iter().map(|name| UNREAD + name.len()).sum();
    let calls: usize = poll.calls.iter().map(|calls| CALL + calls.service.len()).sum();
    let of_calls = poll.calls.iter().map(|calls| &calls.latency);
    let of_load = poll.load.iter().filter_map(|load| load.latency.as_ref());
    let histograms = of_load.flat_map(|latency| [&latency.response, &latency.execution]).chain(of_calls);
    let buckets: usize = histograms.map(|histogram| BUCKET * histogram.counts.len()).sum();
    let servers = poll.serves.iter().filter(|name| in_force(name)).count();
    let id = poll.proxy.len();
    PROXY + 5 * id + 2 * version + names + unread + calls + buckets + loads + servers * (SERVER + id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::proxies::{IN_ALL, OF_ONE};
    use bloc_policy::sync::SyncRequest;

    #[test]
    fn the_budget_has_room_for_ten_thousand_ordinary_proxies() {
        let request = SyncRequest {
            proxy: format!("sidecar~10.0.0.1~{}.shop~shop.svc.cluster.local", "a".repeat(40)),
            version: "6f0c3a9be1d24578@e1042.s997.c1011.v4471".into(),
            services: (0..10).map(|i| format!("service-{i}.shop.svc.cluster.local")).collect(),
            serves: vec!["checkout.shop.svc.cluster.local".into()],
            ..SyncRequest::default()
        };
        let charge = of(&Poll::try_from(request).unwrap(), |_| true);
        assert!(IN_ALL / charge >= 10_000, "{charge}");
        assert!(OF_ONE / charge >= 4_900, "{charge}");
    }

    #[test]
    fn charges_more_for_names_that_are_not_in_force() {
        let services: Vec<String> = (0..1_000).map(|i| format!("{i:061}")).collect();
        let request = SyncRequest { proxy: "p".into(), services, ..SyncRequest::default() };
        let poll = Poll::try_from(request).unwrap();
        assert!(of(&poll, |_| false) > 200_000 && of(&poll, |_| true) < 80_000);
    }

    #[test]
    fn charges_for_each_stamp_and_for_each_service_in_force_that_a_proxy_serves() {
        let charge = |version: &str, serves: &[&str]| {
            let (proxy, version) = ("p".repeat(100), version.to_owned());
            let serves = serves.iter().map(ToString::to_string).collect();
            let request = SyncRequest { proxy, version, serves, ..SyncRequest::default() };
            of(&Poll::try_from(request).unwrap(), |name| name != "none")
        };
        let (none, digest) = (charge("", &[]), "6f0c3a9be1d24578");
        assert_eq!(charge(&format!("{digest}@e1.s2.v3"), &[]) - none, 3 * 32);
        assert_eq!(charge("", &["a", "b"]) - none, 2 * (USE + SERVER + 100));
        assert_eq!(charge("", &["none"]) - none, USE + NAME + 4);
        let serves = vec!["none".to_owned()];
        let request =
            SyncRequest { proxy: "p".repeat(100), serves: serves.clone(), unread: serves, ..SyncRequest::default() };
        let unread = of(&Poll::try_from(request).unwrap(), |_| false);
        assert_eq!(unread - charge("", &["none"]), UNREAD + 4);
    }
}
