//! The servers of one service as they reported, and what follows for the service.

use super::arrivals::Arrivals;
use super::events::{EventRates, Events};
use super::holt::Holt;
use super::interval::ReportInterval;
use super::signals::{Signals, Spread};
use bloc_policy::sync::ServiceLoad;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// A server that was not heard of for so many report intervals is dropped: two lost reports are an accident, three are not.
pub const KEEP_INTERVALS: u32 = 3;
/// How far ahead the arrival rate is predicted: about what an autoscaler takes to look (15 s) and a server to start.
pub const HORIZON: Duration = Duration::from_secs(30);
/// The least service rate that is divided by, in requests per second: about one request in twelve days.
const LEAST_SERVICE_RATE: f64 = 1e-6;

/// The servers of one service.
#[derive(Debug)]
pub struct Service {
    servers: BTreeMap<String, Server>,
    /// When the first of them was heard of.
    since: Instant,
    /// Whether the sum of the arrival rates is one of all servers.
    complete: bool,
    /// When the rest was last looked after.
    looked: Instant,
    trend: Option<Holt>,
}

#[derive(Debug)]
struct Server {
    seen: Instant,
    in_flight: u64,
    capacity: Option<u32>,
    service_rate: Option<f64>,
    arrivals: Arrivals,
    events: Events,
}

/// What one server reported last.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerLoad {
    /// The proxy in front of it.
    pub proxy: String,
    /// When it was heard of.
    pub seen: Instant,
    /// Requests in flight, waiting ones included.
    pub in_flight: u64,
    /// The capacity in force, in requests; `None`: no limit.
    pub capacity: Option<u32>,
    /// What it finishes when it is busy, in requests per second, if it said so.
    pub service_rate: Option<f64>,
    /// What happened at it, if that has been measured yet.
    pub events: Option<EventRates>,
}

impl Server {
    fn is_fresh(&self, interval: ReportInterval, now: Instant) -> bool {
        now.saturating_duration_since(self.seen) < interval.get() * KEEP_INTERVALS
    }
}

impl Service {
    /// Without servers.
    pub fn new(now: Instant) -> Self {
        Self { servers: BTreeMap::new(), since: now, complete: false, looked: now, trend: None }
    }

    /// A proxy in front of this service has reported.
    pub fn hear(&mut self, proxy: &str, load: &ServiceLoad, interval: ReportInterval, now: Instant) {
        if !self.servers.values().any(|server| server.is_fresh(interval, now)) {
            *self = Self::new(now);
        }
        let (arrivals, events) = match self.servers.remove(proxy) {
            Some(mut server) => {
                server.arrivals.hear(load, interval.get() / 2, now);
                server.events.hear(load, interval.get() / 2, now);
                (server.arrivals, server.events)
            }
            None => (Arrivals::new(load, now), Events::new(load, now)),
        };
        let ServiceLoad { in_flight, capacity, service_rate, .. } = *load;
        self.servers
            .insert(proxy.to_owned(), Server { seen: now, in_flight, capacity, service_rate, arrivals, events });
        // Not at each report: it takes a pass over all servers.
        if now.saturating_duration_since(self.looked) >= interval.get() {
            self.look(interval, now);
        }
    }

    /// Drops who fell silent and lets the predictor see the arrival rate.
    fn look(&mut self, interval: ReportInterval, now: Instant) {
        self.looked = now;
        self.servers.retain(|_, server| server.is_fresh(interval, now));
        self.complete |= self.servers.values().all(|server| server.arrivals.rate().is_some())
            || now.saturating_duration_since(self.since) >= interval.get() * KEEP_INTERVALS;
        if let Some(rate) = self.arrival_rate(interval, now) {
            match &mut self.trend {
                Some(trend) => trend.observe(rate, now),
                None => self.trend = Some(Holt::new(rate, now)),
            }
        }
    }

    /// The signals at `now`; nothing but the servers' freshness depends on the moment.
    pub fn signals(&self, interval: ReportInterval, now: Instant) -> Signals {
        let fresh: Vec<&Server> = self.servers.values().filter(|server| server.is_fresh(interval, now)).collect();
        let rates: Vec<f64> = fresh.iter().filter_map(|server| server.service_rate).collect();
        let spread = Spread::of(&rates);
        let arrival_rate = self.arrival_rate(interval, now);
        let service_rate = spread.map(|spread| spread.mean_per_second * fresh.len() as f64);
        let divisor = service_rate.filter(|rate| *rate >= LEAST_SERVICE_RATE);
        let capacities = fresh.iter().map(|server| server.capacity.map(u64::from)).sum::<Option<u64>>();
        let keep = interval.get() * KEEP_INTERVALS;
        let trend = self.trend.filter(|trend| now.saturating_duration_since(trend.at()) < keep);
        Signals {
            servers: fresh.len(),
            servers_with_service_rate: rates.len(),
            demand_requests: fresh.iter().map(|server| server.in_flight).sum(),
            capacity_requests: capacities.filter(|_| !fresh.is_empty()),
            arrival_rate_per_second: arrival_rate,
            service_rate_per_second: service_rate,
            service_rate_per_server: spread,
            utilisation_ratio: arrival_rate.zip(divisor).map(|(arrivals, services)| arrivals / services),
            predicted_arrival_rate_per_second: arrival_rate.and(trend).map(|trend| trend.predict(HORIZON)),
            prediction_horizon_seconds: HORIZON.as_secs_f64(),
        }
    }

    /// The events over the fresh servers that were measured; `None` if none was.
    pub fn events(&self, interval: ReportInterval, now: Instant) -> Option<EventRates> {
        let fresh = self.servers.values().filter(|server| server.is_fresh(interval, now));
        fresh.filter_map(|server| server.events.rates()).reduce(|mut sum, rates| {
            sum += rates;
            sum
        })
    }

    /// The fresh servers, by proxy.
    pub fn servers(&self, interval: ReportInterval, now: Instant) -> Vec<ServerLoad> {
        let fresh = self.servers.iter().filter(|(_, server)| server.is_fresh(interval, now));
        let load = |(proxy, server): (&String, &Server)| ServerLoad {
            proxy: proxy.clone(),
            seen: server.seen,
            in_flight: server.in_flight,
            capacity: server.capacity,
            service_rate: server.service_rate,
            events: server.events.rates(),
        };
        fresh.map(load).collect()
    }

    /// Requests per second over the fresh servers; `None` as long as it would be half a sum.
    fn arrival_rate(&self, interval: ReportInterval, now: Instant) -> Option<f64> {
        let fresh = self.servers.values().filter(|server| server.is_fresh(interval, now));
        let rates: Vec<f64> = fresh.filter_map(|server| server.arrivals.rate()).collect();
        (self.complete && !rates.is_empty()).then(|| rates.iter().sum())
    }
}
