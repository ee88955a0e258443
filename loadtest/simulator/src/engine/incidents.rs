//! Changes to the fleet: deaths and returns, joins and leaves, slow-downs, other loads, partitions.

use super::Simulation;
use crate::events::Event;
use crate::incident::Change;
use crate::policies::UNAVAILABLE;
use crate::requests::Place;
use bloc_policy::endpoints::Answer;

/// How many requests a cold server begins until it is warm.
const COLD: u32 = 10;

impl Simulation<'_> {
    pub(super) fn change(&mut self, index: u32) {
        match self.changes[index as usize].1 {
            Change::Up(server, true) => self.revive(server),
            Change::Up(server, false) => self.kill(server),
            Change::Member(server, member) => self.set_member(server, member),
            Change::Slow(server, factor) => {
                self.servers[server as usize].factor = factor;
                self.view.rates[server as usize] = self.scenario.service_rate(server) * factor;
            }
            Change::Cold(server, factor) => self.servers[server as usize].cold = (COLD, factor),
            Change::Failing(server, share) => self.servers[server as usize].failing = share,
            Change::Refusing(server, share) => self.servers[server as usize].refusing = share,
            Change::Rejecting(server, rejects) => self.servers[server as usize].rejecting = rejects,
            Change::Load(factor) => self.load_factor = factor,
            Change::Parted(parted) => self.parted = parted,
        }
    }

    fn revive(&mut self, server: u32) {
        let state = &mut self.servers[server as usize];
        if state.up {
            return;
        }
        state.up = true;
        self.alive += 1;
        if state.member {
            self.view.committed[server as usize] -= UNAVAILABLE;
        }
        self.place_is_free(server as usize);
    }

    /// A server dies, and its requests fail.
    fn kill(&mut self, server: u32) {
        let place = server as usize;
        if !self.servers[place].up {
            return;
        }
        // The scenario was valid at the start.
        let Ok(successor) = self.server_model(server) else { return };
        self.inside -= u64::from(self.servers[place].inside);
        self.view.committed[place] -= self.servers[place].inside;
        if self.servers[place].member {
            self.view.committed[place] += UNAVAILABLE;
        }
        self.lose_reservations(place);
        self.servers[place].die(successor);
        self.alive -= 1;
        for index in self.requests.indices() {
            if self.requests[index].server == server {
                self.fail(index);
            }
        }
    }

    /// Fails the request if it is in its server. A `Finish` or `Answer` event that is already
    /// scheduled finds a request that has already failed.
    fn fail(&mut self, index: u32) {
        let request = match self.requests[index].place {
            Place::Network | Place::Failed => return,
            Place::Queue => index,
            Place::Service | Place::Answered => {
                let copy = self.requests[index];
                self.requests[index].place = Place::Failed;
                self.requests.insert(copy)
            }
        };
        self.requests[request].answer = Answer::Failed;
        self.requests[request].place = Place::Network;
        self.after(self.scenario.one_way, Event::Return(request));
    }

    fn set_member(&mut self, server: u32, member: bool) {
        let state = &mut self.servers[server as usize];
        if state.member == member {
            return;
        }
        state.member = member;
        let committed = &mut self.view.committed[server as usize];
        if state.up {
            *committed = if member { *committed - UNAVAILABLE } else { *committed + UNAVAILABLE };
        }
        self.tell_members();
        self.place_is_free(server as usize);
    }
}
