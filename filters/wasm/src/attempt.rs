//! `bloc.attempt`: the upstream filter, one context per attempt. It alone sees every rejection, and not only the last answer.
//!
//! On failure: open. An attempt of a service that nobody configured is stripped of our headers and otherwise left alone.

use crate::headers::{BID, ENDPOINTS, LOAD, ORCA, REJECT};
use crate::host::{self, Headers};
use crate::outbound::{ATTEMPTS, BOUNCES, Cluster, FAILURES, FORCED, PROBES, REJECTIONS};
use crate::state;
use bloc_policy::bid;
use bloc_policy::endpoints::{Answer, EndpointId, Right};
use bloc_policy::load_report::LoadReport;
use bloc_policy::orca;
use bloc_policy::units::Timestamp;
use proxy_wasm::traits::{Context, HttpContext};
use proxy_wasm::types::Action;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// One attempt.
#[derive(Default)]
pub struct Attempt {
    under_way: Option<UnderWay>,
}

/// An attempt that its server has not finished. Dropped without an answer it has failed; dropped, it is no longer pending.
struct UnderWay {
    cluster: Rc<RefCell<Cluster>>,
    endpoint: EndpointId,
    began: Timestamp,
    bid: Option<Duration>,
    answered: bool,
}

impl UnderWay {
    fn begin() -> Option<Self> {
        let cluster = host::text_property("xds\0cluster_name")?;
        let address = host::text_property("upstream\0address")?;
        let now = host::now();
        state::with(|state| {
            // Envoy's router runs in the same call as the choice, so what is expected here is meant for this attempt, if it is a first one.
            let expected = state.expected.take();
            let cluster = state.cluster(&cluster)?;
            let mut inner = cluster.borrow_mut();
            let endpoint = inner.sender.endpoint_at(&address, now);
            if let Some(expected) = expected.filter(|&expected| Some(expected) != endpoint) {
                inner.sender.missing(expected, now);
            }
            inner.counters.count(ATTEMPTS);
            let endpoint = endpoint?;
            match inner.sender.endpoints_mut().begin(endpoint, now)? {
                Right::Chip => {}
                Right::Probe => inner.counters.count(PROBES),
                Right::Forced => inner.counters.count(FORCED),
            }
            let bids = inner.sender.bids();
            let bid = bids.then(attempt_number).flatten().and_then(|attempt| inner.sender.bid(attempt));
            // Also without a bid: it tells the server that somebody reads its report.
            match bid {
                Some(bid) => bid::encode(bid, &mut state.text),
                None => {
                    state.text.clear();
                    state.text.push_str(bid::ANY);
                }
            }
            host::set_header(Headers::Request, BID, state.text.as_bytes());
            drop(inner);
            Some(Self { cluster, endpoint, began: now, bid, answered: false })
        })
    }

    fn answer(&mut self, answer: Answer) {
        self.answered = true;
        let mut cluster = self.cluster.borrow_mut();
        match answer {
            Answer::Rejected(_) => cluster.counters.count(REJECTIONS),
            Answer::Bounced(_) => cluster.counters.count(BOUNCES),
            Answer::Failed => cluster.counters.count(FAILURES),
            Answer::Served(_) | Answer::Orca(_) | Answer::Silent => {}
        }
        cluster.sender.answer(self.endpoint, answer, self.bid, self.began, host::now());
    }
}

/// The number of this attempt of its request; the first is 0.
fn attempt_number() -> Option<usize> {
    let count = host::property("upstream\0request_attempt_count")?;
    let count = u64::from_le_bytes(count.try_into().ok()?);
    usize::try_from(count.checked_sub(1)?).ok()
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        if !self.answered {
            self.answer(Answer::Failed);
        }
        self.cluster.borrow_mut().sender.endpoints_mut().end(self.endpoint);
    }
}

impl Context for Attempt {}

impl HttpContext for Attempt {
    fn on_http_request_headers(&mut self, _headers: usize, _end_of_stream: bool) -> Action {
        for name in [ENDPOINTS, LOAD, REJECT] {
            host::remove_header(Headers::Request, name);
        }
        self.under_way = UnderWay::begin();
        if self.under_way.is_none() {
            host::remove_header(Headers::Request, BID);
        }
        Action::Continue
    }

    fn on_http_response_headers(&mut self, _headers: usize, _end_of_stream: bool) -> Action {
        let report = host::header(Headers::Response, LOAD);
        if report.is_some() {
            host::remove_header(Headers::Response, LOAD);
        }
        let report = report.as_deref().and_then(LoadReport::decode);
        let rejection = match report {
            // A rejection never carries a chip.
            Some(LoadReport { chip: true, .. }) | None => {
                host::remove_header(Headers::Response, REJECT);
                None
            }
            Some(_) => host::header(Headers::Response, REJECT),
        };
        if let Some(under_way) = &mut self.under_way {
            under_way.answer(match report {
                Some(report) => match rejection.as_deref() {
                    Some(b"bid") => Answer::Bounced(report),
                    Some(_) => Answer::Rejected(report),
                    None => Answer::Served(report),
                },
                None => host::header(Headers::Response, ORCA)
                    .and_then(|value| orca::decode(&value))
                    .map_or(Answer::Silent, Answer::Orca),
            });
        }
        Action::Continue
    }
}
