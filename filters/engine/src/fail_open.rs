//! Failing open: what the filters do in a VM that was made after too many crashes, see
//! [`bloc_policy::crashes`]. Requests and answers pass, stripped of our headers (a caller could
//! otherwise choose its server), and nothing else is read, decided or counted. On the first tick
//! after that the plugin configuration is put in force.

use crate::filter::{Filter, Flow};
use crate::host::{Host, Map, MetricKind, Stream};
use crate::names::CRASHES_KEY;
use bloc_policy::crashes::Crashes;
use bloc_policy::units::Timestamp;
use bloc_policy::wire::headers::{BID, ENDPOINTS, LOAD, REJECT};

/// Until when a VM fails open, as it was when it was made.
pub struct FailOpen(Option<Timestamp>);

impl FailOpen {
    /// Looks whether there were too many crashes.
    pub fn look(host: &impl Host) -> Self {
        let crashes = host.get(CRASHES_KEY).0.map(|value| Crashes::decode(&value)).unwrap_or_default();
        let now = host.now();
        let until = crashes.fail_open_until(now);
        if let Some(until) = until {
            log::error!("too many crashes: the filters fail open for {} s", until.since(now).as_secs());
        }
        Self(until)
    }

    /// Whether this VM fails open at present.
    pub fn holds(&self, host: &impl Host) -> bool {
        self.0.is_some_and(|until| host.now() < until)
    }
}

/// Notes and counts that this VM crashes.
pub fn count_crash(host: &impl Host) {
    let now = host.now();
    loop {
        let (value, cas) = host.get(CRASHES_KEY);
        let mut crashes = Crashes::decode(&value.unwrap_or_default());
        crashes.record(now);
        // Nobody else crashes all the time, so this ends.
        if host.set(CRASHES_KEY, &crashes.encode(), cas) {
            break;
        }
    }
    if let Some(crashes) = host.define_metric(MetricKind::Counter, "bloc.crashes") {
        host.add_to_metric(crashes, 1);
    }
}

/// A request or an attempt that passes.
pub struct Passing<S>(pub S);

impl<S: Stream> Passing<S> {
    fn strip(&self, map: Map) {
        for name in [ENDPOINTS, BID, LOAD, REJECT] {
            self.0.remove_header(map, name);
        }
    }
}

impl<S: Stream> Filter for Passing<S> {
    fn request_headers(&mut self, _ends: bool) -> Flow {
        self.strip(Map::Request);
        Flow::Continue
    }

    fn response_headers(&mut self, _headers: usize, _ends: bool) {
        self.strip(Map::Response);
    }
}
