//! The start of a simulation, and the arrival and end of requests.

use super::Simulation;
use crate::events::Event;
use crate::fleet::Server;
use crate::load::Load;
use crate::outcome::End;
use crate::policies::{Lying, Plain, ServerModel, UNAVAILABLE};
use crate::requests::{NONE, Request};
use crate::scenario::{ScenarioError, Spread};
use bloc_figures::service_time::exponential;
use bloc_policy::units::Timestamp;
use std::time::Duration;

impl Simulation<'_> {
    pub(super) fn set_up(&mut self) -> Result<(), ScenarioError> {
        let scenario = self.scenario;
        for server in 0..scenario.servers {
            let member = !scenario.incidents.iter().any(|incident| incident.joins_later(server));
            let model = self.server_model(server)?;
            self.servers.push(Server::new(model, scenario.speed(server), member, self.policy.probes()));
            self.view.committed.push(if member { 0 } else { UNAVAILABLE });
            self.view.rates.push(scenario.service_rate(server));
        }
        self.view.concurrency = scenario.concurrency;
        self.tell_members();
        for index in 0..self.changes.len() {
            self.events.push(self.changes[index].0, Event::Incident(index as u32));
        }
        self.open_streams()?;
        match scenario.load {
            // Spread over one service time, so that the clients do not run in step.
            Load::Closed { clients, .. } => {
                for client in 0..clients {
                    let delay = scenario.service_time.mean().mul_f64(self.generators.arrivals.f64());
                    self.after(delay, Event::Client(client));
                }
            }
            Load::Poisson { .. } | Load::Share(_) => self.await_arrival(),
        }
        Ok(())
    }

    /// The sidecar of a server.
    pub(super) fn server_model(&self, server: u32) -> Result<Box<dyn ServerModel>, ScenarioError> {
        let incidents = &self.scenario.incidents;
        Ok(if incidents.iter().any(|incident| incident.lies(server)) {
            Box::new(Lying::new(&self.scenario.service.validate()?))
        } else if incidents.iter().any(|incident| incident.silences(server)) {
            Box::new(Plain)
        } else {
            self.policy.server()
        })
    }

    /// Tells all senders the current servers.
    pub(super) fn tell_members(&mut self) {
        let members: Vec<u32> = (0..self.scenario.servers).filter(|&s| self.servers[s as usize].member).collect();
        for sender in &mut self.senders {
            sender.members(&members, self.now);
        }
    }

    fn await_arrival(&mut self) {
        if let Some(arrivals) = &self.scenario.arrivals {
            let next = arrivals.get(self.replayed).map(|at| Timestamp::ZERO.after(*at));
            if let Some(at) = next.filter(|at| *at < self.tally.closes()) {
                self.replayed += 1;
                self.events.push(at, Event::Arrival);
            }
        } else if let Some(gap) = self.gap {
            // A gap that has begun keeps its length when the load changes.
            let delay = exponential(gap.div_f64(self.load_factor), || self.generators.arrivals.f64());
            if self.now.after(delay) < self.tally.closes() {
                self.after(delay, Event::Arrival);
            }
        }
    }

    pub(super) fn arrive(&mut self) {
        self.await_arrival();
        self.start(NONE);
    }

    /// A client sends its next request, unless the measured time is over.
    pub(super) fn send(&mut self, client: u32) {
        if self.now < self.tally.closes() {
            self.start(client);
        }
    }

    fn start(&mut self, client: u32) {
        let sender = self.spread(client);
        self.open[sender as usize] += 1;
        self.tally.start();
        let work = self.scenario.service_time.draw(|| self.generators.work.f64());
        let request = self.requests.insert(Request::new(self.now, work, sender, client));
        match self.scenario.edge / 2 {
            Duration::ZERO => self.attempt(request),
            there => self.after(there, Event::Enter(request)),
        }
    }

    fn spread(&mut self, client: u32) -> u32 {
        let senders = self.scenario.senders;
        match self.scenario.spread {
            Spread::Own if client != NONE => client % senders,
            Spread::Random | Spread::Own => self.generators.arrivals.u32(..senders),
            Spread::RoundRobin => {
                self.next_sender = (self.next_sender + 1) % senders;
                self.next_sender
            }
            Spread::LeastRequest => {
                let (first, second) =
                    (self.generators.arrivals.u32(..senders), self.generators.arrivals.u32(..senders));
                if self.open[second as usize] < self.open[first as usize] { second } else { first }
            }
        }
    }

    /// A request is over; the client of a closed load goes on.
    pub(super) fn end(&mut self, index: u32, end: End) {
        let request = self.requests[index];
        let wait = request.begun.since(request.reached);
        self.open[request.sender as usize] -= 1;
        self.late.close(index);
        let back = self.scenario.edge - self.scenario.edge / 2;
        self.tally.end(end, request.started, wait, self.now.after(back));
        self.requests.free(index);
        if request.client != NONE {
            let think = self.scenario.load.think(&mut self.generators.arrivals);
            // Without a server to ask, a request fails at once; the pause keeps the client from
            // spinning.
            let pause = if request.attempts == 0 { Duration::from_millis(1) } else { Duration::ZERO };
            self.after(back + think + pause, Event::Client(request.client));
        }
    }
}
