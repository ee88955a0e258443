//! Computes the cost of a bounce from the blocks.

use bloc_figures::stats::quantile;
use serde::Serialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// Requests, and the CPU time of Envoys meanwhile.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Samples {
    /// Response times by the number of bounces.
    pub times: BTreeMap<u32, Vec<Duration>>,
    /// CPU time of the sender's Envoy.
    pub sender_cpu: Duration,
    /// CPU time of all servers' Envoys together.
    pub server_cpu: Duration,
    /// Connections that the sender opened to servers.
    pub connections: u64,
}

impl Samples {
    /// Adds another block.
    pub fn add(&mut self, other: Self) {
        for (bounces, times) in other.times {
            self.times.entry(bounces).or_default().extend(times);
        }
        self.sender_cpu += other.sender_cpu;
        self.server_cpu += other.server_cpu;
        self.connections += other.connections;
    }

    fn requests(&self) -> f64 {
        self.times.values().map(Vec::len).sum::<usize>() as f64
    }

    fn bounces(&self) -> f64 {
        self.times.iter().map(|(bounces, times)| f64::from(*bounces) * times.len() as f64).sum()
    }
}

/// All blocks, by kind.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Bounces {
    /// Blocks in which three servers of four are busy.
    pub busy: Samples,
    /// Blocks in which no server is busy.
    pub idle: Samples,
}

/// Requests with the same number of bounces.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Class {
    /// Bounces per request.
    pub bounces: u32,
    /// How many requests.
    pub requests: usize,
    /// Median response time in microseconds.
    pub p50_us: f64,
    /// 99th percentile in microseconds.
    pub p99_us: f64,
}

/// The cost of a bounce.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// Requests by their number of bounces, while three servers of four are busy.
    pub classes: Vec<Class>,
    /// What the first bounce adds to the median, in microseconds.
    pub first_p50_us: f64,
    /// What the first bounce adds to the 99th percentile, in microseconds.
    pub first_p99_us: f64,
    /// What each of three bounces adds to the median on average, in microseconds. The back-off
    /// before the second and third retry is longer.
    pub third_p50_us: Option<f64>,
    /// CPU time of the sender's Envoy per bounce, in microseconds.
    pub sender_cpu_us: f64,
    /// CPU time of the server's Envoy per bounce, in microseconds.
    pub server_cpu_us: f64,
    /// Connections that the sender opened per bounce.
    pub connections: f64,
    /// CPU time of the sender's Envoy for a request without a bounce, in microseconds.
    pub request_sender_cpu_us: f64,
    /// CPU time of the server's Envoy for a request without a bounce, in microseconds.
    pub request_server_cpu_us: f64,
}

impl Figures {
    /// None if there was no request with a bounce, none without, or no block without busy servers.
    pub fn new(bounces: &Bounces) -> Option<Self> {
        let classes: Vec<Class> =
            bounces.busy.times.iter().filter_map(|(&bounces, times)| Class::new(bounces, times)).collect();
        let class = |bounces| classes.iter().find(|class| class.bounces == bounces);
        let (none, first, third) = (class(0)?, class(1)?, class(3));
        let (busy, idle) = (&bounces.busy, &bounces.idle);
        let (per_busy, per_idle) = (1e6 / busy.requests(), 1e6 / idle.requests());
        // Some requests are bounced even without busy servers; these count too.
        let more = busy.bounces() / busy.requests() - idle.bounces() / idle.requests();
        let cpu = |of: fn(&Samples) -> Duration| {
            let [busy, idle] = [of(busy).as_secs_f64() * per_busy, of(idle).as_secs_f64() * per_idle];
            ((busy - idle) / more, idle)
        };
        let ((sender_cpu_us, request_sender_cpu_us), (server_cpu_us, request_server_cpu_us)) =
            (cpu(|samples| samples.sender_cpu), cpu(|samples| samples.server_cpu));
        Some(Self {
            first_p50_us: first.p50_us - none.p50_us,
            first_p99_us: first.p99_us - none.p99_us,
            third_p50_us: third.map(|third| (third.p50_us - none.p50_us) / 3.0),
            sender_cpu_us,
            server_cpu_us,
            connections: (busy.connections as f64 / busy.requests() - idle.connections as f64 / idle.requests()) / more,
            request_sender_cpu_us,
            request_server_cpu_us,
            classes,
        })
        .filter(|figures| figures.sender_cpu_us.is_finite())
    }
}

impl Class {
    fn new(bounces: u32, times: &[Duration]) -> Option<Self> {
        let mut sorted = times.to_vec();
        sorted.sort_unstable();
        let at = |share| quantile(&sorted, share).map(|time| time.as_secs_f64() * 1e6);
        Some(Self { bounces, requests: sorted.len(), p50_us: at(0.5)?, p99_us: at(0.99)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(times: &[(u32, &[u64])], sender_ms: u64, server_ms: u64, connections: u64) -> Samples {
        let micros = |times: &&[u64]| times.iter().copied().map(Duration::from_micros).collect();
        Samples {
            times: times.iter().map(|(bounces, times)| (*bounces, micros(times))).collect(),
            sender_cpu: Duration::from_millis(sender_ms),
            server_cpu: Duration::from_millis(server_ms),
            connections,
        }
    }

    #[test]
    fn a_bounce_costs_the_difference_to_an_unbounced_request() {
        // 8 requests with 8 bounces, then 4 requests without: 1 ms of the sender and 0.5 ms of the
        // servers per request.
        let mut bounces = Bounces {
            busy: samples(&[(0, &[900, 1_000, 1_100]), (1, &[1_400, 1_500, 2_600])], 10, 5, 3),
            idle: samples(&[(0, &[1_000, 1_000])], 2, 1, 1),
        };
        bounces.busy.add(samples(&[(3, &[3_400]), (2, &[2_000])], 14, 3, 3));
        bounces.idle.add(samples(&[(0, &[1_000, 1_000])], 2, 1, 0));
        let figures = Figures::new(&bounces).unwrap();
        assert_eq!(figures.classes.iter().map(|class| class.requests).collect::<Vec<_>>(), [3, 3, 1, 1]);
        assert_eq!((figures.first_p50_us, figures.first_p99_us), (500.0, 1_500.0));
        assert_eq!(figures.third_p50_us, Some(800.0));
        let near = |a: f64, b: f64| (a - b).abs() < 1e-6;
        assert!(near(figures.sender_cpu_us, 2_000.0) && near(figures.server_cpu_us, 500.0), "{figures:?}");
        assert!(near(figures.connections, 0.5), "6 for 8 requests, where 1 for 4 is usual");
        assert!(near(figures.request_sender_cpu_us, 1_000.0) && near(figures.request_server_cpu_us, 500.0));
    }

    #[test]
    fn without_something_to_compare_there_are_no_figures() {
        let times: &[(u32, &[u64])] = &[(0, &[1]), (1, &[2])];
        let bounces = |busy, idle| Bounces { busy: samples(busy, 1, 1, 0), idle: samples(idle, 1, 1, 0) };
        assert!(Figures::new(&bounces(times, &times[..1])).is_some());
        assert_eq!(Figures::new(&bounces(&times[..1], &times[..1])), None);
        assert_eq!(Figures::new(&bounces(&times[1..], &times[..1])), None);
        assert_eq!(Figures::new(&bounces(times, &[])), None);
    }
}
