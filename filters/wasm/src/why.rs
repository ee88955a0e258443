//! `x-bloc-why`: tells people why a request was rejected, where a service has `debugHeaders`.
//!
//! A caller that has these filters says it itself, from the server's report and its own bid, and a server says it only to those that have none: so it is seen where the
//! switch is on in the proxy that would have to take it away. Without the switch nothing here calls the host.

use crate::headers::WHY;
use crate::host::{self, Headers};
use crate::inbound::deadline;
use crate::outbound::Cluster;
use bloc_policy::endpoints::{Endpoint, EndpointId};
use bloc_policy::load_report::LoadReport;
use bloc_policy::sender::Sender;
use bloc_policy::server::{Rejection, Server};
use bloc_policy::units::Timestamp;
use bloc_policy::why::{self, Terms};
use std::time::Duration;

/// What a server adds to a rejection for a caller that does not speak to it; nothing without the switch.
pub fn for_stranger(server: &Server, why: Rejection, report: &LoadReport) -> Option<String> {
    let terms = || Terms { bid: None, deadline: deadline() };
    server.tells_why().then(|| why::rejected(Some(why), report, terms()))
}

/// A rejected attempt, as its caller knows it.
pub struct Rejected<'a> {
    /// Of whom it was.
    pub cluster: &'a Cluster,
    /// Whom it met.
    pub endpoint: EndpointId,
    /// When it began.
    pub began: Timestamp,
    /// What it bid.
    pub bid: Option<Duration>,
    /// What the server said.
    pub reason: &'a [u8],
    /// What the server said of itself.
    pub report: &'a LoadReport,
}

impl Rejected<'_> {
    /// Marks the answer, which the client gets if it is the last one; `attempt` finds out the attempt's number.
    pub fn mark(&self, attempt: impl FnOnce() -> Option<usize>) {
        let sender = &self.cluster.sender;
        if !sender.parameters().debug_headers() {
            return;
        }
        // Envoy does not show the request, and with it the deadline, while it shows the response.
        let terms = Terms { bid: self.bid, deadline: None };
        let text = why::rejected(Rejection::read(self.reason), self.report, terms);
        let server = sender.endpoints().get(self.endpoint).map(Endpoint::address).unwrap_or_default();
        let text = why::met(text, attempt(), server, host::now().since(self.began));
        host::set_header(Headers::Response, WHY, text.as_bytes());
    }
}

/// What a caller adds to a refusal for the SLO; nothing without the switch.
pub fn of_refusal(sender: &Sender, overrun: Duration) -> Option<String> {
    let parameters = sender.parameters();
    parameters.debug_headers().then(|| why::refused(overrun, parameters))
}
