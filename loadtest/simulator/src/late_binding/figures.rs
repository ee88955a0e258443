//! What a simulation gives, and what it costs.

use crate::outcome::Outcome;
use crate::policies::PolicyKind::{self, BestOf};
use crate::scenario::Scenario;

/// What one simulation gives. Times are in mean service times at speed 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// Median response time.
    pub p50: f64,
    /// 99th percentile of the response time.
    pub p99: f64,
    /// Mean response time.
    pub mean: f64,
    /// Attempts for each request.
    pub attempts: f64,
    /// Reservations, questions and looks for each request.
    pub calls: f64,
    /// Grants for each request that came too late.
    pub refused: f64,
    /// Places for each request that were kept for nobody.
    pub expired: f64,
    /// The share of the requests that no application answered well.
    pub lost: f64,
}

impl Figures {
    /// The figures of an outcome; none if nothing was answered.
    pub fn of(scenario: &Scenario, outcome: &Outcome) -> Option<Self> {
        let means = |millis: f64| millis / 1e3 / scenario.service_time.mean().as_secs_f64();
        let looks = if scenario.policy == BestOf { scenario.reserve.servers.min(scenario.servers) } else { 0 };
        Some(Self {
            p50: means(outcome.p50_ms?),
            p99: means(outcome.p99_ms?),
            mean: means(outcome.mean_ms?),
            attempts: outcome.attempts_per_request,
            calls: outcome.reservations_per_request + f64::from(looks),
            refused: outcome.refused_grants_per_request,
            expired: outcome.expired_grants_per_request,
            lost: (outcome.shed + outcome.errors) as f64 / outcome.requests as f64,
        })
    }
}

/// CPU time of caller and server together, in microseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// A request that is served at its first attempt.
    pub request: f64,
    /// An attempt that is bounced.
    pub bounce: f64,
    /// A call that the server holds and answers: a reservation or a question.
    pub call: f64,
}

impl Costs {
    /// CPU time for each request, as a multiple of that of a request without any of it. None: the
    /// policy sees everything, which nobody can buy.
    pub fn of(&self, policy: PolicyKind, figures: &Figures) -> Option<f64> {
        use PolicyKind::{Central, Jsq, ShortestResponse};
        let more = (figures.attempts - 1.0).max(0.0) * self.bounce + figures.calls * self.call;
        (!matches!(policy, Central | Jsq | ShortestResponse)).then_some((self.request + more) / self.request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_costs_its_bounces_and_calls() {
        let figures =
            Figures { p50: 1.0, p99: 1.0, mean: 1.0, attempts: 1.5, calls: 3.0, refused: 0.0, expired: 0.0, lost: 0.0 };
        let costs = Costs { request: 100.0, bounce: 40.0, call: 60.0 };
        assert_eq!(costs.of(PolicyKind::Reserve, &figures), Some(3.0));
        assert_eq!(costs.of(PolicyKind::Jsq, &figures), None);
    }
}
