//! What else a sender is told: what the trailers and the marks of an answer say, and that Envoy
//! does not retry.

use super::{Attempt, Sender};
use crate::endpoints::Endpoint;
use crate::routing::{Event, Routing};
use crate::units::Timestamp;
use crate::units::rng::Rng;

/// One of so many answers of an open server is looked at for marks.
const LOOKS_FOR_MARKS: usize = 8;

impl Sender {
    /// An attempt that the server has answered was an error, as the trailers say.
    pub fn erred(&mut self, attempt: &Attempt, now: Timestamp) {
        self.endpoints.erred(attempt.endpoint, true, now);
    }

    /// Likewise an error of the client.
    pub fn client_erred(&mut self, attempt: &Attempt, now: Timestamp) {
        self.endpoints.client_erred(attempt.endpoint, now);
    }

    /// Whether to look for [marks](crate::wire::headers::MARKS) in the answer to an attempt: always
    /// if the server is shut, since another answer could reopen it, else in one of
    /// [`LOOKS_FOR_MARKS`], because each look takes calls to the host.
    pub fn looks_for_marks(&self, attempt: &Attempt, rng: &mut impl Rng) -> bool {
        self.endpoints.get(attempt.endpoint).is_some_and(Endpoint::is_shut) || rng.below(LOOKS_FOR_MARKS) == 0
    }

    /// The answer carried a mark.
    pub fn marked(&mut self, attempt: &Attempt, now: Timestamp) {
        self.endpoints.leave_alone(attempt.endpoint, now);
    }

    /// A bounce was to be retried, and Envoy did not do it.
    pub fn overflowed(&mut self, now: Timestamp) {
        self.router.learn(&Event::Overflowed(now), &self.endpoints);
    }
}
