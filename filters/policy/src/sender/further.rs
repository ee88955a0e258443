//! What else a sender is told: what the trailers and the marks of an answer say, and that Envoy
//! does not retry.

use super::{Attempt, Sender};
use crate::endpoints::Endpoint;
use crate::rng::Rng;
use crate::units::Timestamp;
use std::time::Duration;

/// One of so many answers of an open server is looked at for marks.
const LOOKS_FOR_MARKS: usize = 8;

/// For so many requests, and at most for so long, a sender does without bids once Envoy did not
/// retry a bounce.
const WITHOUT_BIDS: u32 = 1_000;
const WITHOUT_BIDS_FOR: Duration = Duration::from_secs(600);

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

    /// A bounce was to be retried, and Envoy did not do it, because its circuit breaker allows
    /// too few retries for bids. So at most one in [`WITHOUT_BIDS`] requests meets that.
    pub fn overflowed(&mut self, now: Timestamp) {
        self.without_bids = WITHOUT_BIDS;
        self.overflowed = now;
    }

    /// A request comes: one fewer is to come without bids.
    pub(super) fn count_down_to_bids(&mut self, now: Timestamp) {
        let is_over = now.since(self.overflowed) >= WITHOUT_BIDS_FOR;
        self.without_bids = if is_over { 0 } else { self.without_bids.saturating_sub(1) };
    }
}
