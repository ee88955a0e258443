//! The last reports of a service's servers, and the signals computed from them.

use super::events::{EventRates, counters};
use super::holt::Holt;
use super::interval::ReportInterval;
use super::rates::Rates;
use super::signals::{Signals, Spread};
use super::ticks::Ticks;
use super::totals::Totals;
use bloc_policy::sync::ServiceLoad;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// A server that no longer counts here is kept for this many report intervals, because it may come
/// back.
pub const KEEP_INTERVALS: u32 = 3;
/// If no server of a service was heard for this long, all are gone or poll other replicas.
const SILENT_AFTER: Duration = Duration::from_secs(60);
/// How far ahead the arrival rate is predicted: about the time until an autoscaler looks (15 s) and
/// a server has started.
pub const HORIZON: Duration = Duration::from_secs(30);
/// The smallest service rate used as a divisor, in requests per second: about one request in twelve
/// days.
const LEAST_SERVICE_RATE: f64 = 1e-6;

/// The servers of one service.
#[derive(Debug)]
pub struct Service {
    servers: BTreeMap<String, Server>,
    /// When the first server was heard.
    since: Instant,
    /// Whether the sum of the arrival rates covers all servers.
    complete: bool,
    /// The last tick that [`observe`](Self::observe) has handled.
    looked: Instant,
    /// When any server was last heard.
    heard: Instant,
    trend: Option<Holt>,
    totals: Totals,
}

/// Which proxies count at this replica, and the report interval.
pub struct Counting<'a, F> {
    /// Whether a proxy counts here at a moment: now or shortly before.
    pub counts: F,
    pub interval: ReportInterval,
    pub ticks: &'a Ticks,
}

#[derive(Debug)]
struct Server {
    seen: Instant,
    in_flight: u64,
    capacity: Option<u32>,
    service_rate: Option<f64>,
    /// In the order of [`counters`].
    rates: Rates<8>,
}

/// The last report of one server.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerLoad {
    /// The proxy in front of it.
    pub proxy: String,
    /// When it was last heard.
    pub seen: Instant,
    /// Requests in flight, waiting ones included.
    pub in_flight: u64,
    /// The capacity in force, in requests; `None`: no limit.
    pub capacity: Option<u32>,
    /// The rate at which it finishes requests when busy, per second, if reported.
    pub service_rate: Option<f64>,
    /// The rates of events at it, once they are measured.
    pub events: Option<EventRates>,
}

impl Server {
    fn arrival_rate(&self) -> Option<f64> {
        self.rates.get().map(|[rate, ..]| rate)
    }

    fn events(&self) -> Option<EventRates> {
        self.rates.get().map(EventRates::from)
    }

    fn is_fresh(&self, interval: ReportInterval, now: Instant) -> bool {
        now.saturating_duration_since(self.seen) < interval.get() * KEEP_INTERVALS
    }
}

impl Service {
    /// A service without servers.
    pub fn new(now: Instant) -> Self {
        Self {
            servers: BTreeMap::new(),
            since: now,
            complete: false,
            looked: now,
            heard: now,
            trend: None,
            totals: Totals::default(),
        }
    }

    /// Records a report of a proxy in front of this service.
    pub fn receive<F: Fn(&str, Instant) -> bool>(
        &mut self,
        proxy: &str,
        load: &ServiceLoad,
        span: Option<Duration>,
        counting: &Counting<'_, F>,
        now: Instant,
    ) {
        self.observe(counting, now);
        let interval = counting.interval;
        let is_kept =
            |(proxy, server): (&String, &Server)| server.is_fresh(interval, now) || (counting.counts)(proxy, now);
        if self.is_silent(now) && !self.servers.iter().any(is_kept) {
            *self = Self { totals: self.totals, ..Self::new(now) };
        }
        self.heard = now;
        let mut rates = self.servers.remove(proxy).map(|server| server.rates).unwrap_or_default();
        rates.receive(counters(load), span, interval.get() / 2);
        let ServiceLoad { in_flight, capacity, service_rate, .. } = *load;
        self.servers.insert(proxy.to_owned(), Server { seen: now, in_flight, capacity, service_rate, rates });
    }

    /// Forgets what a proxy reported.
    pub fn forget(&mut self, proxy: &str) {
        self.servers.remove(proxy);
    }

    /// Adds a report to the totals when its poll is answered.
    pub fn count(&mut self, load: &ServiceLoad) {
        self.totals.count(load);
    }

    /// The totals counted at this replica.
    pub fn totals(&self) -> Totals {
        self.totals
    }

    /// Whether no server was heard for a while.
    pub fn is_silent(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.heard) >= SILENT_AFTER
    }

    /// At a new tick, drops silent servers and feeds the predictor that tick's arrival rate. Not at
    /// each report, because it takes a pass over all servers. All replicas do this at the same
    /// ticks: they observe parts of the same sum, so what moves between them cancels in the sum of
    /// their predictions.
    pub fn observe<F: Fn(&str, Instant) -> bool>(&mut self, counting: &Counting<'_, F>, now: Instant) {
        let Some(tick) = counting.ticks.last(now).filter(|tick| *tick > self.looked) else { return };
        self.looked = tick;
        let (interval, counts) = (counting.interval, &counting.counts);
        self.servers.retain(|proxy, server| server.is_fresh(interval, tick) || counts(proxy, tick));
        let age = tick.saturating_duration_since(self.since);
        let is_measured = |(proxy, server): (&String, &Server)| server.arrival_rate().is_some() || !counts(proxy, tick);
        self.complete |=
            (age >= interval.get() && self.servers.iter().all(is_measured)) || age >= interval.get() * KEEP_INTERVALS;
        let rate = self.arrival_rate(self.counted(counts, tick).map(|(_, server)| server), tick);
        if let Some(rate) = rate {
            match &mut self.trend {
                Some(trend) => trend.observe(rate, tick),
                None => self.trend = Some(Holt::new(rate, tick)),
            }
        }
    }

    /// The signals at `now`, which only decides which servers count.
    pub fn signals<F: Fn(&str, Instant) -> bool>(&self, counting: &Counting<'_, F>, now: Instant) -> Signals {
        let (interval, counts) = (counting.interval, &counting.counts);
        let counted: Vec<&Server> = self.counted(counts, now).map(|(_, server)| server).collect();
        let rates: Vec<f64> = counted.iter().filter_map(|server| server.service_rate).collect();
        let spread = Spread::of(&rates);
        let arrival_rate = self.arrival_rate(counted.iter().copied(), now);
        let service_rate = spread.map(|spread| spread.mean_per_second * counted.len() as f64);
        let divisor = service_rate.filter(|rate| *rate >= LEAST_SERVICE_RATE);
        let capacities = counted.iter().map(|server| server.capacity.map(u64::from)).sum::<Option<u64>>();
        let keep = interval.get() * KEEP_INTERVALS;
        let trend = self.trend.filter(|trend| now.saturating_duration_since(trend.at()) < keep);
        Signals {
            servers: counted.len(),
            servers_with_service_rate: rates.len(),
            demand_requests: counted.iter().map(|server| server.in_flight).sum(),
            capacity_requests: capacities.filter(|_| !counted.is_empty()),
            arrival_rate_per_second: arrival_rate,
            service_rate_per_second: service_rate,
            service_rate_per_server: spread,
            utilisation_ratio: arrival_rate.zip(divisor).map(|(arrivals, services)| arrivals / services),
            predicted_arrival_rate_per_second: arrival_rate.and(trend).map(|trend| trend.predict(HORIZON)),
            prediction_horizon_seconds: HORIZON.as_secs_f64(),
        }
    }

    /// The sum of the events over the measured servers that count here; `None` without any.
    pub fn events(&self, counts: &impl Fn(&str, Instant) -> bool, now: Instant) -> Option<EventRates> {
        self.counted(counts, now).filter_map(|(_, server)| server.events()).reduce(|mut sum, rates| {
            sum += rates;
            sum
        })
    }

    /// The servers that count here, by proxy.
    pub fn servers(&self, counts: &impl Fn(&str, Instant) -> bool, now: Instant) -> Vec<ServerLoad> {
        let load = |(proxy, server): (&String, &Server)| ServerLoad {
            proxy: proxy.clone(),
            seen: server.seen,
            in_flight: server.in_flight,
            capacity: server.capacity,
            service_rate: server.service_rate,
            events: server.events(),
        };
        self.counted(counts, now).map(load).collect()
    }

    fn counted<'a>(
        &'a self,
        counts: &impl Fn(&str, Instant) -> bool,
        at: Instant,
    ) -> impl Iterator<Item = (&'a String, &'a Server)> {
        self.servers.iter().filter(move |(proxy, _)| counts(proxy, at))
    }

    /// Requests per second over the servers that count here; `None` while the sum would be partial
    /// or nothing is known. 0 if no server counts, unless new servers must be measured first.
    fn arrival_rate<'a>(&self, counted: impl Iterator<Item = &'a Server>, now: Instant) -> Option<f64> {
        let rates: Vec<f64> = counted.filter_map(|server| server.arrival_rate()).collect();
        let known = self.complete && !self.is_silent(now);
        known.then(|| rates.iter().fold(0.0, |sum, rate| sum + rate))
    }
}
