//! A validated poll: who asks, which version it has, what it subscribes to and how long it waits.

use bloc_daemon::ranges::{count, refused, within};
use bloc_policy::config::ConfigError;
use bloc_policy::sync::latency::Histogram;
use bloc_policy::sync::latency::dispersion::NUMBERS;
use bloc_policy::sync::{Last, ServiceCalls, ServiceLoad, SyncRequest};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::module::Module;
use super::version::{MAX_LENGTH, Version};

/// How long a poll is held by default: well below the idle timeouts of intermediate proxies.
pub const DEFAULT_WAIT: Duration = Duration::from_secs(30);
/// Waits outside this range are clamped to it.
pub const WAIT_RANGE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(60));
/// The most services, and loads, that one proxy may name.
const MAX_NAMES: usize = 1_000;
/// The most requests in flight that a proxy may report: ten times the largest capacity. A count
/// below zero would appear as a number near 2^64.
const MAX_IN_FLIGHT: u64 = 10_000_000;
/// The most departures, or events of another kind, that a proxy may report: 2^53, beyond which JSON
/// tools lose digits. That is three centuries at a million a second.
const MAX_DEPARTED: u64 = 1 << 53;
/// The most calls that ended in one report and whose trailers, in the next, say that they failed.
const MAX_LATE: u64 = 1_000_000;
/// The highest service rate that a proxy may report, in requests per second: a million at once, in
/// a microsecond each.
const MAX_SERVICE_RATE: f64 = 1e12;
/// The longest name of a proxy or service, in bytes: that of a DNS name.
const MAX_NAME_LENGTH: usize = 253;

/// A validated poll.
#[derive(Clone, Debug)]
pub struct Poll {
    pub(super) proxy: String,
    /// The version that it presents, even if we did not issue it; `None`: the text cannot be a
    /// version.
    pub(super) version: Option<Version>,
    /// The services that it calls; ascending, each once.
    pub(super) services: Vec<String>,
    /// The services that it serves; ascending, each once.
    pub(super) serves: Vec<String>,
    pub(super) load: Vec<ServiceLoad>,
    pub(super) wait: Duration,
    /// The results of its previous polls; `None`: it knows of none.
    pub(super) last: Option<Last>,
    /// The services of its version that it could not read, among those that it calls and serves.
    pub(super) unread: Vec<String>,
    /// How its calls ended, to services that it calls.
    pub(super) calls: Vec<ServiceCalls>,
    /// The cores that its pod's node agent gave it; impossible values are dropped.
    pub(super) cpu: Option<f64>,
    /// The module that it runs.
    pub(super) module: Module,
    /// Who asks, if proved.
    pub(super) identity: Option<String>,
    /// Who is charged for it.
    pub(super) payer: Arc<str>,
}

impl TryFrom<SyncRequest> for Poll {
    type Error = ConfigError;

    fn try_from(request: SyncRequest) -> Result<Self, ConfigError> {
        let SyncRequest { proxy, version, services, serves, wait, load, last, mut unread, mut calls, cpu } = request;
        check_name("proxy", &proxy)?;
        check_names("services", services.iter())?;
        check_names("serves", serves.iter())?;
        check_names("load", load.iter().map(|load| &load.service))?;
        check_loads(&load, &serves)?;
        check_names("unread", unread.iter())?;
        let (services, serves) = (set(services), set(serves));
        let names_of = |names: &[String], name: &String| names.binary_search(name).is_ok();
        unread = set(unread);
        check_names("calls", calls.iter().map(|calls| &calls.service))?;
        check_calls(&calls)?;
        calls.retain(|calls| names_of(&services, &calls.service));
        unread.retain(|name| names_of(&services, name) || names_of(&serves, name));
        last.as_ref().map_or(Ok(()), check_last)?;
        if version.len() > MAX_LENGTH {
            let allowed = format!("at most {MAX_LENGTH} bytes");
            return Err(refused("version", format!("a text of {} bytes", version.len()), allowed));
        }
        let version = version.parse().ok();
        Ok(Self {
            proxy,
            version,
            services,
            serves,
            load,
            wait: parse_wait(wait.as_deref())?,
            last,
            unread,
            calls,
            cpu: cpu.filter(|cores| *cores > 0.0 && cores.is_finite()),
            module: Module::default(),
            identity: None,
            payer: Arc::default(),
        })
    }
}

impl Poll {
    /// The same poll, with a proved identity.
    #[must_use]
    pub fn from(self, identity: Option<String>) -> Self {
        Self { identity, ..self }
    }

    /// The time that the counters in `load` cover; `None`: since the start of the proxy.
    pub(super) fn span(&self) -> Option<Duration> {
        Some(Duration::from_millis(self.last.as_ref()?.reported_ms?))
    }

    /// The same poll, from a proxy that runs this module.
    #[must_use]
    pub fn run_by(self, module: Module) -> Self {
        Self { module, ..self }
    }

    /// The same poll, charged to `payer`.
    #[must_use]
    pub fn paid_by(self, payer: Arc<str>) -> Self {
        Self { payer, ..self }
    }

    /// A proxy that serves something must report again within this time.
    pub(super) fn report_within(&mut self, most: Duration) {
        if !self.serves.is_empty() {
            self.wait = self.wait.min(most);
        }
    }
}

/// Sorts and removes duplicates, without another allocation.
fn set(mut names: Vec<String>) -> Vec<String> {
    names.sort_unstable();
    names.dedup();
    names
}

/// Refuses absurd numbers, which would spoil the sums of a whole service.
fn check_loads(loads: &[ServiceLoad], serves: &[String]) -> Result<(), ConfigError> {
    let serves: BTreeSet<&String> = serves.iter().collect();
    let mut named = BTreeSet::new();
    for (i, load) in loads.iter().enumerate() {
        let path = |field: &str| format!("load[{i}].{field}");
        let ServiceLoad { service, in_flight, service_rate, .. } = load;
        if !serves.contains(service) {
            return Err(refused(path("service"), format!("{service:?}"), "a name that is in serves"));
        }
        if !named.insert(service) {
            return Err(refused(path("service"), format!("{service:?}"), "each service once"));
        }
        within(format_args!("load[{i}].inFlight"), *in_flight, 0, MAX_IN_FLIGHT)?;
        let events = [
            ("departed", load.departed),
            ("arrived", load.arrived),
            ("events.departedConfident", load.events.departed_confident),
            ("events.chipsGranted", load.events.chips_granted),
            ("events.chipsWithheld", load.events.chips_withheld),
            ("events.rejectedCapacity", load.events.rejected_capacity),
            ("events.rejectedBid", load.events.rejected_bid),
            ("events.rejectedDeadline", load.events.rejected_deadline),
        ];
        for (name, count) in events {
            within(format_args!("load[{i}].{name}"), count, 0, MAX_DEPARTED)?;
        }
        if let Some(latency) = &load.latency {
            check_histogram(&path("latency.response"), &latency.response)?;
            check_histogram(&path("latency.execution"), &latency.execution)?;
            if ![0, NUMBERS].contains(&latency.arrivals.len()) {
                let count = latency.arrivals.len();
                return Err(refused(path("latency.arrivals"), count, format!("{NUMBERS} numbers")));
            }
        }
        service_rate
            .map_or(Ok(0.0), |rate| within(format_args!("load[{i}].serviceRate"), rate, 0.0, MAX_SERVICE_RATE))?;
    }
    Ok(())
}

fn check_calls(calls: &[ServiceCalls]) -> Result<(), ConfigError> {
    let mut named = BTreeSet::new();
    for (i, calls) in calls.iter().enumerate() {
        let path = |field: &str| format!("calls[{i}].{field}");
        if !named.insert(&calls.service) {
            return Err(refused(path("service"), format!("{:?}", calls.service), "each service once"));
        }
        within(format_args!("calls[{i}].requests"), calls.requests, 0, MAX_DEPARTED)?;
        for (name, count) in [
            ("failed", calls.failed),
            ("exhausted", calls.exhausted),
            ("overflowed", calls.overflowed),
            ("retried", calls.retried),
            ("refused", calls.refused),
        ] {
            // If its trailers say that it failed, a call may have been reported before.
            if count > calls.requests.saturating_mul(2).max(MAX_LATE) {
                return Err(refused(path(name), count, "at most the requests"));
            }
        }
        check_histogram(&path("latency"), &calls.latency)?;
    }
    Ok(())
}

/// Refuses buckets that do not exist.
fn check_histogram(path: &str, histogram: &Histogram) -> Result<(), ConfigError> {
    if !histogram.is_valid() {
        let allowed = "buckets from 0 to 145, each once and in order";
        return Err(refused(format!("{path}.counts"), format!("{:?}", histogram.counts), allowed));
    }
    if histogram.count() > MAX_DEPARTED || histogram.sum_us > MAX_DEPARTED * 1_000 {
        return Err(refused(path, histogram.count(), format!("0 to {MAX_DEPARTED}")));
    }
    Ok(())
}

fn check_last(last: &Last) -> Result<(), ConfigError> {
    if !last.replica.is_empty() {
        check_name("last.replica", &last.replica)?;
    }
    for (path, millis) in [("last.answeredMs", Some(last.answered_ms)), ("last.reportedMs", last.reported_ms)] {
        within(path, millis.unwrap_or_default(), 0, MAX_DEPARTED)?;
    }
    Ok(())
}

fn parse_wait(text: Option<&str>) -> Result<Duration, ConfigError> {
    let Some(text) = text else { return Ok(DEFAULT_WAIT) };
    let allowed = "a duration with its unit, such as 30s";
    let wait = humantime::parse_duration(text).map_err(|_| refused("wait", format!("{text:?}"), allowed))?;
    let (least, most) = WAIT_RANGE;
    Ok(wait.clamp(least, most))
}

fn check_names<'a>(path: &str, names: impl ExactSizeIterator<Item = &'a String>) -> Result<(), ConfigError> {
    count(path, names.len(), MAX_NAMES)?;
    names.enumerate().try_for_each(|(i, name)| check_name(&format!("{path}[{i}]"), name))
}

fn check_name(path: &str, name: &str) -> Result<(), ConfigError> {
    if (1..=MAX_NAME_LENGTH).contains(&name.len()) && name.bytes().all(|b| b.is_ascii_graphic()) {
        return Ok(());
    }
    let allowed = format!("1 to {MAX_NAME_LENGTH} printable ASCII characters");
    Err(refused(path, format!("{name:?}"), allowed))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> SyncRequest {
        SyncRequest { proxy: "p".into(), services: vec!["b".into(), "a".into()], ..SyncRequest::default() }
    }

    #[test]
    fn sorts_names_and_drops_duplicates() {
        let serves = ["c", "a", "c"].map(String::from).to_vec();
        let poll = Poll::try_from(SyncRequest { serves, ..request() }).unwrap();
        assert_eq!((poll.services, poll.serves), (vec!["a".into(), "b".into()], vec!["a".into(), "c".into()]));
    }

    #[test]
    fn limits_the_wait_to_1_to_60_seconds() {
        let wait = |text: &str| Poll::try_from(SyncRequest { wait: Some(text.into()), ..request() }).map(|p| p.wait);
        assert_eq!(wait("10ms"), Ok(Duration::from_secs(1)));
        assert_eq!(wait("2s"), Ok(Duration::from_secs(2)));
        assert_eq!(wait("1h"), Ok(Duration::from_secs(60)));
        assert_eq!(Poll::try_from(request()).unwrap().wait, DEFAULT_WAIT);
        let error = wait("soon").unwrap_err().to_string();
        assert!(error.starts_with("wait: \"soon\" is not allowed"), "{error}");
    }

    #[test]
    fn limits_the_wait_of_a_servers_proxy_to_the_report_interval() {
        let wait = |serves: &[&str], wait: &str| {
            let serves = serves.iter().map(ToString::to_string).collect();
            let mut poll = Poll::try_from(SyncRequest { serves, wait: Some(wait.into()), ..request() }).unwrap();
            poll.report_within(Duration::from_secs(5));
            poll.wait.as_secs()
        };
        assert_eq!((wait(&["a"], "30s"), wait(&["a"], "2s"), wait(&[], "30s")), (5, 2, 30));
    }

    #[test]
    fn refuses_polls_with_impossible_values() {
        let error = |request: SyncRequest| Poll::try_from(request).unwrap_err().to_string();
        assert!(error(SyncRequest::default()).starts_with("proxy: \"\" is not allowed"));
        assert!(error(SyncRequest { proxy: "a b".into(), ..request() }).starts_with("proxy: "));
        assert!(
            error(SyncRequest { services: vec!["a".into(), "é".into()], ..request() }).starts_with("services[1]: ")
        );
        assert!(error(SyncRequest { serves: vec!["a".repeat(254)], ..request() }).starts_with("serves[0]: "));
        assert!(
            error(SyncRequest { services: vec!["a".into(); 1_001], ..request() })
                .starts_with("services: a list of 1001 entries")
        );
        let load = vec![ServiceLoad::default()];
        assert!(error(SyncRequest { load, ..request() }).starts_with("load[0]: "));
        let load = |load: ServiceLoad| SyncRequest { serves: vec!["a".into()], load: vec![load], ..request() };
        let of = |service_rate| load(ServiceLoad { service: "a".into(), service_rate, ..Default::default() });
        for rate in [f64::NAN, f64::INFINITY, -1.0, -1e-9, 1.1e12] {
            assert_eq!(
                error(of(Some(rate))),
                format!("load[0].serviceRate: {rate} is not allowed; allowed: 0 to 1000000000000")
            );
        }
        assert!([None, Some(0.0), Some(-0.0), Some(1e12)].map(of).into_iter().all(|r| Poll::try_from(r).is_ok()));
        let of =
            |in_flight, departed| load(ServiceLoad { service: "a".into(), in_flight, departed, ..Default::default() });
        assert!(error(of(u64::MAX, 0)).starts_with("load[0].inFlight: 18446744073709551615 is not allowed"));
        assert!(error(of(0, MAX_DEPARTED + 1)).starts_with("load[0].departed: "));
        assert!(Poll::try_from(of(MAX_IN_FLIGHT, MAX_DEPARTED)).is_ok());
        let mut many = of(0, 0);
        many.load[0].events.rejected_bid = MAX_DEPARTED + 1;
        assert!(error(many).starts_with("load[0].events.rejectedBid: 9007199254740993 is not allowed"));
        let twice = SyncRequest { load: vec![of(0, 0).load.remove(0), of(0, 0).load.remove(0)], ..of(0, 0) };
        assert_eq!(error(twice), "load[1].service: \"a\" is not allowed; allowed: each service once");
        let foreign = error(SyncRequest { serves: vec!["b".into()], ..of(0, 0) });
        assert_eq!(foreign, "load[0].service: \"a\" is not allowed; allowed: a name that is in serves");
        assert!(error(SyncRequest { version: "0".repeat(MAX_LENGTH + 1), ..request() }).starts_with("version: "));
        let last = |last| SyncRequest { last: Some(last), ..request() };
        assert!(error(last(Last { replica: "a b".into(), ..Last::default() })).starts_with("last.replica: "));
        let late = |answered_ms, reported_ms| Last { answered_ms, reported_ms, ..Last::default() };
        assert!(
            error(last(late(MAX_DEPARTED + 1, None))).starts_with("last.answeredMs: 9007199254740993 is not allowed")
        );
        assert!(error(last(late(0, Some(u64::MAX)))).starts_with("last.reportedMs: "));
        assert!(Poll::try_from(last(late(MAX_DEPARTED, Some(0)))).is_ok());
        assert!(Poll::try_from(SyncRequest { version: "of another program".into(), ..request() }).is_ok());
    }
}
