//! Fail-open: what the filters do in a VM that starts after too many crashes, see
//! [`bloc_policy::proxy::crashes`]. Requests and responses pass without our headers (otherwise a
//! caller could choose its server). Nothing else is read, decided or counted. The first tick after
//! that puts the plugin configuration in force.

use crate::filter::{Filter, Flow};
use crate::host::{HeaderMap, Host, MetricKind, Stream};
use crate::names::CRASHES_KEY;
use bloc_policy::proxy::crashes::Crashes;
use bloc_policy::units::Timestamp;
use bloc_policy::wire::headers::{BID, ENDPOINTS, LOAD, REJECT};

/// Until when a VM fails open; fixed when it starts.
pub struct FailOpen(Option<Timestamp>);

impl FailOpen {
    /// Checks whether there were too many crashes.
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
    pub fn is_active(&self, host: &impl Host) -> bool {
        self.0.is_some_and(|until| host.now() < until)
    }
}

/// Records and counts a crash of this VM.
pub fn count_crash(host: &impl Host) {
    let now = host.now();
    loop {
        let (value, cas) = host.get(CRASHES_KEY);
        let mut crashes = Crashes::decode(&value.unwrap_or_default());
        crashes.record(now);
        // This ends, because no other thread crashes all the time.
        if host.set(CRASHES_KEY, &crashes.encode(), cas) {
            break;
        }
    }
    if let Some(crashes) = host.define_metric(MetricKind::Counter, "bloc.crashes") {
        host.add_to_metric(crashes, 1);
    }
}

/// A request or an attempt that passes unread.
pub struct Passing<S>(pub S);

impl<S: Stream> Passing<S> {
    fn strip(&self, map: HeaderMap) {
        for name in [ENDPOINTS, BID, LOAD, REJECT] {
            self.0.remove_header(map, name);
        }
    }
}

impl<S: Stream> Filter for Passing<S> {
    fn request_headers(&mut self, _ends: bool) -> Flow {
        self.strip(HeaderMap::Request);
        Flow::Continue
    }

    fn response_headers(&mut self, _ends: bool) {
        self.strip(HeaderMap::Response);
    }
}
