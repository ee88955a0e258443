//! The requests that are on their way out of this thread: the state that the filters of a request
//! share, in one table.
//!
//! `bloc.outbound` and `bloc.attempt` are two filters with contexts of their own, and anything may
//! happen between them: other filters wait, other requests come. So what they know of a request
//! lies here under a key that `bloc.outbound` issues and hands on in `x-bloc-endpoints`, the header
//! that it sets anyway. It is there from the choice to the end of the request; an attempt that
//! outlives its request finds nothing. A client that has never seen a key cannot guess one, and
//! `bloc.outbound` overwrites what comes in: a header that a client has made up finds nothing.

use crate::parameters::PluginId;
use bloc_policy::endpoints::EndpointId;
use bloc_policy::wire::endpoints::RequestKey;
use slotmap::{Key, KeyData, SlotMap, new_key_type};
use std::rc::Rc;

new_key_type! {
    struct Place;
}

/// A request that is on its way out.
struct Request<C> {
    plugin: PluginId,
    cluster: Rc<C>,
    first: Option<EndpointId>,
    bids: bool,
    attempts: usize,
    rejected: bool,
}

/// The next attempt of a request.
pub struct Next<C> {
    /// The configuration that the request goes by.
    pub plugin: PluginId,
    /// The cluster that the request goes to.
    pub cluster: Rc<C>,
    /// Which attempt it is; the first is 0.
    pub number: usize,
    /// Where the first attempt ought to go; none for the others, and if nothing was chosen.
    pub first: Option<EndpointId>,
    /// Whether it may make a bid.
    pub bids: bool,
}

/// How a request went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Course {
    /// Attempts that were begun.
    pub attempts: usize,
    /// Whether the last attempt was rejected.
    pub rejected: bool,
}

/// The requests that are on their way out of this thread.
pub struct Requests<C> {
    requests: SlotMap<Place, Request<C>>,
    secret: u64,
}

impl<C> Requests<C> {
    /// None yet. `secret`: a random number, which makes the keys.
    pub fn new(secret: u64) -> Self {
        Self { requests: SlotMap::with_key(), secret }
    }

    /// A request was placed: its key. `bids`: whether its attempts may make bids.
    pub fn begin(&mut self, plugin: PluginId, cluster: &Rc<C>, first: Option<EndpointId>, bids: bool) -> RequestKey {
        let cluster = Rc::clone(cluster);
        let request = Request { plugin, cluster, first, bids, attempts: 0, rejected: false };
        RequestKey::new(self.requests.insert(request).data().as_ffi() ^ self.secret)
    }

    fn place(&self, key: RequestKey) -> Place {
        KeyData::from_ffi(key.get() ^ self.secret).into()
    }

    /// An attempt of this request begins; none if there is no such request, or if the attempt is of
    /// a copy of it. `listed`: whether the addresses are in the header still. The first attempt takes
    /// them away, so a later one that has them works on a copy that Envoy made before: it mirrors
    /// the request.
    pub fn attempt(&mut self, key: RequestKey, listed: bool) -> Option<Next<C>> {
        let place = self.place(key);
        let request = self.requests.get_mut(place)?;
        let number = request.attempts;
        if listed && number > 0 {
            return None;
        }
        request.attempts += 1;
        request.rejected = false;
        let (plugin, cluster) = (request.plugin, Rc::clone(&request.cluster));
        let (first, bids) = (request.first.take(), request.bids);
        Some(Next { plugin, cluster, number, first, bids })
    }

    /// The present attempt of this request was rejected.
    pub fn rejected(&mut self, key: RequestKey) {
        let place = self.place(key);
        if let Some(request) = self.requests.get_mut(place) {
            request.rejected = true;
        }
    }

    /// How this request went so far; none if there is no such request.
    pub fn course(&self, key: RequestKey) -> Option<Course> {
        let request = self.requests.get(self.place(key))?;
        Some(Course { attempts: request.attempts, rejected: request.rejected })
    }

    /// The request is over.
    pub fn end(&mut self, key: RequestKey) {
        let place = self.place(key);
        self.requests.remove(place);
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLUGIN: PluginId = PluginId::new(1);

    #[test]
    fn a_key_finds_its_own_request_as_long_as_that_lasts() {
        let mut requests = Requests::new(0x0123_4567_89ab_cdef);
        let [one, two] = [Rc::new(1), Rc::new(2)];
        let first = requests.begin(PLUGIN, &one, None, true);
        let second = requests.begin(PLUGIN, &two, None, true);
        assert_eq!(requests.attempt(second, false).map(|next| (*next.cluster, next.number)), Some((2, 0)));
        assert_eq!(requests.attempt(second, false).map(|next| (*next.cluster, next.number)), Some((2, 1)));
        assert_eq!(requests.attempt(first, false).map(|next| (*next.cluster, next.number)), Some((1, 0)));
        requests.rejected(second);
        assert_eq!(requests.course(second), Some(Course { attempts: 2, rejected: true }));
        assert_eq!(requests.course(first), Some(Course { attempts: 1, rejected: false }));
        requests.attempt(second, false);
        assert_eq!(requests.course(second), Some(Course { attempts: 3, rejected: false }), "the next attempt");
        requests.end(second);
        let third = requests.begin(PLUGIN, &one, None, true);
        assert!(requests.attempt(second, false).is_none(), "its place has another request");
        assert!(requests.attempt(third, false).is_some());
    }

    #[test]
    fn a_mirrored_copy_is_no_attempt_of_its_request() {
        let mut requests = Requests::new(0x0123_4567_89ab_cdef);
        let key = requests.begin(PLUGIN, &Rc::new(()), None, true);
        assert_eq!(requests.attempt(key, true).map(|next| next.number), Some(0));
        requests.rejected(key);
        assert!(requests.attempt(key, true).is_none(), "the copy has the addresses still");
        assert_eq!(requests.course(key), Some(Course { attempts: 1, rejected: true }));
        assert_eq!(requests.attempt(key, false).map(|next| next.number), Some(1));
    }

    #[test]
    fn a_key_that_was_made_up_finds_nothing() {
        let mut requests = Requests::new(0x0123_4567_89ab_cdef);
        let key = requests.begin(PLUGIN, &Rc::new(()), None, true);
        for forged in (0..1000).chain([u64::MAX]).map(RequestKey::new).filter(|forged| *forged != key) {
            assert!(requests.attempt(forged, false).is_none(), "{forged:?}");
        }
    }
}
