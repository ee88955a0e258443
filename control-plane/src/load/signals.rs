//! The signals of one service, over the servers that this replica counts: the field `load` of `GET
//! /v1/status/services/{name}`, and the `bloc_service_*` metrics.

use serde::{Serialize, Serializer};

/// The signals of one service at one moment. `null` means "not known", which is not 0.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Signals {
    /// Servers that count at this replica.
    pub servers: usize,
    /// How many of them reported a service rate.
    pub servers_with_service_rate: usize,
    /// Requests in flight, waiting ones included, over all servers.
    pub demand_requests: u64,
    /// Sum of the capacities in force, in requests; `null` if a server has no limit.
    pub capacity_requests: Option<u64>,
    /// Requests per second that the servers took in, over about the last report interval.
    pub arrival_rate_per_second: Option<f64>,
    /// Requests per second that the servers finish when all are busy. A server without its own rate
    /// counts as the mean of the others.
    pub service_rate_per_second: Option<f64>,
    /// The spread of the service rates over the servers.
    pub service_rate_per_server: Option<Spread>,
    /// Arrival rate divided by service rate; above 1 while queues grow. Finite.
    pub utilisation_ratio: Option<f64>,
    /// The arrival rate predicted for
    /// [`prediction_horizon_seconds`](Self::prediction_horizon_seconds) ahead, in requests per
    /// second. This replica's part may be below 0 so that the sum over the replicas is right. In
    /// JSON it is at least 0.
    #[serde(serialize_with = "at_least_0")]
    pub predicted_arrival_rate_per_second: Option<f64>,
    /// How far the prediction looks ahead, in seconds.
    pub prediction_horizon_seconds: f64,
}

fn at_least_0<S: Serializer>(rate: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    rate.map(|rate| rate.max(0.0)).serialize(serializer)
}

/// Service rates over the servers that reported one, in requests per second.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Spread {
    /// The rate of the slowest server.
    pub min_per_second: f64,
    /// The mean of these rates.
    pub mean_per_second: f64,
    /// The rate of the fastest server.
    pub max_per_second: f64,
}

impl Spread {
    /// The spread of finite rates; `None` if there are none.
    pub fn of(rates: &[f64]) -> Option<Self> {
        (!rates.is_empty()).then(|| Self {
            min_per_second: rates.iter().copied().fold(f64::INFINITY, f64::min),
            mean_per_second: rates.iter().sum::<f64>() / rates.len() as f64,
            max_per_second: rates.iter().copied().fold(0.0, f64::max),
        })
    }
}
