//! What a good operator sets on a service's cluster and route in stock Envoy.
//!
//! It is the baseline to beat: what a user can have without any filter. Istio's equivalents are a
//! DestinationRule (`connectionPool`, `outlierDetection`) and a VirtualService (`retries`).

use super::bootstrap::route_configuration;
use crate::quantity::{NotAllowed, duration, number};
use serde_json::{Value, json};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Circuit breakers, outlier detection and retries of an operator who knows the service: how many
/// requests a sender may have in flight, and how long an attempt takes at most when all is well.
///
/// | | value | why |
/// |---|---|---|
/// | `max_requests` | [`Self::requests`] | so that the queues of all senders together take no longer than clients wait |
/// | `retry_budget` | 20% of the requests in flight, at least 3 | retries must not make an outage worse |
/// | `consecutive_5xx` | 5 in a row | Istio's default |
/// | `interval` | 1 s | Istio's default of 10 s leaves a dead server in for too long |
/// | `base_ejection_time`, `max_ejection_percent` | 5 s, 50% | a server comes back soon; half of them stay |
/// | `retry_on` | `5xx` and Istio's | the requests are GETs, which can be repeated |
/// | `per_try_timeout` | [`Self::attempt`] | without it a server that hangs goes unnoticed |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Guard {
    /// Requests that one sender may have in flight to the service, over all its servers.
    pub requests: u32,
    /// How long an attempt may take before it counts as failed and is retried on another server.
    pub attempt: Duration,
}

/// `REQUESTS:ATTEMPT`, such as `10:1500ms`.
impl fmt::Display for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}ms", self.requests, self.attempt.as_millis())
    }
}

impl FromStr for Guard {
    type Err = NotAllowed;

    fn from_str(text: &str) -> Result<Self, NotAllowed> {
        let (requests, attempt) = text.split_once(':').unwrap_or((text, ""));
        let form = || {
            let parts = "REQUESTS:ATTEMPT with 1 to 10000 requests and 1ms to 1h for an attempt";
            NotAllowed(format!("{parts}, such as 10:1500ms"))
        };
        let (least, most) = (Duration::from_millis(1), Duration::from_secs(3600));
        Ok(Self {
            requests: number(requests, 1, 10_000).map_err(|_| form())?,
            attempt: duration(attempt, least, most).map_err(|_| form())?,
        })
    }
}

impl Guard {
    /// Sets it on the cluster `name` of a sender's bootstrap, and on its route.
    pub fn attach(&self, bootstrap: &mut Value, name: &str) {
        let clusters = bootstrap["static_resources"]["clusters"].as_array_mut();
        for cluster in clusters.into_iter().flatten().filter(|cluster| cluster["name"] == name) {
            cluster["circuit_breakers"] = json!({"thresholds": [{
                "max_requests": self.requests,
                "retry_budget": {"budget_percent": {"value": 20.0}, "min_retry_concurrency": 3},
            }]});
            cluster["outlier_detection"] = json!({
                "consecutive_5xx": 5,
                "interval": "1s",
                "base_ejection_time": "5s",
                "max_ejection_percent": 50,
            });
        }
        let route = &mut route_configuration(bootstrap)["virtual_hosts"][0]["routes"][0]["route"];
        let retries = &mut route["retry_policy"];
        let istio = retries["retry_on"].as_str().unwrap_or_default().to_owned();
        retries["retry_on"] = json!(format!("5xx,{istio}"));
        retries["per_try_timeout"] = json!(format!("{:.3}s", self.attempt.as_secs_f64()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::envoy::{Balancing, Outbound, sidecar_outbound};

    #[test]
    fn parses_what_it_prints_and_refuses_invalid_input() {
        let guard = Guard { requests: 10, attempt: Duration::from_millis(1_500) };
        assert_eq!(guard.to_string(), "10:1500ms");
        assert_eq!("10:1500ms".parse(), Ok(guard));
        for text in ["", "10", "0:1s", "10:", "10:0ms", "10:2h", "x:1s"] {
            let refusal = text.parse::<Guard>().unwrap_err().to_string();
            assert!(refusal.contains("REQUESTS:ATTEMPT"), "{text}: {refusal}");
        }
    }

    #[test]
    fn sets_circuit_breakers_outlier_detection_and_retries() {
        let endpoints = ["127.0.0.1:1".parse().unwrap()];
        let balancing = Balancing::LeastRequestOfTwo;
        let outbound = Outbound { cluster: "b", endpoints: &endpoints, balancing, plugin: None };
        let mut bootstrap = sidecar_outbound(&outbound);
        Guard { requests: 7, attempt: Duration::from_millis(250) }.attach(&mut bootstrap, "b");
        let cluster = &bootstrap["static_resources"]["clusters"][0];
        assert_eq!(cluster["circuit_breakers"]["thresholds"][0]["max_requests"], 7);
        assert_eq!(cluster["outlier_detection"]["consecutive_5xx"], 5);
        let route = &route_configuration(&mut bootstrap)["virtual_hosts"][0]["routes"][0]["route"];
        let retries = &route["retry_policy"];
        assert_eq!(retries["per_try_timeout"], "0.250s");
        assert!(retries["retry_on"].as_str().unwrap().starts_with("5xx,connect-failure,"));
        assert_eq!(retries["num_retries"], 2, "Istio's");
    }
}
