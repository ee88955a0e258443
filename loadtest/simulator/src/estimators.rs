//! Capacity estimators side by side: the same senders, servers, load, admission and chips. Only the
//! source of the capacity differs.
//!
//! 40 senders with the routing `bloc`, 10 servers that work on one request at a time, Poisson
//! arrivals in four phases ([`PHASES`]): overload from a cold start, a light load, overload again,
//! and the same arrivals against servers at half speed. The SLO is eight mean service times: 2 s
//! for 250 ms.
//!
//! Each phase is measured in its own simulation, which stops at the end of the phase, so that an
//! ordinary [`Outcome`](crate::Outcome) describes it. The same seed makes the same beginning. A
//! phase counts the requests that arrive in it; its throughput counts the answers in it.

use crate::engine::run_with;
use crate::policies::{Aimd, Gradient2, Inbound, Limited, Mesh, Policy, SenderModel, ServerModel, Vegas, Verdict};
use crate::scenario::{Scenario, ScenarioError};
use bloc_figures::service_time::ServiceTime;
use bloc_policy::config::{CapacitySpec, ServiceParameters, ServiceSpec};
use bloc_policy::units::{Ratio, Timestamp};
use bloc_policy::wire::bid::Bid;
use bloc_policy::wire::load_report::LoadReport;
use serde::Serialize;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// The phases: load as a share of full-speed capacity, and the servers' speed.
pub const PHASES: [(f64, f64); 4] = [(1.2, 1.0), (0.3, 1.0), (1.2, 1.0), (1.2, 0.5)];
/// The SLO in mean service times. With one request at a time it is also the optimal capacity.
pub const SLO: u32 = 8;

/// Where the capacity comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
#[value(rename_all = "snake_case")]
pub enum Source {
    /// `static`: the capacity that meets the SLO at full speed.
    Static,
    /// `average` over 30 s.
    Average,
    /// `slo` with `concurrency: 1`.
    Slo,
    /// The same, with three quarters of the SLO: a margin for varying service times.
    SloMargin,
    /// `slo` without `concurrency`.
    SloUntold,
    /// Gradient2 with its defaults.
    Gradient2,
    /// Gradient2 that may fall to 1.
    Gradient2Low,
    /// Vegas with its defaults.
    Vegas,
    /// AIMD with its defaults.
    Aimd,
    /// AIMD with the SLO as its timeout, which may fall to 1.
    AimdSlo,
    /// The same, with three quarters of the SLO.
    AimdMargin,
}

/// The result of a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Phase {
    /// Answers per second, as a share of the servers' capacity.
    pub goodput: f64,
    /// Response time of the answered requests.
    pub p50_ms: f64,
    /// Response time of the answered requests.
    pub p99_ms: f64,
    /// Share of the requests that were rejected after all retries.
    pub shed: f64,
    /// Share of the answers within the SLO.
    pub in_time: f64,
    /// The capacity in force at the end, in requests: the mean over the servers that had one; none:
    /// no limit.
    pub capacity: Option<f64>,
}

/// The case: one phase after the other, each as long as `phase`.
pub fn scenario(service_time: ServiceTime, phase: Duration, seed: u64) -> Scenario {
    let at = |phases: u32| humantime::format_duration(phase * phases).to_string().replace(' ', "");
    let incidents = [
        format!("load@{}-{}={}", at(1), at(2), PHASES[1].0 / PHASES[0].0),
        format!("slow:0-9@{}={}", at(3), PHASES[3].1),
    ];
    let incident = |text: &String| text.parse().expect("a load and a slow-down with factors in range");
    Scenario {
        service_time,
        load: crate::load::Load::Share(PHASES[0].0),
        goal: Some(service_time.mean() * SLO),
        incidents: incidents.iter().map(incident).collect(),
        service: ServiceSpec::default(),
        seed,
        ..Scenario::default()
    }
}

/// Simulates all phases with a capacity from `source`.
///
/// # Errors
/// A phase is shorter than a millisecond or longer than a hundred hours.
pub fn simulate(source: Source, base: &Scenario, phase: Duration) -> Result<Vec<Phase>, ScenarioError> {
    let service = spec(source, base.service_time.mean() * SLO);
    let full: f64 = (0..base.servers).map(|server| base.service_rate(server)).sum();
    let mut phases = Vec::with_capacity(PHASES.len());
    for (place, (_, speed)) in (0u32..).zip(PHASES) {
        let case = Scenario { warm_up: phase * place, duration: phase, service: service.clone(), ..base.clone() };
        let ends = Timestamp::ZERO.after(case.warm_up + case.duration);
        let policy = Compared::new(source, &case, ends)?;
        let outcome = run_with(&case, &policy)?;
        let share = |part: u64, of: u64| part as f64 / of.max(1) as f64;
        phases.push(Phase {
            goodput: outcome.throughput_rps / (full * speed),
            p50_ms: outcome.p50_ms.unwrap_or_default(),
            p99_ms: outcome.p99_ms.unwrap_or_default(),
            shed: share(outcome.shed, outcome.requests),
            in_time: share(outcome.within_goal.unwrap_or_default(), outcome.ok),
            capacity: policy.capacity(),
        });
    }
    Ok(phases)
}

/// The mean results of one phase over several seeds.
pub fn mean(phases: &[Phase]) -> Phase {
    let over = |value: fn(&Phase) -> f64| phases.iter().map(value).sum::<f64>() / phases.len().max(1) as f64;
    let capacities: Vec<f64> = phases.iter().filter_map(|phase| phase.capacity).collect();
    Phase {
        goodput: over(|phase| phase.goodput),
        p50_ms: over(|phase| phase.p50_ms),
        p99_ms: over(|phase| phase.p99_ms),
        shed: over(|phase| phase.shed),
        in_time: over(|phase| phase.in_time),
        capacity: (!capacities.is_empty()).then(|| capacities.iter().sum::<f64>() / capacities.len() as f64),
    }
}

/// The service's parameters, without a capacity for the published estimators.
fn spec(source: Source, slo: Duration) -> ServiceSpec {
    let capacity = match source {
        Source::Static => Some(CapacitySpec::Static { limit: i64::from(SLO) }),
        Source::Average => Some(CapacitySpec::Average { interval: Some("30s".to_owned()) }),
        Source::Slo | Source::SloMargin | Source::SloUntold => {
            let slo = if source == Source::SloMargin { slo * 3 / 4 } else { slo };
            Some(CapacitySpec::Slo { slo: humantime::format_duration(slo).to_string().replace(' ', "") })
        }
        _ => None,
    };
    ServiceSpec {
        capacity,
        concurrency: matches!(source, Source::Slo | Source::SloMargin).then_some(1),
        // The application has no queue of its own.
        hold: Some(true),
        ..ServiceSpec::default()
    }
}

/// BLOC with servers that differ only in the source of their capacity.
struct Compared {
    mesh: Mesh,
    source: Source,
    parameters: ServiceParameters,
    slo: Duration,
    ends: Timestamp,
    /// The capacity last reported by each server before the end.
    capacities: RefCell<Vec<Rc<RefCell<Option<u32>>>>>,
}

impl Compared {
    fn new(source: Source, case: &Scenario, ends: Timestamp) -> Result<Self, ScenarioError> {
        Ok(Self {
            mesh: Mesh::new("bloc", case)?,
            source,
            parameters: case.service.validate()?,
            slo: case.service_time.mean() * SLO,
            ends,
            capacities: RefCell::default(),
        })
    }

    fn capacity(&self) -> Option<f64> {
        let known: Vec<f64> = self.capacities.borrow().iter().filter_map(|last| last.borrow().map(f64::from)).collect();
        (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
    }
}

impl Policy for Compared {
    fn sender(&self) -> Box<dyn SenderModel> {
        self.mesh.sender()
    }

    fn server(&self) -> Box<dyn ServerModel> {
        let headroom = Ratio::within(self.parameters.headroom());
        let model: Box<dyn ServerModel> = match self.source {
            Source::Static | Source::Average | Source::Slo | Source::SloMargin | Source::SloUntold => {
                Box::new(Inbound::new(&self.parameters))
            }
            Source::Gradient2 => Box::new(Limited::new(Gradient2::new(20), headroom)),
            Source::Gradient2Low => Box::new(Limited::new(Gradient2::new(1), headroom)),
            Source::Vegas => Box::new(Limited::new(Vegas::default(), headroom)),
            Source::Aimd => Box::new(Limited::new(Aimd::new(Duration::from_secs(5), 20), headroom)),
            Source::AimdSlo => Box::new(Limited::new(Aimd::new(self.slo, 1), headroom)),
            Source::AimdMargin => Box::new(Limited::new(Aimd::new(self.slo * 3 / 4, 1), headroom)),
        };
        let last = Rc::new(RefCell::new(None));
        self.capacities.borrow_mut().push(Rc::clone(&last));
        Box::new(Watched { model, ends: self.ends, last })
    }
}

/// A server whose reports are recorded.
struct Watched {
    model: Box<dyn ServerModel>,
    ends: Timestamp,
    last: Rc<RefCell<Option<u32>>>,
}

impl Watched {
    fn read(&self, report: &LoadReport, now: Timestamp) {
        if now < self.ends {
            *self.last.borrow_mut() = report.capacity;
        }
    }
}

impl ServerModel for Watched {
    fn arrive(&mut self, request: u32, bid: Option<Bid>, now: Timestamp, rng: &mut fastrand::Rng) -> Verdict {
        let verdict = self.model.arrive(request, bid, now, rng);
        if let Verdict::Rejected(report) | Verdict::Bounced(report) = &verdict {
            self.read(report, now);
        }
        verdict
    }

    fn begin(&mut self, request: u32, now: Timestamp) {
        self.model.begin(request, now);
    }

    fn answer(&mut self, request: u32, now: Timestamp, rng: &mut fastrand::Rng) -> Option<LoadReport> {
        let report = self.model.answer(request, now, rng);
        if let Some(report) = &report {
            self.read(report, now);
        }
        report
    }
}
