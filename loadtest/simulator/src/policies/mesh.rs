//! The policies of `bloc-policy`, through the calls that the filters make: `choose` for each
//! request, `begin`, `answer` and `end` for each attempt.
//!
//! When a request has tried its whole list and has retries left, it goes where Envoy's fallback
//! policy sends it: of two servers at random, the one with fewer of the sender's own pending
//! requests. All senders learn of the same servers in the same order, so an endpoint has the same
//! id in all of them, and one table serves all.

use super::{Choice, Inbound, Moment, Plain, Policy, SenderModel, ServerModel};
use crate::requests::{NONE, Plan};
use crate::scenario::{Scenario, ScenarioError};
use bloc_policy::config::{RoutingKind, ServiceParameters, ServiceSpec};
use bloc_policy::endpoints::{Answer, EndpointId};
use bloc_policy::sender::{Attempt, Sender};
use bloc_policy::units::Timestamp;
use bloc_policy::units::rng::Rng;
use bloc_policy::wire::bid::Bid;
use bloc_policy::wire::reason::Reason;
use serde::Deserialize;
use serde::de::value::{Error, StrDeserializer};
use slotmap::Key;
use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Duration;

/// A routing of `bloc_policy`.
pub struct Mesh {
    directory: Rc<RefCell<Directory>>,
    admission: bool,
    deadline: Option<Duration>,
}

impl Mesh {
    /// A policy with the inbound filter before each server.
    pub fn new(routing: &'static str, scenario: &Scenario) -> Result<Self, ScenarioError> {
        let kind = RoutingKind::deserialize(StrDeserializer::<Error>::new(routing));
        let kind = kind.map_err(|_| ScenarioError::NoSuchRouting(routing))?;
        let spec = ServiceSpec { routing: Some(kind), endpoints: None, ..scenario.service.clone() };
        let directory = Directory {
            parameters: spec.validate()?.with_baseline(kind),
            spec,
            members: Vec::new(),
            addresses: (0..scenario.servers).map(Directory::address).collect(),
            ids: vec![EndpointId::null(); scenario.servers as usize],
            servers: Vec::new(),
        };
        Ok(Self { directory: Rc::new(RefCell::new(directory)), admission: true, deadline: scenario.deadline })
    }

    /// A policy with nothing before the servers, as in stock Envoy.
    pub fn without_admission(routing: &'static str, scenario: &Scenario) -> Result<Self, ScenarioError> {
        Ok(Self { admission: false, ..Self::new(routing, scenario)? })
    }
}

impl Policy for Mesh {
    fn sender(&self) -> Box<dyn SenderModel> {
        Box::new(MeshSender { sender: None, directory: Rc::clone(&self.directory), filters: self.admission })
    }

    fn server(&self) -> Box<dyn ServerModel> {
        if !self.admission {
            return Box::new(Plain);
        }
        Box::new(Inbound::with_deadline(&self.directory.borrow().parameters, self.deadline))
    }
}

/// What all senders share: the parameters in force, and the servers' addresses and ids.
struct Directory {
    spec: ServiceSpec,
    parameters: ServiceParameters,
    members: Vec<u32>,
    /// The address of each server.
    addresses: Vec<String>,
    /// The endpoint of each server.
    ids: Vec<EndpointId>,
    /// The server of each endpoint, by the slot of its id.
    servers: Vec<u32>,
}

impl Directory {
    fn address(server: u32) -> String {
        let [_, b, c, d] = server.to_be_bytes();
        SocketAddr::from(([10, b, c, d], 80)).to_string()
    }

    /// Sets new members, unless they are known already.
    fn update(&mut self, members: &[u32]) {
        if self.members == members {
            return;
        }
        self.members = members.to_vec();
        let endpoints = members.iter().map(|&server| Self::address(server)).collect();
        let spec = ServiceSpec { endpoints: Some(endpoints), ..self.spec.clone() };
        let checked = spec.validate().expect("a spec that was valid without endpoints is valid with these");
        self.parameters = checked.with_baseline(self.parameters.routing());
    }

    /// Learns the ids from a sender that has the members in force.
    fn learn(&mut self, sender: &Sender) {
        for &server in &self.members {
            let id = sender.endpoints().find(&Self::address(server)).expect("a member is an endpoint of every sender");
            let slot = slot(id);
            if self.servers.len() <= slot {
                self.servers.resize(slot + 1, NONE);
            }
            (self.ids[server as usize], self.servers[slot]) = (id, server);
        }
    }
}

fn slot(id: EndpointId) -> usize {
    (id.data().as_ffi() & u64::from(u32::MAX)) as usize
}

struct MeshSender {
    sender: Option<Sender>,
    directory: Rc<RefCell<Directory>>,
    /// Whether it models our filters; otherwise stock Envoy.
    filters: bool,
}

impl MeshSender {
    /// The choice of Envoy's fallback policy.
    fn fallback(sender: &Sender, directory: &Directory, rng: &mut fastrand::Rng) -> Option<u32> {
        let members = &directory.members;
        let pending = |server: u32| {
            sender.endpoints().get(directory.ids[server as usize]).map_or(u32::MAX, |endpoint| endpoint.pending())
        };
        let first = *members.get(rng.below(members.len()))?;
        let second = *members.get(rng.below(members.len()))?;
        Some(if pending(second) < pending(first) { second } else { first })
    }
}

impl SenderModel for MeshSender {
    fn members(&mut self, servers: &[u32], now: Timestamp) {
        let mut directory = self.directory.borrow_mut();
        let first = directory.members != servers;
        directory.update(servers);
        let parameters = directory.parameters.clone();
        let sender = match self.sender.take() {
            Some(mut sender) => {
                sender.configure(parameters, now);
                sender
            }
            None => Sender::new(parameters, now),
        };
        if first {
            directory.learn(&sender);
        }
        self.sender = Some(sender);
    }

    fn choose(&mut self, plan: &mut Plan, attempt: u32, moment: &mut Moment<'_>) -> Option<Choice> {
        let sender = self.sender.as_mut()?;
        let directory = self.directory.borrow();
        if attempt == 0 {
            let list = sender.choose(moment.now, moment.rng);
            plan.set(list.iter().map(|&id| directory.servers[slot(id)]));
            // The simulator's own retries after failures, if any, have the same limit.
            plan.retries = sender.retries(sender.parameters().retries(), true);
        }
        let turn = plan.retries.bid();
        // Envoy passes over servers that have left since the list was made.
        let begin = |sender: &mut Sender, server: u32| {
            let address = &directory.addresses[server as usize];
            let attempt = sender.begin(address, turn, moment.now)?;
            Some(Choice { server, bid: attempt.bid, permit: attempt.permit })
        };
        plan.find_map(|server| begin(sender, server)).or_else(|| {
            let server = Self::fallback(sender, &directory, moment.rng)?;
            begin(sender, server)
        })
    }

    fn again(&self, plan: &mut Plan, answer: &Answer, bid: Option<Bid>) -> Option<bool> {
        Some(match answer {
            Answer::Bounced(report) => plan.retries.rejected_for(Some(Reason::Bid), bid, report),
            Answer::Rejected(_) | Answer::RejectedForDeadline(_) => plan.retries.rejected(true),
            _ => plan.retries.take_route_retry(),
        })
    }

    fn answer(&mut self, Choice { server, bid, permit }: Choice, answer: &Answer, began: Timestamp, now: Timestamp) {
        let Some(sender) = self.sender.as_mut() else { return };
        let endpoint = self.directory.borrow().ids[server as usize];
        let attempt = Attempt { endpoint, began, bid, permit, explores: false };
        sender.answer(&attempt, *answer, now);
        if matches!(answer, Answer::Rejected(_)) {
            sender.refused_as_full();
        }
        sender.end(&attempt);
    }

    fn stream(&mut self, server: u32, counts: bool) {
        let Some(sender) = self.sender.as_mut() else { return };
        let endpoint = self.directory.borrow().ids[server as usize];
        if counts {
            sender.resume(endpoint);
        } else if self.filters {
            sender.idle(endpoint);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policies::View;
    use std::collections::BTreeSet;

    #[test]
    fn chooses_among_exactly_the_current_members() {
        let scenario = Scenario { servers: 5, ..Scenario::default() };
        let mesh = Mesh::new("random", &scenario).unwrap();
        let (mut rng, view) = (fastrand::Rng::with_seed(1), View::default());
        let mut senders: Vec<_> = (0..2).map(|_| mesh.sender()).collect();
        for members in [vec![0, 1, 2], vec![1, 2, 4], vec![0, 1, 3, 4], vec![2, 3]] {
            for sender in &mut senders {
                sender.members(&members, Timestamp::ZERO);
            }
            for sender in &mut senders {
                let mut moment = Moment { now: Timestamp::ZERO, rng: &mut rng, view: &view };
                let chosen: BTreeSet<u32> = (0..100)
                    .map(|_| {
                        let choice = sender.choose(&mut Plan::default(), 0, &mut moment).unwrap();
                        sender.answer(choice, &Answer::Unreported, Timestamp::ZERO, Timestamp::ZERO);
                        choice.server
                    })
                    .collect();
                assert_eq!(chosen.into_iter().collect::<Vec<_>>(), members);
            }
        }
    }

    #[test]
    fn refuses_an_unknown_routing() {
        let error = Mesh::new("magic", &Scenario::default()).err().map(|error| error.to_string());
        assert_eq!(error.as_deref(), Some("policy: `bloc-policy` has no routing `magic`"));
    }
}
