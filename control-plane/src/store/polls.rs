//! The polls that are held, indexed by service, so that a change wakes those that subscribed to it and nobody else.
//!
//! Cost: memory per held poll and subscribed name; a change costs its subscribers, not all polls.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use tokio::sync::oneshot;

/// Identifies a held poll within this process.
pub type PollId = u64;

/// Why a held poll ends before its wait is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Something has changed: it is to be decided about again.
    Moved,
    /// The same proxy has sent a newer poll.
    Superseded,
    /// The control plane shuts down.
    Closing,
}

/// The held polls.
#[derive(Debug, Default)]
pub struct Polls {
    next: PollId,
    held: HashMap<PollId, Held>,
    subscribers: HashMap<String, HashSet<PollId>>,
    /// Those that know more than we do.
    behind: HashSet<PollId>,
}

#[derive(Debug)]
struct Held {
    wake: oneshot::Sender<Wake>,
    subscription: Arc<BTreeSet<String>>,
}

impl Polls {
    /// How many are held.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Holds a poll; the receiver hears why it ends. Whoever drops the receiver must [`release`](Self::release) the id. `behind`: it waits for
    /// our progress and not only for a change.
    pub fn hold(&mut self, subscription: Arc<BTreeSet<String>>, behind: bool) -> (PollId, oneshot::Receiver<Wake>) {
        let id = self.next;
        self.next += 1;
        if behind {
            self.behind.insert(id);
        }
        for name in subscription.iter() {
            self.subscribers.entry(name.clone()).or_default().insert(id);
        }
        let (wake, woken) = oneshot::channel();
        self.held.insert(id, Held { wake, subscription });
        (id, woken)
    }

    /// Ends the polls that subscribed to any of `names`.
    pub fn wake_subscribers<'a>(&mut self, names: impl IntoIterator<Item = &'a String>) -> usize {
        let ids: HashSet<PollId> =
            names.into_iter().filter_map(|name| self.subscribers.get(name)).flatten().copied().collect();
        ids.iter().for_each(|&id| self.wake(id, Wake::Moved));
        ids.len()
    }

    /// Ends those that wait for our progress.
    pub fn wake_behind(&mut self) -> usize {
        let ids = std::mem::take(&mut self.behind);
        ids.iter().for_each(|&id| self.wake(id, Wake::Moved));
        ids.len()
    }

    /// Ends all.
    pub fn wake_all(&mut self, why: Wake) -> usize {
        self.subscribers.clear();
        self.behind.clear();
        let count = self.held.len();
        for (_, held) in self.held.drain() {
            // A receiver that is gone belongs to a client that left; there is nobody to tell.
            let _ = held.wake.send(why);
        }
        count
    }

    /// Ends one, if it is still held.
    pub fn wake(&mut self, id: PollId, why: Wake) {
        if let Some(held) = self.take(id) {
            let _ = held.wake.send(why);
        }
    }

    /// Forgets one whose wait is over or whose client left.
    pub fn release(&mut self, id: PollId) {
        self.take(id);
    }

    fn take(&mut self, id: PollId) -> Option<Held> {
        let held = self.held.remove(&id)?;
        self.behind.remove(&id);
        for name in held.subscription.iter() {
            if let Some(ids) = self.subscribers.get_mut(name) {
                ids.remove(&id);
                if ids.is_empty() {
                    self.subscribers.remove(name);
                }
            }
        }
        Some(held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Arc<BTreeSet<String>> {
        Arc::new(names.iter().map(ToString::to_string).collect())
    }

    #[test]
    fn a_change_wakes_its_subscribers_once() {
        let mut polls = Polls::default();
        let (_, mut both) = polls.hold(names(&["a", "b"]), false);
        let (_, mut other) = polls.hold(names(&["c"]), true);
        assert_eq!(polls.wake_subscribers(names(&["a", "b"]).iter()), 1);
        assert_eq!(both.try_recv(), Ok(Wake::Moved));
        assert!(other.try_recv().is_err());
        assert_eq!(polls.len(), 1);
        assert_eq!((polls.wake_behind(), polls.wake_behind()), (1, 0));
        assert_eq!(other.try_recv(), Ok(Wake::Moved));
    }

    #[test]
    fn nothing_stays_behind() {
        let mut polls = Polls::default();
        let (id, woken) = polls.hold(names(&["a"]), true);
        drop(woken);
        polls.release(id);
        polls.release(id);
        let (id, mut superseded) = polls.hold(names(&["a"]), true);
        polls.wake(id, Wake::Superseded);
        assert_eq!(superseded.try_recv(), Ok(Wake::Superseded));
        assert!(polls.held.is_empty() && polls.subscribers.is_empty() && polls.behind.is_empty());
        let (_, mut closed) = polls.hold(names(&["a"]), true);
        assert_eq!(polls.wake_all(Wake::Closing), 1);
        assert_eq!(closed.try_recv(), Ok(Wake::Closing));
        assert!(polls.held.is_empty() && polls.subscribers.is_empty() && polls.behind.is_empty());
    }
}
