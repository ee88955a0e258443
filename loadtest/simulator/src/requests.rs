//! The requests under way, in a slab that uses its slots again: it allocates nothing once it has
//! reached its largest size.

use bloc_policy::endpoints::{Answer, Permit};
use bloc_policy::sender::retries::Retries;
use bloc_policy::units::Timestamp;
use bloc_policy::wire::bid::Bid;
use std::time::Duration;

/// No request, server, sender or client.
pub const NONE: u32 = u32::MAX;
/// One attempt and at most ten retries.
pub const MOST_ATTEMPTS: usize = 11;

/// The servers of a request in the order of its attempts, for policies that choose them all at
/// once.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    servers: [u32; MOST_ATTEMPTS],
    length: u8,
    next: u8,
    /// How often the request may be sent again.
    pub retries: Retries,
}

impl Default for Plan {
    fn default() -> Self {
        Self { servers: [NONE; MOST_ATTEMPTS], length: 0, next: 0, retries: Retries::new(0, 0, 0) }
    }
}

impl Plan {
    /// Replaces the servers, of which at most [`MOST_ATTEMPTS`] are kept.
    pub fn set(&mut self, servers: impl IntoIterator<Item = u32>) {
        *self = Self { retries: self.retries, ..Self::default() };
        for (place, server) in self.servers.iter_mut().zip(servers) {
            *place = server;
            self.length += 1;
        }
    }

    /// The servers of the plan.
    pub fn servers(&self) -> &[u32] {
        &self.servers[..usize::from(self.length)]
    }
}

/// The next server.
impl Iterator for Plan {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let server = *self.servers().get(usize::from(self.next))?;
        self.next += 1;
        Some(server)
    }
}

/// Where a request is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// On its way to a server or back.
    Network,
    /// In the queue of its server.
    Queue,
    /// In service.
    Service,
    /// Its answer is on its way from the application to the server's sidecar.
    Answered,
    /// Its server died, and the request goes on under another number. This slot waits for an event
    /// that no longer has an effect.
    Failed,
}

/// A request under way.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// When it arrived.
    pub started: Timestamp,
    /// When this attempt began.
    pub began: Timestamp,
    /// When this attempt reached its server.
    pub reached: Timestamp,
    /// When its server began to work on it.
    pub begun: Timestamp,
    /// Until when its server holds it, if it then bounces it.
    pub held_until: Option<Timestamp>,
    /// What it costs a server of speed 1.
    pub work: Duration,
    /// The longest wait that this attempt accepts; none: no limit.
    pub bid: Option<Bid>,
    /// The attempt's permission: a chip, a probe, or forced.
    pub permit: Permit,
    /// The reservation whose grant this attempt brings.
    pub grant: Option<u64>,
    /// Whether its server fails this attempt.
    pub fails: bool,
    /// Whether its server answers it with a client's error.
    pub is_refused: bool,
    /// How this attempt ended, once that is known.
    pub answer: Answer,
    /// The servers to be tried.
    pub plan: Plan,
    /// Which sender sends it.
    pub sender: u32,
    /// The server of this attempt.
    pub server: u32,
    /// The client that waits for it; [`NONE`]: open load.
    pub client: u32,
    /// The next request in the queue.
    pub behind: u32,
    /// Requests in the server at its arrival.
    pub met: u32,
    /// Attempts that have begun.
    pub attempts: u8,
    /// Where it is.
    pub place: Place,
}

impl Request {
    /// A request that has not been sent anywhere.
    pub fn new(started: Timestamp, work: Duration, sender: u32, client: u32) -> Self {
        Self {
            started,
            began: started,
            reached: started,
            begun: started,
            held_until: None,
            work,
            bid: None,
            permit: Permit::Chip,
            grant: None,
            fails: false,
            is_refused: false,
            answer: Answer::Failed,
            plan: Plan::default(),
            sender,
            server: NONE,
            client,
            behind: NONE,
            met: 0,
            attempts: 0,
            place: Place::Network,
        }
    }
}

/// Values under small numbers that are used again.
#[derive(Clone, Debug)]
pub struct Slab<T> {
    slots: Vec<T>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), free: Vec::new() }
    }
}

impl<T> Slab<T> {
    /// Keeps a value under a free number.
    pub fn insert(&mut self, value: T) -> u32 {
        match self.free.pop() {
            Some(index) => {
                self.slots[index as usize] = value;
                index
            }
            None => {
                self.slots.push(value);
                (self.slots.len() - 1) as u32
            }
        }
    }

    /// Frees the number.
    pub fn free(&mut self, index: u32) {
        self.free.push(index);
    }

    /// The numbers in use and the free ones.
    pub fn indices(&self) -> std::ops::Range<u32> {
        0..self.slots.len() as u32
    }

    /// Whether none is kept.
    pub fn is_empty(&self) -> bool {
        self.slots.len() == self.free.len()
    }
}

impl<T> std::ops::Index<u32> for Slab<T> {
    type Output = T;

    fn index(&self, index: u32) -> &T {
        &self.slots[index as usize]
    }
}

impl<T> std::ops::IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, index: u32) -> &mut T {
        &mut self.slots[index as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reuses_a_freed_slot() {
        let mut slab = Slab::default();
        let (first, second) = (slab.insert('a'), slab.insert('b'));
        slab.free(first);
        assert_eq!(slab.insert('c'), first);
        assert_eq!((slab[first], slab[second]), ('c', 'b'));
        assert_eq!(slab.indices(), 0..2);
    }

    #[test]
    fn a_slab_is_empty_once_all_are_freed() {
        let mut slab = Slab::default();
        let (first, second) = (slab.insert('a'), slab.insert('b'));
        slab.free(first);
        assert!(!slab.is_empty());
        slab.free(second);
        assert!(slab.is_empty());
    }

    #[test]
    fn a_plan_is_bounded_and_gives_each_server_once() {
        let mut plan = Plan::default();
        plan.set(0..20);
        assert_eq!(plan.servers().len(), MOST_ATTEMPTS);
        assert_eq!((plan.next(), plan.next()), (Some(0), Some(1)));
        plan.set([7]);
        assert_eq!((plan.next(), plan.next()), (Some(7), None));
    }

    #[test]
    fn a_plan_of_other_servers_leaves_the_request_its_retries() {
        let mut plan = Plan { retries: Retries::new(0, 0, 2), ..Plan::default() };
        plan.set([7]);
        assert_eq!(plan.retries.left(), 2);
    }
}
