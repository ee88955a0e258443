//! Latencies as operators see them, over the last minute.

use bloc_policy::sync::latency::dispersion::{NUMBERS, indices};
use bloc_policy::sync::latency::{Calls, Growth, Histogram};
use serde::Serialize;

/// How long requests took, in seconds; within 5%.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Quantiles {
    /// Half of them took at most this long.
    pub p50: f64,
    /// 99% of them took at most this long.
    pub p99: f64,
}

impl Quantiles {
    fn of(histogram: Option<&Histogram>) -> Option<Self> {
        let histogram = histogram?;
        Some(Self { p50: histogram.quantile(0.5)?, p99: histogram.quantile(0.99)? })
    }
}

/// How calls ended, as users see it; all but `requests` are shares of the requests.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct CallRates {
    /// Requests per second.
    pub requests: f64,
    /// Without a response, or with an error.
    pub failed: f64,
    /// Rejected in the end, retries included.
    pub exhausted: f64,
    /// The share of all requests rejected in the end because Envoy did not retry them.
    pub overflowed: f64,
    /// Sent more than once.
    pub retried: f64,
    /// Refused because no server would have met the SLO.
    pub refused: f64,
}

impl CallRates {
    fn of(calls: Calls, seconds: f64) -> Option<Self> {
        let Calls { requests, failed, exhausted, overflowed, retried, refused } = calls;
        let share = |count: u64| count as f64 / requests as f64;
        (requests > 0).then(|| Self {
            requests: requests as f64 / seconds,
            failed: share(failed),
            exhausted: share(exhausted),
            overflowed: share(overflowed),
            retried: share(retried),
            refused: share(refused),
        })
    }

    /// The share of requests whose users saw a rejection that no retry healed.
    pub fn rejected(&self) -> f64 {
        self.exhausted + self.refused
    }
}

/// One service.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LatencyView {
    /// From the arrival at a server to its response; `null`: no server has reported any.
    pub response: Option<Quantiles>,
    /// The application's part of it.
    pub execution: Option<Quantiles>,
    /// As its callers see it, retries included; `null`: no caller has reported any.
    pub callers: Option<Quantiles>,
    /// How its calls ended.
    pub calls: Option<CallRates>,
    /// The index of dispersion of the arrivals at its servers over 100 ms, 1 s and 10 s: 1 for a
    /// Poisson process, more for bursts. The mean over servers, of the last minutes.
    pub dispersion: Option<[f64; 3]>,
}

impl LatencyView {
    /// From what servers and callers reported in `seconds`.
    pub fn new(
        servers: &Growth,
        callers: &Growth,
        seconds: f64,
        arrivals: impl Iterator<Item = [f64; NUMBERS]>,
    ) -> Self {
        Self {
            response: Quantiles::of(servers.histograms.first()),
            execution: Quantiles::of(servers.histograms.get(1)),
            callers: Quantiles::of(callers.histograms.first()),
            calls: CallRates::of(Calls::of(&callers.numbers), seconds),
            dispersion: mean_indices(arrivals),
        }
    }
}

/// The mean of the servers' indices, weighted by arrivals.
fn mean_indices(servers: impl Iterator<Item = [f64; NUMBERS]>) -> Option<[f64; 3]> {
    let (mut sums, mut weights) = ([0.0; 3], 0.0);
    for numbers in servers {
        let (Some(of_server), [_, arrivals, ..]) = (indices(numbers), numbers) else { continue };
        sums.iter_mut().zip(of_server).for_each(|(sum, index)| *sum += arrivals * index);
        weights += arrivals;
    }
    (weights > 0.0).then(|| sums.map(|sum| sum / weights))
}

/// An edge of the call graph.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EdgeView {
    /// Who calls.
    pub caller: String,
    /// The service.
    pub service: String,
    /// How the calls ended.
    pub calls: CallRates,
    /// How long they took; `null`: all were refused.
    pub latency: Option<Quantiles>,
}

impl EdgeView {
    /// From what the caller reported in `seconds`; `None` without calls.
    pub fn new(caller: &str, service: &str, growth: &Growth, seconds: f64) -> Option<Self> {
        let calls = CallRates::of(Calls::of(&growth.numbers), seconds)?;
        let latency = Quantiles::of(growth.histograms.first());
        Some(Self { caller: caller.to_owned(), service: service.to_owned(), calls, latency })
    }
}
