//! A request from choice to answer: chosen, sent, admitted or bounced, worked on, answered, perhaps
//! retried.

use super::{ProbeUnderWay, Simulation};
use crate::events::Event;
use crate::outcome::End;
use crate::policies::{Binding, Choice, Moment, Verdict};
use crate::requests::Place;
use bloc_policy::endpoints::Answer;
use bloc_policy::units::Timestamp;
use bloc_policy::wire::load_report::LoadReport;
use std::time::Duration;

/// How often a sidecar looks for requests that it has held for too long.
const TICK: u64 = 50_000_000;

/// The first tick at this time or later.
fn tick_after(time: Timestamp) -> Timestamp {
    Timestamp::from_nanos(time.as_nanos().div_ceil(TICK).saturating_mul(TICK))
}

impl Simulation<'_> {
    /// Begins the next attempt of a request.
    pub(super) fn attempt(&mut self, index: u32) {
        if self.late.binding == Binding::Central {
            return self.join_the_central_queue(index);
        }
        let request = &mut self.requests[index];
        let sender = &mut self.senders[request.sender as usize];
        let mut moment = Moment { now: self.now, rng: &mut self.generators.senders, view: &self.view };
        let attempt = request.attempts;
        let Some(choice) = sender.choose(&mut request.plan, u32::from(attempt), &mut moment) else {
            let end = if matches!(
                request.answer,
                Answer::Rejected(_) | Answer::Bounced(_) | Answer::RejectedForDeadline(_)
            ) {
                End::Shed
            } else {
                End::Error
            };
            return self.end(index, end);
        };
        if attempt == 0 {
            sender.probe(&mut self.probed, &mut moment);
        }
        let (origin, started) = (request.sender, request.started);
        if let Binding::Reserve(settings) = self.late.binding {
            self.search(index, choice, settings);
        } else {
            self.launch(index, choice, None);
        }
        if !self.probed.is_empty() {
            self.send_probes(origin, started);
        }
    }

    /// Sends a request to a server, perhaps with the grant of a reservation there.
    pub(super) fn launch(&mut self, index: u32, choice: Choice, grant: Option<u64>) {
        let request = &mut self.requests[index];
        request.attempts += 1;
        request.began = self.now;
        (request.server, request.bid, request.place) = (choice.server, choice.bid, Place::Network);
        (request.permit, request.grant) = (choice.permit, grant);
        let (origin, started) = (request.sender, request.started);
        self.tally.attempt(started, choice.server, self.now);
        self.view.committed[choice.server as usize] += 1;
        if self.reaches(origin, choice.server) {
            self.after(self.scenario.one_way, Event::Reach(index));
        } else {
            self.requests[index].answer = Answer::Failed;
            self.view.committed[choice.server as usize] -= 1;
            self.after(self.scenario.connect_timeout, Event::Return(index));
        }
    }

    /// Whether the network connects this sender to this server.
    pub(super) fn reaches(&self, sender: u32, server: u32) -> bool {
        let cut_off = sender < self.scenario.senders / 2 && server < self.scenario.servers / 2;
        !(self.parted && cut_off)
    }

    /// An attempt reaches its server.
    pub(super) fn reach(&mut self, index: u32) {
        let request = &mut self.requests[index];
        let place = request.server as usize;
        let server = &mut self.servers[place];
        request.reached = self.now;
        (request.fails, request.is_refused) = (false, false);
        if !server.up {
            request.answer = Answer::Failed;
            self.view.committed[place] -= 1;
            return self.after(self.scenario.one_way, Event::Return(index));
        }
        if server.rejecting {
            let idle = LoadReport { queue: Some(0), ..LoadReport::default() };
            request.answer = Answer::Rejected(idle);
            self.view.committed[place] -= 1;
            return self.after(self.scenario.bounce.saturating_sub(self.scenario.one_way), Event::Return(index));
        }
        if request.grant.is_some_and(|id| server.model.reservations().is_some_and(|queue| queue.claim(id))) {
            request.bid = None;
        }
        match server.model.arrive(index, request.bid, self.now, &mut self.generators.servers) {
            verdict @ (Verdict::Rejected(report) | Verdict::Bounced(report) | Verdict::Late(report)) => {
                request.answer = match verdict {
                    Verdict::Bounced(_) => Answer::Bounced(report),
                    Verdict::Late(_) => Answer::RejectedForDeadline(report),
                    Verdict::Rejected(_) | Verdict::Admitted => Answer::Rejected(report),
                };
                self.view.committed[place] -= 1;
                self.after(self.scenario.bounce.saturating_sub(self.scenario.one_way), Event::Return(index));
            }
            Verdict::Admitted => {
                let mut happens = |share: f64| share > 0.0 && self.generators.servers.f64() < share;
                (request.fails, request.is_refused) = (happens(server.failing), happens(server.refusing));
                server.join(index, &mut self.requests);
                self.inside += 1;
                self.tally.admitted(server.inside, self.inside as f64 / f64::from(self.alive));
                self.serve(place);
                self.hold(index);
            }
        }
    }

    /// A request that was admitted and waits is held for as long as its server's sidecar wants, and
    /// up to a tick longer.
    fn hold(&mut self, index: u32) {
        let request = &mut self.requests[index];
        let model = &self.servers[request.server as usize].model;
        request.held_until =
            (request.place == Place::Queue).then(|| model.holds_until(index)).flatten().map(tick_after);
        if let Some(until) = request.held_until {
            self.events.push(until, Event::GiveUp(index));
        }
    }

    /// A sidecar bounces a request that it has held for too long, unless that has left.
    pub(super) fn give_up(&mut self, index: u32) {
        let request = &self.requests[index];
        if request.place != Place::Queue || request.held_until != Some(self.now) {
            return;
        }
        let place = request.server as usize;
        let server = &mut self.servers[place];
        let Some(report) = server.model.give_up(index) else { return };
        server.drop_out(index, &mut self.requests);
        let request = &mut self.requests[index];
        (request.answer, request.place) = (Answer::Bounced(report), Place::Network);
        self.inside -= 1;
        self.view.committed[place] -= 1;
        self.tally.bounced_late(request.started);
        self.after(self.scenario.bounce.saturating_sub(self.scenario.one_way), Event::Return(index));
    }

    /// If the server has a free place, its next waiting request takes it.
    pub(super) fn serve(&mut self, place: usize) {
        // At least one place is left. The filters, before they knew idle streams, held everything.
        let most = self.holds(place).unwrap_or(self.scenario.concurrency);
        let concurrency = most.saturating_sub(self.servers[place].model.places_of_streams()).max(1);
        let next = self.servers[place].next(concurrency, &mut self.requests, self.now);
        if let Some((request, time)) = next {
            self.after(time, Event::Finish(request));
        }
    }

    /// How many requests the sidecar gives to the application at once, if the others wait in the
    /// sidecar: if the application does not queue before that.
    fn holds(&self, place: usize) -> Option<u32> {
        self.servers[place].model.holds().filter(|&places| places <= self.scenario.concurrency)
    }

    /// A place is free again. A sidecar that holds requests takes some time to give it the next
    /// one.
    fn free(&mut self, place: usize) {
        let at_once = self.scenario.hand_over.is_zero() || self.holds(place).is_none();
        let server = &mut self.servers[place];
        if at_once || !server.waits() {
            server.finish();
            return self.serve(place);
        }
        server.hand_overs.push_back(self.now.after(self.scenario.hand_over));
        self.after(self.scenario.hand_over, Event::HandOver(place as u32));
    }

    /// A held request takes the place that was kept for it.
    pub(super) fn hand_over(&mut self, server: u32) {
        let place = server as usize;
        let state = &mut self.servers[place];
        // A server that died meanwhile has lost what it held.
        if state.hand_overs.front() == Some(&self.now) {
            state.hand_overs.pop_front();
            state.finish();
            self.serve(place);
        }
    }

    /// A server has finished a request.
    pub(super) fn finish(&mut self, index: u32) {
        let request = &mut self.requests[index];
        if request.place == Place::Failed {
            return self.requests.free(index);
        }
        let place = request.server as usize;
        if self.scenario.application.is_zero() {
            return self.answered(index);
        }
        request.place = Place::Answered;
        self.after(self.scenario.application, Event::Answer(index));
        if self.holds(place).is_none() {
            self.servers[place].finish();
            self.serve(place);
        }
    }

    /// An application's answer reaches its server's sidecar.
    pub(super) fn answered(&mut self, index: u32) {
        let request = &mut self.requests[index];
        if request.place == Place::Failed {
            return self.requests.free(index);
        }
        let place = request.server as usize;
        // The application's own queue gave the place away when it finished; a sidecar does so only
        // now.
        let frees = self.scenario.application.is_zero() || self.holds(place).is_some();
        let request = &mut self.requests[index];
        let server = &mut self.servers[place];
        let rng = &mut self.generators.servers;
        let report = if request.fails {
            server.model.fail(index, self.now, rng)
        } else {
            server.model.answer(index, self.now, rng)
        };
        request.answer = if request.fails {
            Answer::Erred(report)
        } else if request.is_refused {
            Answer::ClientError(report)
        } else {
            self.tally.served(request.server, self.now);
            report.map_or(Answer::Unreported, Answer::Served)
        };
        request.place = Place::Network;
        server.leave(request, self.now);
        self.inside -= 1;
        self.view.committed[place] -= 1;
        if frees {
            self.free(place);
        }
        self.after(self.scenario.one_way, Event::Return(index));
        self.place_is_free(place);
    }

    /// The answer to an attempt reaches its sender.
    pub(super) fn come_back(&mut self, index: u32) {
        let request = &mut self.requests[index];
        let sender = &mut self.senders[request.sender as usize];
        let attempt = Choice { server: request.server, bid: request.bid, permit: request.permit };
        sender.answer(attempt, &request.answer, request.began, self.now);
        let may_retry = sender
            .again(&mut request.plan, &request.answer, request.bid)
            .unwrap_or(u32::from(request.attempts) <= self.retries);
        match request.answer {
            Answer::Served(_) | Answer::Orca(_) | Answer::Unreported => self.end(index, End::Ok),
            Answer::Bounced(_) if may_retry && matches!(self.late.binding, Binding::Reserve(_)) => {
                self.search_on(index);
            }
            Answer::Rejected(_) | Answer::Bounced(_) | Answer::RejectedForDeadline(_) if may_retry => self.retry(index),
            Answer::Rejected(_) | Answer::Bounced(_) | Answer::RejectedForDeadline(_) => self.end(index, End::Shed),
            Answer::Failed | Answer::Erred(_) if may_retry && self.scenario.retry_failures => self.retry(index),
            Answer::Failed | Answer::Erred(_) | Answer::ClientError(_) | Answer::GivenUp => self.end(index, End::Error),
        }
    }

    /// Begins the next attempt once the back-off is over.
    fn retry(&mut self, index: u32) {
        let retry = u32::from(self.requests[index].attempts);
        match self.scenario.back_off.draw(retry, &mut self.generators.senders) {
            Duration::ZERO => self.attempt(index),
            wait => self.after(wait, Event::Enter(index)),
        }
    }

    fn send_probes(&mut self, sender: u32, started: Timestamp) {
        self.tally.probe(started, self.probed.len());
        while let Some(server) = self.probed.pop() {
            if self.reaches(sender, server) {
                let probe = self.probes.insert(ProbeUnderWay { sender, server, answer: None });
                self.after(self.scenario.one_way, Event::ProbeReach(probe));
            }
        }
    }

    /// A probe reaches its server; a dead one does not answer.
    pub(super) fn probe_reaches(&mut self, index: u32) {
        let server = &self.servers[self.probes[index].server as usize];
        if !server.up {
            return self.probes.free(index);
        }
        self.probes[index].answer = Some(server.probe());
        self.after(self.scenario.one_way, Event::ProbeReturn(index));
    }

    /// The answer to a probe returns.
    pub(super) fn probe_comes_back(&mut self, index: u32) {
        let ProbeUnderWay { sender, server, ref answer } = self.probes[index];
        if let Some(answer) = *answer {
            self.senders[sender as usize].probed(server, answer, self.now);
        }
        self.probes.free(index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sidecar_looks_every_50_ms() {
        for (time, tick) in [(0, 0), (1, TICK), (TICK, TICK), (TICK + 1, 2 * TICK)] {
            assert_eq!(tick_after(Timestamp::from_nanos(time)), Timestamp::from_nanos(tick), "{time}");
        }
    }
}
