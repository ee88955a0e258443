//! `x-bloc-why`: tells people why a request was rejected, where a service has `debugHeaders`.
//!
//! A caller with these filters adds the header itself, from the server's load report and its own
//! bid. A server adds it only for callers without the filters. So the caller's parameters decide
//! whether the header is written, and a server's only for callers without the filters. Without the
//! switch nothing here calls the host.

use crate::host::{HeaderMap, Host, Stream};
use crate::request_headers::deadline;
use bloc_policy::endpoints::Endpoint;
use bloc_policy::sender::{Attempt, Sender};
use bloc_policy::server::Server;
use bloc_policy::wire::headers::WHY;
use bloc_policy::wire::load_report::LoadReport;
use bloc_policy::wire::reason::Reason;
use bloc_policy::wire::why::{self, Terms};
use std::time::Duration;

/// What a server adds to a rejection for a caller without the filters; nothing without the switch.
pub fn for_caller_without_filters(
    server: &Server,
    stream: &impl Stream,
    reason: Reason,
    report: &LoadReport,
) -> Option<String> {
    let terms = || Terms { bid: None, deadline: deadline(stream) };
    server.tells_why().then(|| why::rejected(Some(reason), report, terms()))
}

/// A rejected attempt, as its caller knows it.
pub struct Rejected<'a> {
    /// Its sender.
    pub sender: &'a Sender,
    /// The attempt.
    pub attempt: &'a Attempt,
    /// Why; none if this version does not know the server's reason.
    pub reason: Option<Reason>,
    /// The server's load report.
    pub report: &'a LoadReport,
}

impl Rejected<'_> {
    /// Marks the answer, which the client gets if it is the last one. `number` finds the number of
    /// the attempt (the first is 0).
    pub fn mark(&self, host: &impl Host, stream: &impl Stream, number: impl FnOnce() -> Option<usize>) {
        let parameters = self.sender.parameters();
        if !parameters.debug_headers() {
            return;
        }
        // While Envoy shows the response, it does not show the request with the deadline.
        let terms = Terms { bid: self.attempt.bid, deadline: None };
        let text = why::rejected(self.reason, self.report, terms);
        let server = self.sender.endpoints().get(self.attempt.endpoint);
        let server = server.map(Endpoint::address).unwrap_or_default();
        let text = why::met(text, number(), server, host.now().since(self.attempt.began));
        stream.set_header(HeaderMap::Response, WHY, text.as_bytes());
    }
}

/// What a caller adds to a refusal for the SLO; nothing without the switch.
pub fn of_refusal(sender: &Sender, overrun: Duration) -> Option<String> {
    let parameters = sender.parameters();
    let slo = parameters.slo().unwrap_or_default();
    parameters.debug_headers().then(|| why::refused(overrun, slo))
}
