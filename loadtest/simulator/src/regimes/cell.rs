//! One cell of the map: a service, its load, and what its sidecars are told.

use crate::incident::Incident;
use crate::load::Load;
use crate::policies::PolicyKind;
use crate::scenario::{Scenario, ScenarioError};
use bloc_figures::service_time::ServiceTime;
use bloc_policy::config::{CapacitySpec, ServiceSpec};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::time::Duration;

/// The distribution of the service time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Times {
    /// Always the same.
    Fixed,
    /// Exponential.
    Exponential,
    /// Lognormal, sigma 1.5.
    Lognormal,
    /// 95% short, 5% forty times as long.
    Mixed,
}

/// The speeds of the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Speeds {
    /// All equal.
    Equal,
    /// Every second server is twice as fast.
    Two,
    /// One server has half the speed of the others.
    OneAtHalf,
    /// One server has a tenth of the speed of the others.
    OneAtATenth,
}

/// What the sidecars are told about `concurrency`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Told {
    /// The truth, and they hold the queue.
    Hold,
    /// The truth; the queue is in the application.
    Truth,
    /// Nothing.
    Nothing,
    /// Half of the truth; the queue is in the application.
    Half,
    /// Twice the truth; the queue is in the application.
    Twice,
}

/// What happens to the first server, 20 s after the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Trouble {
    /// Nothing.
    #[default]
    None,
    /// Its next ten requests take forty times as long, as those of a cold JVM do.
    Cold,
    /// It is away for three seconds.
    Away,
    /// From then on it answers everything at once, with a client's error.
    Wrong,
    /// From then on it answers at a hundredth of the time, with a good status.
    Fast,
}

/// A cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Cell {
    /// Servers.
    pub servers: u32,
    /// Requests that a server works on at once.
    pub concurrency: u32,
    /// The distribution of the service time.
    pub times: Times,
    /// The mean service time at speed 1, in milliseconds.
    pub mean_ms: u64,
    /// The speeds.
    pub speeds: Speeds,
    /// Load, in percent of what the servers can do.
    pub load: u32,
    /// Senders.
    pub senders: u32,
    /// What the sidecars are told.
    pub told: Told,
    /// What happens to the first server.
    pub trouble: Trouble,
}

/// How long a simulation lasts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Size {
    /// Answers that count, at least.
    pub answers: u64,
    /// Requests that each server gets before anything counts, at least.
    pub warm_up: u64,
}

/// A server that was cold or away has its share again at this time: 30 s later.
const SETTLED: Duration = Duration::from_secs(50);
/// A wrong server is known at this time.
const NOTICED: Duration = Duration::from_secs(22);
/// From an answer to the hand-over of the next held request, as `bloc-lab handover` measures it.
const HAND_OVER: Duration = Duration::from_micros(300);
/// Under overload the queues fill for so many service times before anything counts.
const FILL: f64 = 400.0;
/// From this load on a run is longer by [`LONGER`]: queues move slowly there.
const HIGH_LOAD: u32 = 90;
const LONGER: u64 = 3;

impl Cell {
    /// Whether such a service can exist and be told so.
    pub fn is_possible(&self) -> bool {
        self.concurrency > 1 || self.told != Told::Half
    }

    /// Whether more arrives than the servers can do.
    pub fn is_overloaded(&self) -> bool {
        self.load > 100
    }

    /// Whether all servers have one speed.
    pub fn has_equal_speeds(&self) -> bool {
        self.speeds == Speeds::Equal
    }

    /// The mean service time at speed 1.
    pub fn mean(&self) -> Duration {
        Duration::from_millis(self.mean_ms)
    }

    /// The case to be simulated.
    pub fn scenario(&self, policy: PolicyKind, seed: u64, size: Size) -> Scenario {
        let mut scenario = Scenario {
            policy,
            senders: self.senders,
            servers: self.servers,
            speeds: self.speeds(),
            concurrency: self.concurrency,
            service_time: self.service_time(),
            load: Load::Share(f64::from(self.load) / 100.0),
            hand_over: HAND_OVER,
            service: self.service(),
            incidents: self.incident().into_iter().collect(),
            retry_failures: self.trouble != Trouble::None,
            seed,
            ..Scenario::default()
        };
        let rate: f64 = (0..self.servers).map(|server| scenario.service_rate(server)).sum();
        let answered = rate * f64::from(self.load.min(100)) / 100.0;
        let longer = if self.load >= HIGH_LOAD { LONGER } else { 1 };
        let fill = if self.is_overloaded() { FILL * self.mean().as_secs_f64() } else { 0.0 };
        let warm_up = (longer * size.warm_up * u64::from(self.servers)) as f64 / answered;
        let known = match self.trouble {
            Trouble::None => Duration::ZERO,
            Trouble::Cold | Trouble::Away => SETTLED,
            Trouble::Wrong | Trouble::Fast => NOTICED,
        };
        scenario.warm_up = Duration::from_secs_f64(warm_up.max(fill)).max(known);
        // A random number of requests arrives: enough more than those that must be answered.
        scenario.duration = Duration::from_secs_f64((longer * size.answers) as f64 * 1.03 / answered);
        scenario
    }

    /// Checks that it can be simulated.
    ///
    /// # Errors
    /// What is not allowed.
    pub fn validate(&self) -> Result<(), ScenarioError> {
        self.scenario(PolicyKind::Bid, 1, Size { answers: 1_000, warm_up: 1 }).validate()
    }

    fn incident(&self) -> Option<Incident> {
        let text = match self.trouble {
            Trouble::None => return None,
            Trouble::Cold => "cold:0@20s=0.025",
            Trouble::Away => "down:0@20s-23s",
            Trouble::Wrong => "refusing:0@20s=1",
            Trouble::Fast => "slow:0@20s=100",
        };
        text.parse().ok()
    }

    fn speeds(&self) -> Vec<f64> {
        let one_at = |speed| std::iter::once(speed).chain((1..self.servers).map(|_| 1.0)).collect();
        match self.speeds {
            Speeds::Equal => Vec::new(),
            Speeds::Two => vec![1.0, 2.0],
            Speeds::OneAtHalf => one_at(0.5),
            Speeds::OneAtATenth => one_at(0.1),
        }
    }

    fn service_time(&self) -> ServiceTime {
        let mean = self.mean();
        // The mean of 95% of 10 ms and 5% of 400 ms is 29.5 ms.
        let short = mean.mul_f64(10.0 / 29.5);
        match self.times {
            Times::Fixed => ServiceTime::Fixed(mean),
            Times::Exponential => ServiceTime::Exponential(mean),
            Times::Lognormal => ServiceTime::Lognormal(mean, 1.5),
            Times::Mixed => ServiceTime::Mix(short, short * 40, 0.05),
        }
    }

    fn service(&self) -> ServiceSpec {
        let truth = i64::from(self.concurrency);
        let (concurrency, hold) = match self.told {
            Told::Hold => (Some(truth), Some(true)),
            Told::Truth => (Some(truth), Some(false)),
            Told::Nothing => (None, None),
            Told::Half => (Some(truth / 2), Some(false)),
            Told::Twice => (Some(truth * 2), Some(false)),
        };
        let capacity = self.is_overloaded().then_some(CapacitySpec::Static { limit: truth * 10 });
        ServiceSpec { concurrency, hold, capacity, max_queue_wait: Some("1h".to_owned()), ..ServiceSpec::default() }
    }
}

impl fmt::Display for Cell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let times = match self.times {
            Times::Fixed => "fixed",
            Times::Exponential => "exponential",
            Times::Lognormal => "lognormal",
            Times::Mixed => "mixed",
        };
        let speeds = match self.speeds {
            Speeds::Equal => "",
            Speeds::Two => ", two speeds",
            Speeds::OneAtHalf => ", one at half speed",
            Speeds::OneAtATenth => ", one at a tenth",
        };
        let told = match self.told {
            Told::Hold => "hold",
            Told::Truth => "no hold",
            Told::Nothing => "concurrency unknown",
            Told::Half => "concurrency half the truth",
            Told::Twice => "concurrency twice the truth",
        };
        let trouble = match self.trouble {
            Trouble::None => "",
            Trouble::Cold => ", one was cold",
            Trouble::Away => ", one was away",
            Trouble::Wrong => ", one answers wrongly",
            Trouble::Fast => ", one answers at once",
        };
        let Self { servers, concurrency, mean_ms, load, senders, .. } = self;
        write!(
            f,
            "{servers} x {concurrency}, {times} {mean_ms} ms{speeds}, {load}%, {senders} senders, {told}{trouble}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CELL: Cell = Cell {
        servers: 10,
        concurrency: 4,
        times: Times::Exponential,
        mean_ms: 100,
        speeds: Speeds::Equal,
        load: 50,
        senders: 40,
        told: Told::Truth,
        trouble: Trouble::None,
    };
    const SIZE: Size = Size { answers: 10_000, warm_up: 100 };

    #[test]
    fn counts_at_least_the_answers_after_the_warm_up() {
        for load in [30, 95, 200] {
            let cell = Cell { load, ..CELL };
            let outcome = crate::run(&cell.scenario(PolicyKind::Bloc, 3, SIZE)).unwrap();
            let least = if load < 90 { 10_000 } else { 30_000 };
            assert!((least..least * 11 / 10).contains(&outcome.ok), "{cell}: {}", outcome.ok);
        }
        let scenario = CELL.scenario(PolicyKind::Bid, 3, SIZE);
        // 1,000 requests at 200 a second.
        assert_eq!(scenario.warm_up, Duration::from_secs(5));
        let overloaded = Cell { load: 105, ..CELL }.scenario(PolicyKind::Bid, 3, SIZE);
        assert_eq!(overloaded.warm_up, Duration::from_secs(40), "400 service times");
    }

    #[test]
    fn speeds_apply_to_every_second_server_or_to_one() {
        let speeds = |speeds| {
            let scenario = Cell { servers: 3, speeds, ..CELL }.scenario(PolicyKind::Bid, 1, SIZE);
            (0..3).map(|server| scenario.speed(server)).collect::<Vec<_>>()
        };
        assert_eq!(speeds(Speeds::Equal), [1.0, 1.0, 1.0]);
        assert_eq!(speeds(Speeds::Two), [1.0, 2.0, 1.0]);
        assert_eq!(speeds(Speeds::OneAtHalf), [0.5, 1.0, 1.0]);
        assert_eq!(speeds(Speeds::OneAtATenth), [0.1, 1.0, 1.0]);
    }

    #[test]
    fn the_sidecars_get_what_the_cell_says() {
        let service = |told, load| Cell { told, load, ..CELL }.scenario(PolicyKind::Bid, 1, SIZE).service;
        let told = |told| {
            let service = service(told, 50);
            (service.concurrency, service.hold)
        };
        assert_eq!(told(Told::Hold), (Some(4), Some(true)));
        assert_eq!(told(Told::Truth), (Some(4), Some(false)));
        assert_eq!(told(Told::Nothing), (None, None));
        assert_eq!(told(Told::Half), (Some(2), Some(false)));
        assert_eq!(told(Told::Twice), (Some(8), Some(false)));
        assert_eq!(service(Told::Truth, 100).capacity, None);
        assert_eq!(service(Told::Truth, 105).capacity, Some(CapacitySpec::Static { limit: 40 }));
        assert!(!Cell { concurrency: 1, told: Told::Half, ..CELL }.is_possible());
        assert!(Cell { concurrency: 1, ..CELL }.is_possible() && Cell { told: Told::Half, ..CELL }.is_possible());
    }

    #[test]
    fn every_distribution_keeps_the_mean() {
        for times in [Times::Fixed, Times::Exponential, Times::Lognormal, Times::Mixed] {
            let mean = Cell { times, ..CELL }.service_time().mean().as_secs_f64();
            assert!((mean - 0.1).abs() < 1e-6, "{times:?}: {mean}");
        }
    }

    #[test]
    fn a_name_tells_every_dimension() {
        assert_eq!(CELL.to_string(), "10 x 4, exponential 100 ms, 50%, 40 senders, no hold");
        let other = Cell { speeds: Speeds::Two, told: Told::Nothing, times: Times::Mixed, ..CELL };
        assert_eq!(other.to_string(), "10 x 4, mixed 100 ms, two speeds, 50%, 40 senders, concurrency unknown");
        let cold = Cell { trouble: Trouble::Cold, ..CELL };
        assert_eq!(cold.to_string(), format!("{CELL}, one was cold"));
    }

    #[test]
    fn counts_from_when_a_server_must_have_its_share() {
        for (trouble, seconds) in
            [(Trouble::Cold, 50), (Trouble::Away, 50), (Trouble::Wrong, 22), (Trouble::Fast, 22), (Trouble::None, 5)]
        {
            let scenario = Cell { trouble, ..CELL }.scenario(PolicyKind::Bid, 3, SIZE);
            assert_eq!(scenario.warm_up, Duration::from_secs(seconds), "{trouble:?}");
            assert_eq!(scenario.incidents.len(), usize::from(trouble != Trouble::None), "{trouble:?}");
        }
    }
}
