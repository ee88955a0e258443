//! The counters of a whole mesh, summed over its sidecars.

use crate::envoy::{SERVICE, counters};
use crate::http::HttpError;
use futures_util::future::try_join_all;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// The admin interfaces of the sidecars. They are all that is needed to read the counters, also
/// from another process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Admins {
    /// Of the frontends.
    pub frontends: Vec<SocketAddr>,
    /// Of the backends.
    pub backends: Vec<SocketAddr>,
}

/// Counters at one moment, or their growth between two.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Requests that the frontends' sidecars received.
    pub requests: u64,
    /// Attempts that the frontends' sidecars made.
    pub attempts: u64,
    /// The filters' own counters, by their names without `wasmcustom.`.
    pub filters: BTreeMap<String, u64>,
}

const FILTER_PREFIX: &str = "wasmcustom.";

impl Admins {
    /// Reads the counters of all sidecars.
    ///
    /// # Errors
    /// A sidecar does not answer.
    pub async fn read(&self) -> Result<Counters, HttpError> {
        let attempts = format!("cluster.{SERVICE}.upstream_rq_total");
        let requests = "http.outbound.downstream_rq_total";
        let filter = format!("^({}|{}|{FILTER_PREFIX})", attempts.replace('.', r"\."), requests.replace('.', r"\."));
        let sidecars = self.frontends.iter().chain(&self.backends);
        let mut sum = Counters::default();
        for (name, value) in try_join_all(sidecars.map(|admin| counters(*admin, &filter))).await?.into_iter().flatten()
        {
            if name == attempts {
                sum.attempts += value;
            } else if name == requests {
                sum.requests += value;
            } else if let Some(name) = name.strip_prefix(FILTER_PREFIX) {
                *sum.filters.entry(name.to_owned()).or_default() += value;
            }
        }
        Ok(sum)
    }
}

impl Counters {
    /// The growth since `earlier`.
    pub fn since(&self, earlier: &Self) -> Self {
        let before = |name| earlier.filters.get(name).copied().unwrap_or_default();
        let grown = self.filters.iter().map(|(name, value)| (name.clone(), value.saturating_sub(before(name))));
        Self {
            requests: self.requests.saturating_sub(earlier.requests),
            attempts: self.attempts.saturating_sub(earlier.attempts),
            filters: grown.collect(),
        }
    }

    /// Requests that were rejected after all retries.
    pub fn shed(&self) -> u64 {
        self.filters.iter().filter(|(name, _)| name.ends_with(".retries_exhausted")).map(|(_, count)| count).sum()
    }

    /// Rejected attempts by reason.
    pub fn rejected(&self) -> BTreeMap<&str, u64> {
        let mut reasons = BTreeMap::new();
        for (name, count) in &self.filters {
            if let Some((_, reason)) = name.rsplit_once(".rejected_") {
                *reasons.entry(reason).or_default() += count;
            }
        }
        reasons
    }

    /// Attempts per request; zero without requests.
    pub fn attempts_per_request(&self) -> f64 {
        if self.requests == 0 { 0.0 } else { self.attempts as f64 / self.requests as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sheds_and_reasons_are_summed_over_services() {
        let names = [
            "a.retries_exhausted",
            "b.retries_exhausted",
            "a.rejected_capacity",
            "b.rejected_capacity",
            "a.rejected_bid",
        ];
        let filters =
            names.into_iter().zip([1, 2, 30, 40, 500]).map(|(name, n)| (format!("bloc.x.{name}"), n)).collect();
        let counters = Counters { filters, ..Counters::default() };
        assert_eq!(counters.shed(), 3);
        assert_eq!(counters.rejected(), BTreeMap::from([("capacity", 70), ("bid", 500)]));
    }

    #[test]
    fn subtracts_earlier_counters_by_name() {
        let counters = |requests, attempts, rejected| Counters {
            requests,
            attempts,
            filters: BTreeMap::from([("bloc.rejected".to_owned(), rejected)]),
        };
        let mut later = counters(30, 50, 9);
        later.filters.insert("bloc.new".to_owned(), 4);
        let growth = later.since(&counters(10, 10, 2));
        assert_eq!((growth.requests, growth.attempts, growth.attempts_per_request()), (20, 40, 2.0));
        assert_eq!(growth.filters, BTreeMap::from([("bloc.new".to_owned(), 4), ("bloc.rejected".to_owned(), 7)]));
        assert_eq!(Counters::default().attempts_per_request(), 0.0);
    }
}
