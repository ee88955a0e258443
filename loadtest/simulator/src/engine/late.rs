//! Late binding: the messages between callers and servers that reserve, and the central queue.
//!
//! The decisions are in `policies::reserve` and `policies::central`; here they travel. A message
//! takes one way, and may be lost if the case says so. A call that breaks, because its server is
//! dead or cannot be reached, is no message and always noticed.

use super::Simulation;
use super::mailbox::Mail;
use crate::events::Event;
use crate::outcome::End;
use crate::policies::reserve::{Asked, Reservation, Reserving, Search};
use crate::policies::{Binding, Central, Choice, Moment};
use std::time::Duration;

impl Simulation<'_> {
    fn mail(&mut self, delay: Duration, mail: Mail) {
        let index = self.late.mail.insert(mail);
        self.after(delay, Event::Mail(index));
    }

    /// Sends a message that the network may lose.
    fn mail_unless_lost(&mut self, mail: Mail) {
        let Binding::Reserve(Reserving { lost, .. }) = self.late.binding else { return };
        if lost == 0.0 || self.generators.losses.f64() >= lost {
            self.mail(self.scenario.one_way, mail);
        }
    }

    /// Something arrives, or a time is over.
    pub(super) fn deliver(&mut self, index: u32) {
        let mail = self.late.mail[index];
        self.late.mail.free(index);
        match mail {
            Mail::Reserve { server, reservation, is_question } => self.reserved(server, reservation, is_question),
            Mail::Grant { server, reservation } => self.granted(server, reservation),
            Mail::Fail(Reservation { id, request }) => {
                if self.late.of(request).failed(id) {
                    self.search_on(request);
                }
            }
            Mail::Cancel { server, id } => {
                if let Some(queue) = self.servers[server as usize].model.reservations() {
                    queue.cancel(id);
                    self.grant(server);
                }
            }
            Mail::Expire { server, id } => {
                if self.servers[server as usize].model.reservations().is_some_and(|queue| queue.expire(id)) {
                    self.tally.expired_grant(self.now);
                    self.grant(server);
                }
            }
            Mail::Patience(Reservation { id, request }) => {
                if let Some(open) = self.late.of(request).out_of_patience(id) {
                    self.cancel(open);
                    self.search_on(request);
                }
            }
            Mail::Turned { server } => self.turned(server),
            Mail::Join { request } => {
                self.late.central.push_back(request);
                self.serve_the_central_queue();
            }
        }
    }

    /// A caller begins to look for a place, at the server of its `first` choice.
    pub(super) fn search(&mut self, index: u32, first: Choice, settings: Reserving) {
        *self.late.of(index) = Search::default();
        if settings.question {
            self.ask(index, vec![first.server], true);
        } else {
            self.launch(index, first, None);
        }
    }

    /// It has not found one yet: the next round, or any server without a limit.
    pub(super) fn search_on(&mut self, index: u32) {
        let Binding::Reserve(settings) = self.late.binding else { return };
        let may_ask = self.late.of(index).another_round(settings.rounds);
        let request = &mut self.requests[index];
        let wanted = if may_ask { settings.servers as usize } else { 1 };
        let mut servers: Vec<u32> = request.plan.by_ref().take(wanted).collect();
        if servers.is_empty() {
            // Each server has been asked once: from the start again, in another order.
            let mut moment = Moment { now: self.now, rng: &mut self.generators.senders, view: &self.view };
            let attempt = u32::from(request.attempts).max(1);
            let again = self.senders[request.sender as usize].choose(&mut request.plan, attempt, &mut moment);
            servers.extend(again.map(|choice| choice.server));
            servers.extend(request.plan.by_ref().take(wanted - 1));
        } else if servers.len() < wanted {
            // With few servers, those that bounced it are asked again: else the slow one of two
            // gets half of the requests.
            let asked = request.plan.servers().iter().copied().filter(|server| !servers.contains(server));
            let asked: Vec<u32> = asked.take(wanted - servers.len()).collect();
            servers.extend(asked);
        }
        match servers.first() {
            None => self.end(index, End::Error),
            Some(&server) if !may_ask => self.launch(index, Choice::plain(server), None),
            Some(_) => self.ask(index, servers, false),
        }
    }

    /// Sends reservations, or one question.
    fn ask(&mut self, index: u32, servers: Vec<u32>, is_question: bool) {
        let Binding::Reserve(settings) = self.late.binding else { return };
        let first = Reservation { id: self.late.next, request: index };
        let (origin, started) = (self.requests[index].sender, self.requests[index].started);
        self.tally.reserve(started, servers.len());
        let mut asked = Vec::with_capacity(servers.len());
        for server in servers {
            let reservation = Reservation { id: self.late.next, request: index };
            self.late.next += 1;
            asked.push(Asked { id: reservation.id, server });
            if self.reaches(origin, server) {
                self.mail(self.scenario.one_way, Mail::Reserve { server, reservation, is_question });
            } else {
                self.mail(self.scenario.connect_timeout, Mail::Fail(reservation));
            }
        }
        self.late.of(index).begin(asked);
        self.mail(settings.patience, Mail::Patience(first));
    }

    /// A reservation reaches its server.
    fn reserved(&mut self, server: u32, reservation: Reservation, is_question: bool) {
        let state = &mut self.servers[server as usize];
        let takes = state.up && !state.rejecting;
        match state.model.reservations().filter(|queue| takes && (!is_question || queue.is_free())) {
            None => self.mail(self.scenario.one_way, Mail::Fail(reservation)),
            Some(queue) => {
                queue.reserve(reservation);
                self.grant(server);
            }
        }
    }

    /// A server grants what it can.
    fn grant(&mut self, server: u32) {
        let Binding::Reserve(settings) = self.late.binding else { return };
        // Each turn takes a reservation out of the queue.
        while let Some(reservation) = self.servers[server as usize].model.reservations().and_then(|queue| queue.grant())
        {
            self.mail_unless_lost(Mail::Grant { server, reservation });
            self.mail(settings.keep, Mail::Expire { server, id: reservation.id });
        }
    }

    /// A grant reaches its caller.
    fn granted(&mut self, server: u32, reservation: Reservation) {
        let Binding::Reserve(settings) = self.late.binding else { return };
        let Reservation { id, request } = reservation;
        let Some(others) = self.late.of(request).granted(id) else {
            self.tally.refused_grant(self.now);
            return self.mail_unless_lost(Mail::Cancel { server, id });
        };
        if settings.callers_die > 0.0 && self.generators.losses.f64() < settings.callers_die {
            return self.end(request, End::Error);
        }
        self.cancel(others);
        let bid = Some(Duration::ZERO.into());
        self.launch(request, Choice { bid, ..Choice::plain(server) }, Some(id));
    }

    fn cancel(&mut self, reservations: Vec<Asked>) {
        for Asked { id, server } in reservations {
            self.mail_unless_lost(Mail::Cancel { server, id });
        }
    }

    /// A place has become free: whoever waits for it gets it, a sidecar's reservations after the
    /// time of a hand-over.
    pub(super) fn place_is_free(&mut self, place: usize) {
        match self.late.binding {
            Binding::Early => {}
            Binding::Central => self.serve_the_central_queue(),
            Binding::Reserve(_) => {
                let hand_over = self.scenario.hand_over;
                let state = &mut self.servers[place];
                let Some(queue) = state.model.reservations() else { return };
                if hand_over.is_zero() || !queue.waits() || !queue.is_free() {
                    return self.grant(place as u32);
                }
                queue.turn();
                state.hand_overs.push_back(self.now.after(hand_over));
                self.mail(hand_over, Mail::Turned { server: place as u32 });
            }
        }
    }

    fn turned(&mut self, server: u32) {
        let state = &mut self.servers[server as usize];
        // A server that died meanwhile has lost its places.
        if state.hand_overs.front() == Some(&self.now) {
            state.hand_overs.pop_front();
            if let Some(queue) = state.model.reservations() {
                queue.turned();
            }
            self.grant(server);
        }
    }

    /// A server dies: the calls of its reservations break.
    pub(super) fn lose_reservations(&mut self, place: usize) {
        let lost = self.servers[place].model.reservations().map(|queue| queue.die());
        for reservation in lost.into_iter().flatten() {
            self.mail(self.scenario.one_way, Mail::Fail(reservation));
        }
    }

    /// A request goes to the central queue.
    pub(super) fn join_the_central_queue(&mut self, request: u32) {
        self.requests[request].began = self.now;
        self.mail(self.scenario.one_way, Mail::Join { request });
    }

    /// Requests of the central queue take the free places.
    fn serve_the_central_queue(&mut self) {
        while let Some(&index) = self.late.central.front() {
            let Some(server) = Central::free_place(&self.view, &mut self.generators.senders) else { return };
            self.late.central.pop_front();
            let request = &mut self.requests[index];
            request.attempts += 1;
            (request.server, request.bid) = (server, None);
            self.tally.attempt(request.started, server, self.now);
            self.view.committed[server as usize] += 1;
            self.reach(index);
        }
    }
}
