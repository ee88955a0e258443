//! The outgoing requests of this thread: the state that the filters of a request share, in one
//! table.
//!
//! `bloc.outbound` and `bloc.attempt` are two filters with their own contexts. Anything may happen
//! between them: other filters pause the request, other requests arrive. So the state of a request
//! is in this table. `bloc.outbound` creates its key and passes it on in `x-bloc-endpoints`, a
//! header that it sets anyway. An entry exists from the choice of servers to the end of the
//! request; an attempt that outlives its request finds no entry. A client that has never seen a key
//! cannot guess one, and `bloc.outbound` overwrites an incoming header, so a forged header finds no
//! entry.

use crate::parameters::PluginId;
use bloc_policy::endpoints::EndpointId;
use bloc_policy::routing::BidPosition;
use bloc_policy::sender::retries::Retries;
use bloc_policy::units::Timestamp;
use bloc_policy::wire::endpoints::RequestKey;
use slotmap::{Key, KeyData, SlotMap, new_key_type};
use std::rc::Rc;

new_key_type! {
    struct Place;
}

/// An outgoing request.
struct Request<C, S> {
    plugin: PluginId,
    cluster: Rc<C>,
    first: Option<EndpointId>,
    listed: bool,
    retries: Retries,
    /// Whether a response of any status may meet a retry condition of the request's own.
    named: bool,
    attempts: usize,
    /// Attempts at servers without an answer so far: more than one where Envoy hedges.
    pending: usize,
    /// How the last attempt ended.
    last: End,
    /// Whether an attempt has a good answer: Envoy then ends the parallel attempts.
    satisfied: bool,
    /// Whether the last attempt without an answer timed out.
    timed_out: bool,
    /// Attempts that exceed the retries, and wait for those under way.
    surplus: Vec<S>,
    /// Whether no further attempt may follow.
    over: bool,
    /// Whether the answer was marked for Envoy's router.
    marked: bool,
    /// When the last answer came.
    answered: Timestamp,
}

/// How an attempt ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It got no answer, or has not ended.
    NoAnswer,
    /// It got an answer.
    Answered,
    /// It got an answer that is an error.
    Erred,
    /// It was rejected.
    Rejected,
}

/// The next attempt of a request.
pub struct Next<C> {
    /// The configuration of the request.
    pub plugin: PluginId,
    /// The cluster of the request.
    pub cluster: Rc<C>,
    /// The number of the attempt; the first is 0.
    pub number: usize,
    /// The server that was chosen for the first attempt; none for later attempts, and if none was
    /// chosen.
    pub first: Option<EndpointId>,
    /// Whether servers were chosen for the request; if not, Envoy's own policy places its attempts.
    pub listed: bool,
    /// The bid that it makes, if it may make one.
    pub turn: Option<BidPosition>,
    /// How the previous attempt ended; none for the first one.
    pub after: Option<End>,
    /// Whether it may follow the previous one.
    pub may: bool,
    /// Whether other attempts are under way.
    pub hedges: bool,
    /// Whether the last attempt without an answer timed out.
    pub timed_out: bool,
    /// Whether no attempt may follow if this one gets no answer.
    pub is_last: bool,
}

/// What follows an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// Envoy's router decides.
    Envoy,
    /// No further attempt; `named` as in [`Begun`].
    Nothing {
        /// Whether a response of any status may meet a retry condition of the request's own.
        named: bool,
    },
}

impl<C, S> Request<C, S> {
    fn then(&self) -> Then {
        // While others are under way, Envoy must wait for them.
        if self.over && self.pending == 0 { Then::Nothing { named: self.named } } else { Then::Envoy }
    }
}

/// What follows an attempt without an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Nobody waited for its answer any longer.
    pub given_up: bool,
    /// Another attempt may be [due](Requests::due).
    pub due: bool,
}

/// How a request went so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Course {
    /// Attempts begun.
    pub attempts: usize,
    /// How the last attempt ended.
    pub last: End,
    /// Whether the answer was marked for Envoy's router.
    pub marked: bool,
    /// When the last answer came, if there was one.
    pub answered: Timestamp,
}

/// A request before it is sent.
pub struct Begun<C> {
    /// Its configuration.
    pub plugin: PluginId,
    /// Its cluster.
    pub cluster: Rc<C>,
    /// The server chosen for its first attempt.
    pub first: Option<EndpointId>,
    /// The retries that it may have.
    pub retries: Retries,
    /// Whether it names response headers that make a response retriable, whatever its status.
    pub named: bool,
}

/// The outgoing requests of this thread. Their attempts are the streams `S`.
pub struct Requests<C, S> {
    requests: SlotMap<Place, Request<C, S>>,
    /// Requests with a waiting attempt and none under way.
    due: Vec<RequestKey>,
    /// Requests that ended with attempts under way, and the number of those attempts. Nobody waits
    /// for their answers.
    given_up: Vec<(RequestKey, usize)>,
    secret: u64,
}

impl<C, S: Eq> Requests<C, S> {
    /// An empty table. `secret`: a random number, from which the keys are made.
    pub fn new(secret: u64) -> Self {
        Self { requests: SlotMap::with_key(), due: Vec::new(), given_up: Vec::new(), secret }
    }

    /// Adds a request; returns its key.
    pub fn begin(&mut self, begun: Begun<C>) -> RequestKey {
        let Begun { plugin, cluster, first, retries, named } = begun;
        let (last, timed_out, surplus) = (End::NoAnswer, false, Vec::new());
        let (attempts, pending, over, marked) = (0, 0, false, false);
        let request = Request {
            plugin,
            cluster,
            first,
            listed: first.is_some(),
            retries,
            named,
            attempts,
            pending,
            last,
            satisfied: false,
            timed_out,
            surplus,
            over,
            marked,
            answered: Timestamp::ZERO,
        };
        RequestKey::new(self.requests.insert(request).data().as_ffi() ^ self.secret)
    }

    fn place(&self, key: RequestKey) -> Place {
        KeyData::from_ffi(key.get() ^ self.secret).into()
    }

    /// Begins an attempt of this request. None if there is no such request, or if the attempt
    /// belongs to a copy of it. `listed`: whether the header still has the addresses. The first
    /// attempt removes them, so a later one that has them works on a copy that Envoy made before,
    /// to mirror the request.
    pub fn attempt(&mut self, key: RequestKey, listed: bool) -> Option<Next<C>> {
        let place = self.place(key);
        let request = self.requests.get_mut(place)?;
        let number = request.attempts;
        if listed && number > 0 {
            return None;
        }
        request.attempts += 1;
        let after = (number > 0).then_some(request.last);
        let may = match after {
            None => true,
            Some(End::Rejected) => !request.over,
            Some(End::NoAnswer | End::Answered | End::Erred) => !request.over && request.retries.take_route_retry(),
        };
        request.last = End::NoAnswer;
        let (plugin, cluster) = (request.plugin, Rc::clone(&request.cluster));
        let (first, turn, timed_out) = (request.first.take(), request.retries.bid(), request.timed_out);
        let (listed, hedges, is_last) = (request.listed, request.pending > 0, !request.retries.has_route_retry());
        Some(Next { plugin, cluster, number, first, listed, turn, after, may, hedges, timed_out, is_last })
    }

    /// The current attempt of this request was sent to a server.
    pub fn went(&mut self, key: RequestKey) {
        let place = self.place(key);
        if let Some(request) = self.requests.get_mut(place) {
            request.pending += 1;
        }
    }

    /// A server has answered an attempt of this request. Returns whether an attempt may be
    /// [due](Self::due).
    pub fn came(&mut self, key: RequestKey) -> bool {
        self.is_given_up(key);
        self.no_longer_pending(key, false)
    }

    /// An attempt that was sent to a server will get no answer. `timed_out`: it took as long as it
    /// was allowed to.
    pub fn lost(&mut self, key: RequestKey, timed_out: bool) -> Lost {
        let is_answered = self.requests.get(self.place(key)).is_some_and(|request| request.satisfied);
        let given_up = self.is_given_up(key) || is_answered;
        Lost { given_up, due: self.no_longer_pending(key, timed_out) }
    }

    /// An attempt of this request got a good answer.
    pub fn satisfied(&mut self, key: RequestKey) {
        let place = self.place(key);
        if let Some(request) = self.requests.get_mut(place) {
            request.satisfied = true;
        }
    }

    /// Whether this request has ended, so that nobody waits for the answer of this attempt.
    fn is_given_up(&mut self, key: RequestKey) -> bool {
        let Some(place) = self.given_up.iter().position(|(over, _)| *over == key) else { return false };
        if let Some((_, left)) = self.given_up.get_mut(place) {
            *left -= 1;
            if *left == 0 {
                self.given_up.swap_remove(place);
            }
        }
        true
    }

    fn no_longer_pending(&mut self, key: RequestKey, timed_out: bool) -> bool {
        let place = self.place(key);
        let Some(request) = self.requests.get_mut(place) else { return false };
        request.pending = request.pending.saturating_sub(1);
        request.timed_out = timed_out;
        let due = request.pending == 0 && !request.surplus.is_empty();
        if due {
            self.due.push(key);
        }
        due
    }

    /// Returns one waiting attempt of each request that has none under way, which the caller must
    /// answer, and whether the last attempt under way timed out. (If another attempt got a good
    /// answer, Envoy has ended the waiting ones. It has dropped a bad answer, to wait for them.)
    pub fn due(&mut self) -> Vec<(S, bool)> {
        let due = std::mem::take(&mut self.due);
        let surplus = due.into_iter().filter_map(|key| {
            let place = self.place(key);
            let request = self.requests.get_mut(place).filter(|request| request.pending == 0)?;
            Some((request.surplus.pop()?, request.timed_out))
        });
        surplus.collect()
    }

    /// This attempt exceeds the retries, and waits for those under way.
    pub fn wait(&mut self, key: RequestKey, attempt: S) {
        let place = self.place(key);
        if let Some(request) = self.requests.get_mut(place) {
            request.surplus.push(attempt);
        }
    }

    /// This attempt no longer waits.
    pub fn leave(&mut self, key: RequestKey, attempt: &S) {
        let place = self.place(key);
        if let Some(request) = self.requests.get_mut(place) {
            request.surplus.retain(|waiting| waiting != attempt);
        }
    }

    /// An attempt of this request was answered at `now`. `follows` decides, given the retries left,
    /// whether another attempt may follow.
    pub fn ended(
        &mut self,
        key: RequestKey,
        end: End,
        now: Timestamp,
        follows: impl FnOnce(&mut Retries) -> bool,
    ) -> Then {
        let place = self.place(key);
        let Some(request) = self.requests.get_mut(place) else { return Then::Envoy };
        (request.last, request.answered) = (end, now);
        request.over |= !follows(&mut request.retries);
        request.then()
    }

    /// The rejection that has just ended an attempt counts as an error after all, as it would
    /// without the filters.
    pub fn ended_after_all(&mut self, key: RequestKey, follows: impl FnOnce(&mut Retries) -> bool) -> Then {
        let place = self.place(key);
        let Some(request) = self.requests.get_mut(place) else { return Then::Envoy };
        request.last = End::Erred;
        request.over = !follows(&mut request.retries);
        request.then()
    }

    /// The answer of this request's last attempt was marked for Envoy's router.
    pub fn mark(&mut self, key: RequestKey) {
        let place = self.place(key);
        if let Some(request) = self.requests.get_mut(place) {
            request.marked = true;
        }
    }

    /// How this request went so far; none if it does not exist.
    pub fn course(&self, key: RequestKey) -> Option<Course> {
        let request = self.requests.get(self.place(key))?;
        let Request { attempts, marked, last, answered, .. } = *request;
        Some(Course { attempts, marked, last, answered })
    }

    /// The request has ended. `responded`: the caller got a response, from a server or from Envoy.
    pub fn end(&mut self, key: RequestKey, responded: bool) {
        let place = self.place(key);
        let Some(request) = self.requests.remove(place) else { return };
        // After a timeout Envoy first responds, and then ends the attempts.
        if request.pending > 0 && (!responded || request.satisfied) {
            self.given_up.push((key, request.pending));
        }
    }

    /// Whether there are no requests.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }
}

#[cfg(test)]
#[path = "requests_tests.rs"]
mod tests;
