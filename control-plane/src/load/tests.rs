//! Load signals computed from proxies' reports, in simulated time.

use super::*;
use bloc_policy::sync::ServiceLoad;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// Loads with a report interval of 5 s, and their clock. A server counts for three intervals after
/// each report.
struct World {
    loads: Loads,
    start: Instant,
    heard: BTreeMap<String, Instant>,
    /// When each proxy last reported, and its arrivals until then.
    arrived: BTreeMap<String, (Instant, u64)>,
}

impl World {
    fn new() -> Self {
        let start = Instant::now();
        Self {
            loads: Loads::new(ReportInterval::default(), start),
            start,
            heard: BTreeMap::new(),
            arrived: BTreeMap::new(),
        }
    }

    fn at(&self, millis: u64) -> Instant {
        self.start + Duration::from_millis(millis)
    }

    /// `proxy` reports on service a: `departed` requests since the proxy's start. Its first report
    /// has no span.
    fn report(&mut self, millis: u64, proxy: &str, departed: u64, in_flight: u64, service_rate: Option<f64>) {
        let (now, all) = (self.at(millis), departed + in_flight);
        let before = self.arrived.insert(proxy.to_owned(), (now, all));
        let (arrived, span) =
            before.and_then(|(at, before)| Some((all.checked_sub(before)?, Some(now - at)))).unwrap_or((all, None));
        let load = ServiceLoad {
            service: "a".into(),
            arrived,
            in_flight,
            service_rate,
            capacity: Some(10),
            ..Default::default()
        };
        let heard = &mut self.heard;
        let report = Report { proxy, load: &[load], span };
        self.loads.receive(report, |name| name == "a", |proxy, at| counts(heard, proxy, at), now);
        heard.insert(proxy.to_owned(), now);
    }

    /// `servers` proxies report every 5 s, each at its own moment, that they took in `rate`
    /// requests per second.
    fn steady(&mut self, seconds: std::ops::RangeInclusive<u64>, servers: u64, rate: u64, service_rate: Option<f64>) {
        for second in seconds.step_by(5) {
            for server in 0..servers {
                self.report(1_000 * second + server, &format!("p{server}"), rate * second, 2, service_rate);
            }
        }
    }

    fn signals(&self, millis: u64) -> Signals {
        self.loads.signals("a", |proxy, at| counts(&self.heard, proxy, at), self.at(millis)).unwrap()
    }

    fn arrivals(&self, millis: u64) -> Option<f64> {
        self.signals(millis).arrival_rate_per_second
    }
}

fn counts(heard: &BTreeMap<String, Instant>, proxy: &str, at: Instant) -> bool {
    heard.get(proxy).is_some_and(|heard| at.saturating_duration_since(*heard) < Duration::from_secs(15))
}

fn is_close(value: Option<f64>, expected: f64) -> bool {
    value.is_some_and(|value| (value / expected - 1.0).abs() < 0.01)
}

#[test]
fn adds_up_the_load_of_all_servers() {
    let mut world = World::new();
    for (second, departed) in [(0, 0), (5, 100), (10, 200), (15, 300)] {
        world.report(1_000 * second, "fast", 2 * departed, 4, Some(60.0));
        world.report(1_000 * second, "slow", departed, 3, Some(20.0));
    }
    let spread = Spread { min_per_second: 20.0, mean_per_second: 40.0, max_per_second: 60.0 };
    let expected = Signals {
        servers: 2,
        servers_with_service_rate: 2,
        demand_requests: 7,
        capacity_requests: Some(20),
        arrival_rate_per_second: Some(60.0),
        service_rate_per_second: Some(80.0),
        service_rate_per_server: Some(spread),
        utilisation_ratio: Some(0.75),
        predicted_arrival_rate_per_second: Some(60.0),
        prediction_horizon_seconds: 30.0,
    };
    assert_eq!(world.signals(15_000), expected);
    let all = world.loads.all(|_, _| true, world.at(15_000));
    assert_eq!(all, [("a".to_owned(), (expected, Totals::default()))].into(), "no poll is answered");
}

#[test]
fn omits_signals_that_are_unknown() {
    let mut world = World::new();
    assert_eq!(world.loads.signals("a", |_, _| true, world.start), None);
    let load = ServiceLoad { service: "a".into(), in_flight: 3, ..Default::default() };
    world.loads.receive(Report { proxy: "p", load: &[load], span: None }, |_| true, |_, _| true, world.start);
    world.heard.insert("p".into(), world.start);
    let cold = world.signals(0);
    assert_eq!((cold.servers, cold.demand_requests, cold.capacity_requests), (1, 3, None), "its server has no limit");
    assert_eq!((cold.arrival_rate_per_second, cold.predicted_arrival_rate_per_second), (None, None));
    assert_eq!((cold.service_rate_per_second, cold.service_rate_per_server), (None, None));
    world.steady(0..=60, 1, 10, Some(0.0));
    let hung = world.signals(60_000);
    assert_eq!((hung.service_rate_per_second, hung.utilisation_ratio), (Some(0.0), None), "never NaN or infinite");
    world.steady(65..=65, 1, 10, Some(f64::MIN_POSITIVE));
    assert_eq!(world.signals(65_000).utilisation_ratio, None);
}

#[test]
fn gives_no_arrival_rate_while_servers_reconnect_after_a_restart() {
    // Ten servers report again over 4.5 s.
    let mut world = World::new();
    for second in [0, 5] {
        for server in 0..10 {
            let at = 1_000 * second + 500 * server;
            world.report(at, &format!("p{server}"), 1_000 + 20 * second, 1, None);
            assert_eq!(world.arrivals(at), None, "server {server} at {at} ms");
        }
    }
    world.report(10_000, "p0", 1_200, 1, None);
    assert_eq!(world.arrivals(10_000), Some(200.0));
    assert_eq!(
        world.signals(10_000).predicted_arrival_rate_per_second,
        Some(200.0),
        "a restart of the control plane is not a surge"
    );
}

#[test]
fn servers_that_report_once_do_not_hide_the_rate_of_the_others() {
    let mut world = World::new();
    for second in [0, 5, 10, 15, 20] {
        world.report(1_000 * second, "p", 20 * second, 0, None);
        // A new proxy each time, which reports only once.
        world.report(1_000 * second + 1, &format!("restless{second}"), 0, 0, None);
    }
    assert_eq!((world.arrivals(14_999), world.arrivals(20_001)), (Some(20.0), Some(20.0)));
}

#[test]
fn a_server_that_joins_lowers_the_utilisation_at_once() {
    let mut world = World::new();
    world.steady(0..=60, 4, 18, Some(20.0));
    assert!(is_close(world.signals(60_004).utilisation_ratio, 0.9));
    world.report(61_000, "new", 0, 0, None);
    let signals = world.signals(61_000);
    assert_eq!((signals.servers, signals.servers_with_service_rate), (5, 4));
    assert_eq!(signals.service_rate_per_second, Some(100.0));
    assert!(is_close(signals.arrival_rate_per_second, 72.0));
    assert!(is_close(signals.utilisation_ratio, 0.72));
}

#[test]
fn drops_servers_that_are_silent_for_three_intervals() {
    let mut world = World::new();
    world.steady(0..=20, 2, 10, Some(20.0));
    world.steady(25..=30, 1, 10, Some(20.0));
    assert_eq!((world.signals(35_000).servers, world.signals(35_001).servers), (2, 1));
    assert!(is_close(world.arrivals(35_000), 20.0) && is_close(world.arrivals(35_001), 10.0));
    let gone = world.signals(45_001);
    assert_eq!((gone.servers, gone.demand_requests, gone.capacity_requests), (0, 0, None));
    assert_eq!((gone.arrival_rate_per_second, gone.utilisation_ratio), (Some(0.0), None), "its part of a sum");
    world.report(60_000, "p1", 600, 2, None);
    assert!(is_close(world.arrivals(60_000), 10.0));
    let silent = world.signals(120_000);
    assert_eq!((silent.arrival_rate_per_second, silent.predicted_arrival_rate_per_second), (None, None));
    // The rate may have changed during the silence.
    world.report(125_000, "p1", 1_900, 2, None);
    assert_eq!((world.signals(125_000).servers, world.arrivals(125_000)), (1, None));
    world.report(130_000, "p1", 2_000, 2, None);
    world.report(135_000, "p1", 2_100, 2, None);
    assert_eq!(world.arrivals(135_000), Some(20.0));
    assert_eq!(world.signals(135_000).predicted_arrival_rate_per_second, Some(20.0), "no trend from before");
}

#[test]
fn late_or_duplicate_reports_and_restarts_do_not_change_the_rate() {
    let mut world = World::new();
    world.steady(0..=30, 2, 10, Some(20.0));
    world.steady(30..=30, 2, 10, Some(20.0));
    assert!(is_close(world.arrivals(30_001), 20.0), "duplicate");
    world.report(39_000, "p0", 390, 2, Some(20.0));
    world.report(42_000, "p1", 420, 2, Some(20.0));
    assert!(is_close(world.arrivals(42_000), 20.0), "late");
    world.report(44_000, "p0", 5, 2, Some(20.0));
    assert!(is_close(world.arrivals(44_000), 20.0), "restarted");
    world.report(49_000, "p0", 55, 2, Some(20.0));
    world.report(49_001, "p1", 1 << 53, 10_000_000, Some(20.0));
    let signals = world.signals(49_001);
    assert!(is_close(signals.arrival_rate_per_second, 20.0), "an impossible jump: {signals:?}");
    assert!(is_close(signals.utilisation_ratio, 0.5) && is_close(signals.predicted_arrival_rate_per_second, 20.0));
}

#[test]
fn predicts_a_rising_rate_above_its_last_value() {
    let mut world = World::new();
    // 10 + t/5 requests a second: 10 t + t^2/10 arrivals after t seconds.
    for second in (0..=300).step_by(5) {
        world.report(1_000 * second, "p", 10 * second + second * second / 10, 0, None);
    }
    let (now, predicted) =
        (world.arrivals(300_000).unwrap(), world.signals(300_000).predicted_arrival_rate_per_second.unwrap());
    println!("last {now:.1}, predicted {predicted:.1} for 76.0");
    assert!((68.0..71.0).contains(&now), "the mean of the last interval, half of it late: {now}");
    assert!((74.0..78.0).contains(&predicted), "{predicted}");
}

#[test]
fn bounds_the_number_of_services_that_reports_can_name() {
    let mut world = World::new();
    let load = |service: String| ServiceLoad { service, ..Default::default() };
    let loads: Vec<_> = (0..MAX_SERVICES + 5).map(|i| load(format!("s{i}"))).collect();
    let start = world.start;
    let mut receive = |proxy, load| {
        world.loads.receive(Report { proxy, load, span: None }, |name| name != "s0", |_, _| true, start);
    };
    receive("p", &loads);
    receive("q", &loads[..2]);
    assert_eq!((world.loads.all(|_, _| true, start).len(), world.loads.dropped()), (MAX_SERVICES, 6));
    let servers = world.loads.signals("s1", |_, _| true, start).map(|signals| signals.servers);
    assert_eq!(servers, Some(2), "a known service is still counted");
    world.loads.retain(|name| name == "s1");
    assert_eq!(world.loads.all(|_, _| true, start).len(), 1);
}

/// 200 servers whose rates jump at 300 s. One of `replicas` counts each, at random, and every 7 s
/// another one does.
fn predictions_of(replicas: usize, ticks_apart: u64) -> Vec<f64> {
    let (start, mut rng) = (Instant::now(), fastrand::Rng::with_seed(5));
    let at = |millis| start + Duration::from_millis(millis);
    let mut loads: Vec<_> =
        (0..replicas as u64).map(|i| Loads::new(ReportInterval::default(), at(i * ticks_apart))).collect();
    let home: Vec<Vec<usize>> = (0..200).map(|_| (0..100).map(|_| rng.usize(..replicas)).collect()).collect();
    let counted_by = |server: usize, at: Instant| home[server][(at - start).as_millis() as usize / 7_000];
    let mut sums = Vec::new();
    for second in 0..600 {
        for server in (0..200).filter(|server| server % 5 == second as usize % 5) {
            let arrived = if second < 300 { 100 } else { 200 };
            let load = [ServiceLoad { service: "a".into(), arrived, ..Default::default() }];
            let span = Some(Duration::from_secs(5));
            for (replica, loads) in loads.iter_mut().enumerate() {
                let counts = |proxy: &str, at| counted_by(proxy.parse().unwrap(), at) == replica;
                let report = Report { proxy: &server.to_string(), load: &load, span };
                loads.receive(report, |_| true, counts, at(1_000 * second + 7));
            }
        }
        let predicted = loads.iter().enumerate().filter_map(|(replica, loads)| {
            let counts = |proxy: &str, at| counted_by(proxy.parse().unwrap(), at) == replica;
            loads.signals("a", counts, at(1_000 * second + 7))?.predicted_arrival_rate_per_second
        });
        sums.push(predicted.sum());
    }
    sums
}

#[test]
fn predictions_of_replicas_add_up_if_observed_at_the_same_moments() {
    let apart = |a: &[f64], b: &[f64]| {
        let differences = a.iter().zip(b).skip(60).map(|(a, b)| (a / b - 1.0).abs());
        differences.fold(0.0, f64::max)
    };
    let one = predictions_of(1, 0);
    let (two, shifted) = (predictions_of(2, 0), predictions_of(2, 2_500));
    let (same, shifted) = (apart(&two, &one), apart(&shifted, &one));
    println!("off by {same:.1e} if observed at the same moments, {shifted:.2} otherwise");
    assert!(same < 1e-9, "{same}");
    assert!(shifted > 0.02, "{shifted}");
}
