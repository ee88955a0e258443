//! `bloc.outbound`: chooses the servers of a request, in order, and asks Envoy's router to try the next one after a rejection.
//!
//! On failure: open. A service that nobody configured, or one without a known server, goes on without a list, and Envoy's fallback policy places it.

use crate::crash;
use crate::headers::{ENDPOINTS, MAX_RETRIES, ORCA, REJECT, RETRIABLE_HEADER_NAMES, RETRY_ON, WHY};
use crate::host::{self, Headers};
use crate::metrics::Counters;
use crate::state::{self, First, State};
use crate::why;
use bloc_policy::config::ServiceParameters;
use bloc_policy::endpoints::EndpointId;
use bloc_policy::sender::Sender;
use bloc_policy::units::Timestamp;
use proxy_wasm::traits::{Context, HttpContext};
use proxy_wasm::types::Action;
use std::cell::RefCell;
use std::fmt::Write;
use std::rc::Rc;

const SERVICE_UNAVAILABLE: u32 = 503;
const UNAVAILABLE: i32 = 14;

/// What is safe to send again: a rejection came before the application saw the request, the others before a server got it at all.
const SAFE_RETRIES: &str = "retriable-headers,connect-failure,refused-stream";
/// What the retry budget always leaves.
const FREE_RETRIES: &str = "retriable-headers";

/// Requests that were given a list or not.
pub const REQUESTS: usize = 0;
/// Attempts, retries included.
pub const ATTEMPTS: usize = 1;
/// Attempts to servers without a chip, their interval having passed.
pub const PROBES: usize = 2;
/// Attempts to servers without a chip, because nobody qualified.
pub const FORCED: usize = 3;
/// Attempts that the server rejected.
pub const REJECTIONS: usize = 4;
/// Attempts without an answer.
pub const FAILURES: usize = 5;
/// Requests whose last attempt was rejected too.
pub const EXHAUSTED: usize = 6;
/// Requests without a list, placed by Envoy's fallback policy.
pub const FALLBACKS: usize = 7;
/// Requests refused because no server would have met the SLO.
pub const REFUSED_SLO: usize = 8;
/// Attempts that the server bounced because it would take longer than their bid.
pub const BOUNCES: usize = 9;
const COUNTERS: [&str; 10] = [
    "requests",
    "attempts",
    "probes",
    "forced",
    "rejections",
    "failures",
    "retries_exhausted",
    "fallbacks",
    "refused_slo",
    "bounces",
];

/// A cluster that requests go to, as this thread sees it.
pub struct Cluster {
    /// What is decided about it.
    pub sender: Sender,
    /// Events to be counted.
    pub counters: Counters<10>,
}

impl Cluster {
    /// A cluster of this service with these parameters.
    pub fn new(service: &str, parameters: ServiceParameters, now: Timestamp) -> Self {
        Self { sender: Sender::new(parameters, now), counters: Counters::define("outbound", service, COUNTERS) }
    }

    /// Chooses the servers of a request and writes the list's header into the state's text; the first of them, if there is any.
    fn choose(&mut self, state: &mut State, now: Timestamp) -> Option<EndpointId> {
        self.counters.count(REQUESTS);
        let first = self.sender.choose(now, &mut state.rng).first().copied();
        state.text.clear();
        for address in self.sender.chosen() {
            if !state.text.is_empty() {
                state.text.push(',');
            }
            state.text.push_str(address);
        }
        if first.is_none() {
            self.counters.count(FALLBACKS);
        }
        first
    }
}

/// One request on its way out.
#[derive(Default)]
pub struct OutboundRequest {
    cluster: Option<Rc<RefCell<Cluster>>>,
}

impl Context for OutboundRequest {}

impl HttpContext for OutboundRequest {
    fn on_http_request_headers(&mut self, _headers: usize, _end_of_stream: bool) -> Action {
        crash::request("outbound.request");
        let cluster = host::text_property("xds\0cluster_name");
        let overrun = state::with(|state| {
            state.first = None;
            self.cluster = cluster.and_then(|name| state.cluster(&name));
            let Some(shared) = &self.cluster else {
                host::remove_header(Headers::Request, ENDPOINTS);
                return None;
            };
            let now = host::now();
            state.hand_over(now);
            let mut cluster = shared.borrow_mut();
            let endpoint = cluster.choose(state, now);
            if let Some(overrun) = cluster.sender.overrun() {
                cluster.counters.count(REFUSED_SLO);
                return Some((overrun, why::of_refusal(&cluster.sender, overrun)));
            }
            match endpoint {
                Some(_) => host::set_header(Headers::Request, ENDPOINTS, state.text.as_bytes()),
                None => host::remove_header(Headers::Request, ENDPOINTS),
            }
            state.first = endpoint.map(|endpoint| First { cluster: Rc::clone(shared), endpoint, chosen: now });
            let retries = cluster.sender.retries();
            if cluster.sender.retries_failures() {
                ask_for_retries(retries, &mut state.text);
            } else {
                ask_for_free_retries(retries, &mut state.text);
            }
            None
        });
        let Some((overrun, explained)) = overrun else { return Action::Continue };
        // Whoever comes back when the queues have shrunk by as much may be served in time.
        let seconds = (overrun.as_secs() + 1).to_string();
        let headers: Vec<_> = [("retry-after", seconds.as_str())]
            .into_iter()
            .chain(explained.as_deref().map(|text| (WHY, text)))
            .collect();
        host::respond(SERVICE_UNAVAILABLE, UNAVAILABLE, "bloc_slo", &headers);
        Action::Pause
    }

    fn on_http_response_headers(&mut self, _headers: usize, _end_of_stream: bool) -> Action {
        crash::point("outbound.response");
        let Some(cluster) = &self.cluster else {
            // Nobody configured the service, but what answers for it may lie all the same.
            host::remove_header(Headers::Response, REJECT);
            return Action::Continue;
        };
        // Envoy's router passes the last answer on in the very call in which `attempt` has seen it. Nearly all are none of ours to look at.
        let rejected = state::with(|state| std::mem::take(&mut state.rejected));
        if rejected && host::header(Headers::Response, REJECT).is_some() {
            host::remove_header(Headers::Response, REJECT);
            cluster.borrow_mut().counters.count(EXHAUSTED);
        }
        // With `orca` it is the sidecars' own; without, an application's.
        if cluster.borrow().sender.parameters().orca() {
            host::remove_header(Headers::Response, ORCA);
        }
        Action::Continue
    }
}

/// Asks Envoy's router for retries after a rejection, beside those that the application asked for.
fn ask_for_retries(retries: u32, text: &mut String) {
    text.clear();
    let own = host::header(Headers::Request, RETRY_ON).and_then(|value| String::from_utf8(value).ok());
    let mut most = retries;
    match own.as_deref() {
        Some(own) => {
            let _ = write!(text, "{own},{SAFE_RETRIES}");
            host::set_header(Headers::Request, RETRY_ON, text.as_bytes());
            let asked = host::header(Headers::Request, MAX_RETRIES)
                .and_then(|value| std::str::from_utf8(&value).ok()?.parse().ok());
            most = most.max(asked.unwrap_or(1));
        }
        None => host::set_header(Headers::Request, RETRY_ON, SAFE_RETRIES.as_bytes()),
    }
    ask_for(most, text);
}

/// The retry budget is used up: asks for retries after a rejection only.
fn ask_for_free_retries(retries: u32, text: &mut String) {
    host::set_header(Headers::Request, RETRY_ON, FREE_RETRIES.as_bytes());
    ask_for(retries, text);
}

fn ask_for(retries: u32, text: &mut String) {
    host::set_header(Headers::Request, RETRIABLE_HEADER_NAMES, REJECT.as_bytes());
    text.clear();
    let _ = write!(text, "{retries}");
    host::set_header(Headers::Request, MAX_RETRIES, text.as_bytes());
}
