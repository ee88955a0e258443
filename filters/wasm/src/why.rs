//! `x-bloc-why`: tells people why a request was rejected, where a service has `debugHeaders`.
//!
//! A caller that has these filters says it itself, from the server's report and its own bid, and a server says it only to those that have none: so it is seen where the
//! switch is on in the proxy that would have to take it away. Without the switch nothing here calls the host.

use crate::headers::WHY;
use crate::host::{self, Headers};
use crate::inbound::deadline;
use crate::outbound::Cluster;
use bloc_policy::endpoints::Endpoint;
use bloc_policy::sender::{Attempt, Sender};
use bloc_policy::server::Server;
use bloc_policy::wire::load_report::LoadReport;
use bloc_policy::wire::reason::Reason;
use bloc_policy::wire::why::{self, Terms};
use std::time::Duration;

/// What a server adds to a rejection for a caller that does not speak to it; nothing without the switch.
pub fn for_stranger(server: &Server, why: Reason, report: &LoadReport) -> Option<String> {
    let terms = || Terms { bid: None, deadline: deadline() };
    server.tells_why().then(|| why::rejected(Some(why), report, terms()))
}

/// A rejected attempt, as its caller knows it.
pub struct Rejected<'a> {
    /// Of whom it was.
    pub cluster: &'a Cluster,
    /// Whom it met, when it began, and what it bid.
    pub attempt: &'a Attempt,
    /// Why the server rejected it, if this version knows the reason.
    pub reason: Option<Reason>,
    /// What the server said of itself.
    pub report: &'a LoadReport,
}

impl Rejected<'_> {
    /// Marks the answer, which the client gets if it is the last one; `number` finds out the attempt's number.
    pub fn mark(&self, number: impl FnOnce() -> Option<usize>) {
        let sender = &self.cluster.sender;
        if !sender.parameters().debug_headers() {
            return;
        }
        // Envoy does not show the request, and with it the deadline, while it shows the response.
        let terms = Terms { bid: self.attempt.bid, deadline: None };
        let text = why::rejected(self.reason, self.report, terms);
        let server = sender.endpoints().get(self.attempt.endpoint).map(Endpoint::address).unwrap_or_default();
        let text = why::met(text, number(), server, host::now().since(self.attempt.began));
        host::set_header(Headers::Response, WHY, text.as_bytes());
    }
}

/// What a caller adds to a refusal for the SLO; nothing without the switch.
pub fn of_refusal(sender: &Sender, overrun: Duration) -> Option<String> {
    let parameters = sender.parameters();
    let slo = || parameters.slo().unwrap_or_default();
    parameters.debug_headers().then(|| why::refused(overrun, slo(), parameters.slo_grace()))
}
