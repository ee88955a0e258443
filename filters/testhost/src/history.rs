//! Random histories of configurations that come and go: pure data, which a test plays in this host
//! or in a real Envoy.
//!
//! A [`History`] is what happens to one proxy: listeners are set, updated, rolled back and removed,
//! the control plane changes its parameters, requests come. It says when, as time since the start;
//! the player decides what that means. The same seed and [`Shape`] give the same history.
//!
//! Everything is drawn from small pools, so that a configuration comes back, as a rollback and in
//! two listeners at once: a listener has one of few [`SLOTS`] and one of [`Configuration::count`]
//! configurations.

use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// The services: two that listeners name, and a third to which a service is renamed.
pub const SERVICES: [&str; 3] = ["alpha", "beta", "gamma"];

/// The direction of a listener's requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// `bloc.inbound`.
    Inbound,
    /// `bloc.outbound`, with `bloc.attempt` behind it.
    Outbound,
}

/// A place for a listener: its name and its direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot {
    /// The name of the listener.
    pub name: &'static str,
    /// Its direction.
    pub direction: Direction,
}

/// The slots, in the order in which a [`Shape`] uses them.
pub const SLOTS: [Slot; 5] = [
    Slot { name: "in1", direction: Direction::Inbound },
    Slot { name: "out1", direction: Direction::Outbound },
    Slot { name: "in2", direction: Direction::Inbound },
    Slot { name: "in3", direction: Direction::Inbound },
    Slot { name: "out2", direction: Direction::Outbound },
];

/// The parameters of a service that histories vary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// The most requests at the server, held ones included.
    pub capacity: u32,
    /// The most of these inside the application.
    pub concurrency: u32,
    /// The longest time that a request may be held.
    pub max_queue_wait: Duration,
    /// How often a caller retries.
    pub retries: u32,
}

impl Terms {
    const fn new(capacity: u32, concurrency: u32, max_queue_wait: u64, retries: u32) -> Self {
        Self { capacity, concurrency, max_queue_wait: Duration::from_millis(max_queue_wait), retries }
    }

    /// As in the configuration.
    pub fn json(&self) -> Value {
        json!({
            // Bids would come on top of `retries`.
            "routing": "bloc",
            "capacity": {"estimator": "static", "limit": self.capacity},
            "concurrency": self.concurrency,
            "hold": true,
            "maxQueueWait": format!("{}ms", self.max_queue_wait.as_millis()),
            "retries": self.retries,
            // So the filter asks for exactly `retries`.
            "routeRetries": 0,
        })
    }
}

/// The parameters of services by name.
pub type Services = BTreeMap<&'static str, Terms>;

/// Services as in the configuration.
pub fn services_json(services: &Services) -> Value {
    services.iter().map(|(name, terms)| ((*name).to_owned(), terms.json())).collect::<Map<_, _>>().into()
}

/// The possible terms of a service. No two agree in any value, so an observation tells which are in
/// force.
pub const TERMS: [Terms; 5] = [
    Terms::new(40, 4, 3000, 1),
    Terms::new(5, 2, 2000, 2),
    Terms::new(12, 3, 1500, 4),
    Terms::new(3, 1, 1000, 5),
    Terms::new(25, 6, 2500, 6),
];

/// A plugin configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Configuration {
    /// The service that an inbound listener names.
    pub service: Option<&'static str>,
    /// Its own parameters.
    pub services: Services,
    /// Whether it names the control plane.
    pub control_plane: bool,
}

impl Configuration {
    /// The number of configurations for each direction.
    pub const fn count() -> usize {
        6
    }

    /// The configuration with this number, below [`Self::count`].
    pub fn of(direction: Direction, number: usize) -> Self {
        let [alpha, beta, _] = SERVICES;
        let (service, own, control_plane) = match number {
            0 => (alpha, Some(0), true),
            1 => (alpha, Some(1), true),
            2 => (alpha, Some(2), false),
            3 => (beta, Some(3), true),
            4 => (beta, Some(4), false),
            // Only the control plane can have parameters for it.
            _ => (alpha, None, true),
        };
        let services = own.map(|terms| (service, TERMS[terms])).into_iter().collect();
        Self { service: (direction == Direction::Inbound).then_some(service), services, control_plane }
    }

    /// As Envoy receives it. `cluster`: the control plane's.
    pub fn json(&self, cluster: &str) -> String {
        let mut json = json!({"services": services_json(&self.services)});
        if let Some(service) = self.service {
            json["service"] = service.into();
        }
        if self.control_plane {
            json["controlPlane"] = json!({"cluster": cluster, "wait": "5s"});
        }
        json.to_string()
    }
}

/// An event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A listener is added or updated.
    Set {
        /// The listener.
        slot: Slot,
        /// The number of its [`Configuration`].
        configuration: usize,
    },
    /// A listener that was set is removed.
    Remove {
        /// The listener.
        slot: Slot,
    },
    /// From now on, these are all the parameters that the control plane has.
    Announce(Services),
    /// A burst of requests through a listener that is set.
    Requests {
        /// The listener.
        slot: Slot,
        /// The number of requests, which come at once.
        count: usize,
        /// How long the application takes for each admitted request.
        takes: Duration,
    },
}

/// An event and its time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timed {
    /// Time since the start, not before the previous step.
    pub at: Duration,
    /// The event.
    pub step: Step,
}

/// The limits of a history.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// The most listeners: the first so many of [`SLOTS`]. Below 2 there is no outbound one, below
    /// 3 no second inbound one.
    pub listeners: usize,
    /// No event comes after this time.
    pub duration: Duration,
    /// The longest drain, in seconds; at least one second.
    pub longest_drain: u64,
    /// The longest burst.
    pub largest_burst: usize,
    /// Multiplies every pause: less gives more steps in the same time. The terms of services are
    /// not scaled.
    pub scale: f64,
}

impl Default for Shape {
    fn default() -> Self {
        let duration = Duration::from_secs(30);
        Self { listeners: SLOTS.len(), duration, longest_drain: 8, largest_burst: 20, scale: 1.0 }
    }
}

/// A history of one proxy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct History {
    /// The seed, which with the shape determines the history.
    pub seed: u64,
    /// How long a removed or updated listener drains, in whole seconds.
    pub drain: Duration,
    /// The events, in order. The first two announce the services and set the first listener, both
    /// at the start.
    pub steps: Vec<Timed>,
}

/// The state while a history is drawn.
struct Drawn {
    rng: fastrand::Rng,
    shape: Shape,
    /// The current and the previous configuration of each listener.
    set: BTreeMap<Slot, (usize, Option<usize>)>,
    announced: Services,
}

impl History {
    /// The history of this seed.
    pub fn new(seed: u64, shape: Shape) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let drain = Duration::from_secs(rng.u64(1..=shape.longest_drain.max(1)));
        let mut drawn = Drawn { rng, shape, set: BTreeMap::new(), announced: Services::new() };
        let announce = drawn.announce();
        let first = drawn.set(SLOTS[0]);
        let mut steps = [announce, first].map(|step| Timed { at: Duration::ZERO, step }).to_vec();
        let mut at = Duration::ZERO;
        loop {
            at += drawn.pause();
            if at > shape.duration {
                return Self { seed, drain, steps };
            }
            let step = drawn.step();
            steps.push(Timed { at, step });
        }
    }
}

impl Drawn {
    fn pause(&mut self) -> Duration {
        let millis = match self.rng.u8(..10) {
            // Within the same tick.
            0..4 => self.rng.u64(1..200),
            4..9 => self.rng.u64(200..2000),
            // May outlast a drain.
            _ => self.rng.u64(2000..10_000),
        };
        Duration::from_millis(millis).mul_f64(self.shape.scale)
    }

    fn step(&mut self) -> Step {
        let slots = &SLOTS[..self.shape.listeners.clamp(1, SLOTS.len())];
        let set: Vec<Slot> = self.set.keys().copied().collect();
        match self.rng.u8(..20) {
            0..6 => {
                let slot = slots[self.rng.usize(..slots.len())];
                self.set(slot)
            }
            6..8 if !set.is_empty() => {
                let slot = set[self.rng.usize(..set.len())];
                self.set.remove(&slot);
                Step::Remove { slot }
            }
            8..11 => self.announce(),
            _ => self.requests(&set),
        }
    }

    /// Sets a listener, often to its previous configuration or to that of another.
    fn set(&mut self, slot: Slot) -> Step {
        let here = self.set.get(&slot).copied();
        let configuration = match (self.rng.u8(..10), here) {
            (0..5, Some((_, Some(before)))) => before,
            _ => self.rng.usize(..Configuration::count()),
        };
        self.set.insert(slot, (configuration, here.map(|(configuration, _)| configuration)));
        Step::Set { slot, configuration }
    }

    fn announce(&mut self) -> Step {
        let [alpha, beta, gamma] = SERVICES;
        let terms = TERMS[self.rng.usize(..TERMS.len())];
        match self.rng.u8(..10) {
            0..4 => drop(self.announced.insert(alpha, terms)),
            4..6 => drop(self.announced.insert(beta, terms)),
            6 => drop(self.announced.remove(alpha)),
            7 => self.announced.clear(),
            // Renamed, and back.
            8 => {
                if let Some(terms) = self.announced.remove(alpha) {
                    self.announced.insert(gamma, terms);
                }
            }
            _ => {
                if let Some(terms) = self.announced.remove(gamma) {
                    self.announced.insert(alpha, terms);
                }
            }
        }
        Step::Announce(self.announced.clone())
    }

    fn requests(&mut self, set: &[Slot]) -> Step {
        if set.is_empty() {
            return self.set(SLOTS[0]);
        }
        let slot = set[self.rng.usize(..set.len())];
        let count = self.rng.usize(1..=self.shape.largest_burst.max(1));
        // Some outlive a drain, and most requests that wait.
        let millis = if self.rng.u8(..4) == 0 { self.rng.u64(500..5000) } else { self.rng.u64(5..200) };
        Step::Requests { slot, count, takes: Duration::from_millis(millis) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_history() {
        let history = |seed| History::new(seed, Shape::default());
        assert_eq!(history(1), history(1));
        assert_ne!(history(1).steps, history(2).steps);
    }

    #[test]
    fn only_listeners_that_are_set_are_removed_or_get_requests() {
        let shape = Shape { listeners: 3, ..Shape::default() };
        let (mut rolled_back, mut removed) = (0, 0);
        for seed in 0..100 {
            let history = History::new(seed, shape);
            let (mut set, mut last) = (BTreeMap::new(), Duration::ZERO);
            for Timed { at, step } in history.steps {
                assert!(at >= last && at <= shape.duration, "{seed}");
                last = at;
                match step {
                    Step::Set { slot, configuration } => {
                        assert!(SLOTS[..3].contains(&slot), "{seed}");
                        let before: &mut Vec<usize> = set.entry(slot).or_default();
                        rolled_back += usize::from(before.contains(&configuration));
                        before.push(configuration);
                    }
                    Step::Remove { slot } => {
                        assert!(set.remove(&slot).is_some(), "{seed}");
                        removed += 1;
                    }
                    Step::Requests { slot, count, .. } => {
                        assert!(set.contains_key(&slot) && (1..=20).contains(&count), "{seed}");
                    }
                    Step::Announce(_) => {}
                }
            }
        }
        assert!(rolled_back > 100 && removed > 50, "{rolled_back} {removed}");
    }
}
