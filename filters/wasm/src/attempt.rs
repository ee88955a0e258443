//! `bloc.attempt`: the upstream filter, one context per attempt. It alone sees every rejection, and not only the last answer.
//!
//! On failure: open. An attempt of a service that nobody configured is left alone. What is ours in requests and answers the route configuration takes away, which costs Envoy
//! a tenth of a call from here; only `x-bloc-endpoints` it cannot, because Envoy chooses the server by it after that.

use crate::crash;
use crate::headers::{BID, ENDPOINTS, LOAD, ORCA, REJECT};
use crate::host::{self, Headers};
use crate::outbound::{ATTEMPTS, BOUNCES, Cluster, FAILURES, FORCED, PROBES, REJECTIONS};
use crate::state;
use crate::why::Rejected;
use bloc_policy::endpoints::{Answer, Right};
use bloc_policy::sender;
use bloc_policy::units::Timestamp;
use bloc_policy::wire::bid;
use bloc_policy::wire::load_report::LoadReport;
use bloc_policy::wire::orca;
use bloc_policy::wire::reason::Reason;
use proxy_wasm::traits::{Context, HttpContext};
use proxy_wasm::types::Action;
use std::cell::RefCell;
use std::rc::Rc;

/// One attempt.
#[derive(Default)]
pub struct Attempt {
    under_way: Option<UnderWay>,
}

/// An attempt that its server has not finished. Dropped without an answer it has failed; dropped, it is no longer pending.
struct UnderWay {
    cluster: Rc<RefCell<Cluster>>,
    attempt: sender::Attempt,
    answered: bool,
}

impl UnderWay {
    fn begin() -> Option<Self> {
        // Envoy's router runs in the same call as the choice, so what was chosen there is meant for this attempt, if it is a first one.
        let Some(first) = state::with(|state| state.first.take()) else {
            let cluster = cluster()?;
            return Self::begin_at(cluster, &host::text_property(ADDRESS)?, None, host::now());
        };
        let address = host::text_property(ADDRESS)?;
        let is_there = first.cluster.borrow().sender.endpoints().find(&address) == Some(first.endpoint);
        if is_there {
            return Self::begin_at(first.cluster, &address, Some(0), first.chosen);
        }
        // It has gone elsewhere, since Envoy does not know that server; or no attempt came of that request, and this is a retry of another one.
        let (cluster, now) = (cluster()?, host::now());
        if Rc::ptr_eq(&cluster, &first.cluster) {
            cluster.borrow_mut().sender.missing(first.endpoint, now);
        }
        Self::begin_at(cluster, &address, None, now)
    }

    /// Begins an attempt to the server of this cluster at this address; it is the request's `number`-th, if that is known already.
    fn begin_at(cluster: Rc<RefCell<Cluster>>, address: &str, number: Option<usize>, now: Timestamp) -> Option<Self> {
        let mut inner = cluster.borrow_mut();
        inner.counters.count(ATTEMPTS);
        let number = number.or_else(|| inner.sender.bids().then(attempt_number).flatten());
        if number.is_none_or(|number| number == 0) {
            // Envoy works on one map of headers for all attempts of a request.
            host::remove_header(Headers::Request, ENDPOINTS);
        }
        let attempt = inner.sender.begin(address, number, now)?;
        match attempt.right {
            Right::Chip => {}
            Right::Probe => inner.counters.count(PROBES),
            Right::Forced => inner.counters.count(FORCED),
        }
        // Also without a bid: it tells the server that somebody reads its report.
        state::with(|state| {
            match attempt.bid {
                Some(bid) => bid::encode(bid, &mut state.text),
                None => {
                    state.text.clear();
                    state.text.push_str(bid::ANY);
                }
            }
            host::set_header(Headers::Request, BID, state.text.as_bytes());
        });
        drop(inner);
        Some(Self { cluster, attempt, answered: false })
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
        cluster.sender.answer(&self.attempt, answer, host::now());
    }
}

/// The address of the server that Envoy has chosen for the attempt.
const ADDRESS: &str = "upstream\0address";

/// The cluster that the attempt goes to, if somebody configured its service.
fn cluster() -> Option<Rc<RefCell<Cluster>>> {
    let name = host::text_property("xds\0cluster_name")?;
    state::with(|state| state.cluster(&name))
}

/// The number of this attempt of its request; the first is 0.
fn attempt_number() -> Option<usize> {
    let count = host::property("upstream\0request_attempt_count")?;
    let count = u64::from_le_bytes(count.try_into().ok()?);
    usize::try_from(count.checked_sub(1)?).ok()
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        crash::point("attempt.done");
        if !self.answered {
            self.answer(Answer::Failed);
        }
        self.cluster.borrow_mut().sender.end(&self.attempt);
    }
}

impl Context for Attempt {}

impl HttpContext for Attempt {
    fn on_http_request_headers(&mut self, _headers: usize, _end_of_stream: bool) -> Action {
        crash::request("attempt.request");
        self.under_way = UnderWay::begin();
        Action::Continue
    }

    fn on_http_response_headers(&mut self, _headers: usize, _end_of_stream: bool) -> Action {
        crash::point("attempt.response");
        let report = host::header(Headers::Response, LOAD).as_deref().and_then(LoadReport::decode);
        let rejection = match report {
            // Not by one of ours: an application that says so would have its requests repeated.
            None => {
                host::remove_header(Headers::Response, REJECT);
                None
            }
            // A rejection never carries a chip.
            Some(LoadReport { chip: true, .. }) => None,
            Some(_) => host::header(Headers::Response, REJECT),
        };
        let rejection = rejection.map(|reason| Reason::read(&reason));
        state::with(|state| state.rejected = rejection.is_some());
        if let Some(under_way) = &mut self.under_way {
            under_way.answer(match report {
                Some(report) => match rejection {
                    Some(Some(Reason::Bid)) => Answer::Bounced(report),
                    Some(_) => Answer::Rejected(report),
                    None => Answer::Served(report),
                },
                None => host::header(Headers::Response, ORCA)
                    .and_then(|value| orca::decode(&value))
                    .map_or(Answer::Silent, Answer::Orca),
            });
            if let (Some(report), Some(reason)) = (&report, rejection) {
                let UnderWay { cluster, attempt, .. } = under_way;
                Rejected { cluster: &cluster.borrow(), attempt, reason, report }.mark(attempt_number);
            }
        }
        Action::Continue
    }
}
