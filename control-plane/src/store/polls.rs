//! The held polls, indexed by service, so that a change wakes only the polls that subscribed to it.
//!
//! Cost: two numbers for each name of each held poll. A change costs its subscribers, not all
//! polls.

use super::subscription::Subscription;
use super::version::{Kind, Reach};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use tokio::sync::oneshot;

/// Identifies a held poll within this process.
pub type PollId = u64;

/// Why a held poll ends before its wait is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wake {
    /// Something has changed: decide on the poll again.
    Moved,
    /// The same proxy has sent a newer poll.
    Superseded,
    /// Its proxy was evicted to make room.
    NoRoom,
    /// The control plane shuts down.
    Closing,
}

/// The held polls.
#[derive(Debug, Default)]
pub struct Polls {
    next: PollId,
    held: HashMap<PollId, Held>,
    /// By the id of a name. One set for all names, because a set per name would take more memory
    /// than the names.
    subscribers: BTreeSet<(u64, PollId)>,
    /// Polls of proxies that know more of a kind than we do, by the kind and the stamp that we
    /// lack.
    behind: BTreeSet<(char, u64, PollId)>,
    /// Polls of proxies that follow the CPU of their pods, by pod.
    of_pods: BTreeSet<(Arc<str>, PollId)>,
}

#[derive(Debug)]
struct Held {
    wake: oneshot::Sender<Wake>,
    subscription: Arc<Subscription>,
    lacks: Vec<(char, u64)>,
    of_pod: Option<OfPod>,
}

/// The pod that a proxy is of, and the cores that it has.
#[derive(Clone, Debug)]
pub struct OfPod {
    /// `POD.NAMESPACE`.
    pub pod: Arc<str>,
    /// The cores; none: it knows of none.
    pub cores: Option<f64>,
}

impl Polls {
    /// The number of held polls.
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Holds a poll; the receiver gets the reason why it ends. A caller that drops the receiver
    /// must [`release`](Self::release) the id. `lacks`: it also waits until these stamps are
    /// reached; `of_pod`: it also waits for news of the CPU of this pod.
    pub fn hold(
        &mut self,
        subscription: Arc<Subscription>,
        lacks: Vec<(char, u64)>,
        of_pod: Option<OfPod>,
    ) -> (PollId, oneshot::Receiver<Wake>) {
        let id = self.next;
        self.next += 1;
        self.behind.extend(lacks.iter().map(|(name, stamp)| (*name, *stamp, id)));
        self.subscribers.extend(subscription.iter().map(|name| (name.id, id)));
        self.of_pods.extend(of_pod.iter().map(|of| (Arc::clone(&of.pod), id)));
        let (wake, woken) = oneshot::channel();
        self.held.insert(id, Held { wake, subscription, lacks, of_pod });
        (id, woken)
    }

    /// Wakes the polls that subscribed to any of the names with these ids. Returns their number.
    pub fn wake_subscribers(&mut self, names: impl IntoIterator<Item = u64>) -> usize {
        let of = |name| self.subscribers.range((name, 0)..=(name, PollId::MAX)).map(|(_, id)| *id);
        let ids: HashSet<PollId> = names.into_iter().flat_map(of).collect();
        ids.iter().for_each(|&id| self.wake(id, Wake::Moved));
        ids.len()
    }

    /// Wakes the polls that wait for a stamp that is reached. Returns their number.
    pub fn wake_reached(&mut self, reach: &Reach) -> usize {
        let of = |kind: &Kind| self.behind.range((kind.name, 0, 0)..=(kind.name, kind.known, PollId::MAX));
        let ids: HashSet<PollId> = reach.0.iter().flat_map(of).map(|(.., id)| *id).collect();
        ids.iter().for_each(|&id| self.wake(id, Wake::Moved));
        ids.len()
    }

    /// Wakes the polls of a pod's proxies whose cores are `news`.
    pub fn wake_pod(&mut self, pod: &str, news: impl Fn(Option<f64>) -> bool) {
        let pod: Arc<str> = pod.into();
        let ids = self.of_pods.range((Arc::clone(&pod), 0)..=(pod, PollId::MAX)).map(|(_, id)| *id);
        let has = |id: &PollId| self.held.get(id).and_then(|held| held.of_pod.as_ref()).and_then(|of| of.cores);
        let ids: Vec<PollId> = ids.filter(|id| news(has(id))).collect();
        ids.into_iter().for_each(|id| self.wake(id, Wake::Moved));
    }

    /// Ends all polls. Returns their number.
    pub fn wake_all(&mut self, why: Wake) -> usize {
        self.subscribers.clear();
        self.behind.clear();
        self.of_pods.clear();
        let count = self.held.len();
        for (_, held) in self.held.drain() {
            // If the receiver is gone, the client has left.
            let _ = held.wake.send(why);
        }
        count
    }

    /// Ends one poll, if it is still held.
    pub fn wake(&mut self, id: PollId, why: Wake) {
        if let Some(held) = self.take(id) {
            let _ = held.wake.send(why);
        }
    }

    /// Forgets a poll whose wait is over or whose client left.
    pub fn release(&mut self, id: PollId) {
        self.take(id);
    }

    fn take(&mut self, id: PollId) -> Option<Held> {
        let held = self.held.remove(&id)?;
        for (name, stamp) in &held.lacks {
            self.behind.remove(&(*name, *stamp, id));
        }
        if let Some(of) = &held.of_pod {
            self.of_pods.remove(&(Arc::clone(&of.pod), id));
        }
        for name in held.subscription.iter() {
            self.subscribers.remove(&(name.id, id));
        }
        Some(held)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::names::Names;

    fn to(names: &mut Names, texts: &[&str]) -> Arc<Subscription> {
        names.subscribe(&texts.iter().map(ToString::to_string).collect::<Vec<_>>(), &[])
    }

    #[test]
    fn a_change_wakes_its_subscribers_once() {
        let (mut polls, mut names) = (Polls::default(), Names::default());
        let (_, mut both) = polls.hold(to(&mut names, &["a", "b"]), Vec::new(), None);
        let (_, mut other) = polls.hold(to(&mut names, &["b", "c"]), vec![('e', 7), ('s', 9)], None);
        assert_eq!(polls.wake_subscribers(["a", "d"].iter().filter_map(|name| names.id(name))), 1);
        assert_eq!(both.try_recv(), Ok(Wake::Moved));
        assert!(other.try_recv().is_err());
        assert_eq!(polls.len(), 1);
        let mut wake = |name, known| polls.wake_reached(&Reach(vec![Kind { known, ..Kind::new(name) }]));
        assert_eq!([wake('e', 6), wake('s', 8), wake('e', 7), wake('s', 9)], [0, 0, 1, 0]);
        assert_eq!(other.try_recv(), Ok(Wake::Moved));
    }

    #[test]
    fn polls_that_end_leave_nothing_in_the_index() {
        let (mut polls, a) = (Polls::default(), to(&mut Names::default(), &["a"]));
        let is_empty = |polls: &Polls| {
            let Polls { held, subscribers, behind, of_pods, .. } = polls;
            held.is_empty() && subscribers.is_empty() && behind.is_empty() && of_pods.is_empty()
        };
        let of = || Some(OfPod { pod: "p.shop".into(), cores: None });
        let (id, woken) = polls.hold(Arc::clone(&a), vec![('e', 7)], of());
        drop(woken);
        polls.release(id);
        polls.release(id);
        let (id, mut superseded) = polls.hold(Arc::clone(&a), vec![('e', 7)], of());
        polls.wake(id, Wake::Superseded);
        assert_eq!(superseded.try_recv(), Ok(Wake::Superseded));
        assert!(is_empty(&polls));
        let (_, mut closed) = polls.hold(Arc::clone(&a), vec![('e', 7)], of());
        assert_eq!(polls.wake_all(Wake::Closing), 1);
        assert_eq!(closed.try_recv(), Ok(Wake::Closing));
        assert!(is_empty(&polls));
    }

    #[test]
    fn a_pods_cores_wake_its_own_polls_that_have_others() {
        let (mut polls, a) = (Polls::default(), to(&mut Names::default(), &["a"]));
        let mut hold = |pod: &str, cores| {
            let of_pod = Some(OfPod { pod: pod.into(), cores });
            polls.hold(Arc::clone(&a), Vec::new(), of_pod).1
        };
        let mut woken =
            [hold("p.shop", None), hold("p.shop", Some(2.0)), hold("p.shop", Some(3.0)), hold("q.shop", None)];
        polls.wake_pod("p.shop", |has| has != Some(2.0));
        assert_eq!(
            woken.each_mut().map(|woken| woken.try_recv().ok()),
            [Some(Wake::Moved), None, Some(Wake::Moved), None]
        );
        assert_eq!((polls.len(), polls.of_pods.len()), (2, 2));
    }
}
