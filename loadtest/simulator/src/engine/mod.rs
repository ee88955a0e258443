//! The engine: processes events until none is left.
//!
//! It decides nothing for senders and servers: that is `policies`. The input is in `scenario`.
//!
//! After the measured time no request arrives, and those under way are finished, so that the
//! slowest answers count too. The number of events is bounded by the number of requests, each of
//! which makes at most eleven attempts; with reservations, so many searches of a few rounds each.

mod attempt;
mod incidents;
mod late;
mod mailbox;
mod start;
mod streams;

use crate::events::{Event, Events};
use crate::fleet::Server;
use crate::incident::Change;
use crate::outcome::{Outcome, Tally};
use crate::policies::{self, Policy, Probe, SenderModel, UNAVAILABLE, View};
use crate::requests::{Request, Slab};
use crate::scenario::{Scenario, ScenarioError};
use bloc_policy::units::Timestamp;
use std::time::Duration;

/// Simulates a case with the policy that it names.
///
/// # Errors
/// A value of the scenario is not allowed.
pub fn run(scenario: &Scenario) -> Result<Outcome, ScenarioError> {
    scenario.validate()?;
    run_with(scenario, policies::named(scenario)?.as_ref())
}

/// Simulates a case with this policy instead of the one that the scenario names.
pub fn run_with(scenario: &Scenario, policy: &dyn Policy) -> Result<Outcome, ScenarioError> {
    scenario.validate()?;
    let mut simulation = Simulation::new(scenario, policy)?;
    while simulation.step() {}
    debug_assert!(simulation.is_idle(), "something was lost");
    Ok(simulation.tally.outcome(simulation.happened))
}

/// One generator for each purpose, so that every policy gets the same arrivals with the same
/// service times.
struct Generators {
    arrivals: fastrand::Rng,
    work: fastrand::Rng,
    senders: fastrand::Rng,
    servers: fastrand::Rng,
    streams: fastrand::Rng,
    losses: fastrand::Rng,
}

/// A probe under way.
struct ProbeUnderWay {
    sender: u32,
    server: u32,
    answer: Option<Probe>,
}

struct Simulation<'a> {
    scenario: &'a Scenario,
    policy: &'a dyn Policy,
    now: Timestamp,
    events: Events,
    happened: u64,
    requests: Slab<Request>,
    probes: Slab<ProbeUnderWay>,
    senders: Vec<Box<dyn SenderModel>>,
    /// Requests under way by sender, as the gateway counts them.
    open: Vec<u32>,
    next_sender: u32,
    servers: Vec<Server>,
    view: View,
    /// Requests in all servers together, and the number of servers alive.
    inside: u64,
    alive: u32,
    parted: bool,
    changes: Vec<(Timestamp, Change)>,
    /// Mean time between arrivals of an open load.
    gap: Option<Duration>,
    /// The factor on an open load.
    load_factor: f64,
    /// How many replayed arrivals have been scheduled.
    replayed: usize,
    retries: u32,
    generators: Generators,
    tally: Tally,
    /// Idle streams: sender and server.
    streams: Vec<(u32, u32)>,
    /// A buffer, kept to save allocations.
    probed: Vec<u32>,
    late: mailbox::Late,
}

impl<'a> Simulation<'a> {
    fn new(scenario: &'a Scenario, policy: &'a dyn Policy) -> Result<Self, ScenarioError> {
        let mut seeds = fastrand::Rng::with_seed(scenario.seed);
        let mut generator = || fastrand::Rng::with_seed(seeds.u64(..));
        let generators = Generators {
            arrivals: generator(),
            work: generator(),
            senders: generator(),
            servers: generator(),
            streams: generator(),
            losses: generator(),
        };
        let mut changes: Vec<_> = scenario.incidents.iter().flat_map(|incident| incident.changes()).collect();
        changes.sort_by_key(|&(time, _)| time);
        let capacity: f64 = scenario.members().map(|server| scenario.service_rate(server)).sum();
        let mut simulation = Self {
            scenario,
            policy,
            now: Timestamp::ZERO,
            events: Events::default(),
            happened: 0,
            requests: Slab::default(),
            probes: Slab::default(),
            senders: (0..scenario.senders).map(|_| policy.sender()).collect(),
            open: vec![0; scenario.senders as usize],
            next_sender: 0,
            servers: Vec::new(),
            view: View::default(),
            inside: 0,
            alive: scenario.servers,
            parted: false,
            changes,
            gap: scenario.load.rate(capacity).map(|rate| Duration::from_secs_f64(1.0 / rate)),
            load_factor: 1.0,
            replayed: 0,
            retries: scenario.service.validate()?.retries(),
            generators,
            tally: Tally::new(scenario),
            streams: Vec::new(),
            probed: Vec::new(),
            late: mailbox::Late::new(policy.binding()),
        };
        simulation.set_up()?;
        Ok(simulation)
    }

    /// Whether nothing is under way anywhere.
    fn is_idle(&mut self) -> bool {
        let reserved = |server: &mut Server| server.model.reservations().is_none_or(|queue| queue.is_idle());
        self.requests.is_empty()
            && self.late.is_idle()
            && self.servers.iter_mut().all(reserved)
            && self.probes.is_empty()
            && self.inside == 0
            && self.open.iter().all(|&open| open == 0)
            && self.servers.iter().all(|server| server.inside == 0)
            && self.view.committed.iter().all(|&committed| committed % UNAVAILABLE == 0)
    }

    /// Processes the next event; false: none is left.
    fn step(&mut self) -> bool {
        let Some((time, event)) = self.events.pop() else { return false };
        self.now = time;
        self.happened += 1;
        match event {
            Event::Arrival => self.arrive(),
            Event::Client(client) => self.send(client),
            Event::Reach(request) => self.reach(request),
            Event::Finish(request) => self.finish(request),
            Event::Answer(request) => self.answered(request),
            Event::HandOver(server) => self.hand_over(server),
            Event::GiveUp(request) => self.give_up(request),
            Event::Return(request) => self.come_back(request),
            Event::ProbeReach(probe) => self.probe_reaches(probe),
            Event::ProbeReturn(probe) => self.probe_comes_back(probe),
            Event::Incident(change) => self.change(change),
            Event::Enter(request) => self.attempt(request),
            Event::Mail(mail) => self.deliver(mail),
            Event::StreamsIdle => self.streams_fall_idle(),
        }
        true
    }

    /// Schedules `event` at `delay` from now.
    fn after(&mut self, delay: Duration, event: Event) {
        self.events.push(self.now.after(delay), event);
    }
}
