//! How the threads of one proxy follow the control plane: which one polls, and whose answer takes
//! effect.
//!
//! Once a tick each VM tries to renew or take a lease in shared data; the holder, the leader,
//! polls. A dead leader is replaced within [`LEASE`]. An answer replaces the shared state only if
//! that state has not changed since the question. So when two threads both believe they lead, an
//! older state cannot return. A [`Stamp`] identifies each state, since a version may occur twice.
//!
//! The control plane never sends older states, except as in `control-plane/adr/0001-versions.md`.
//! Cost: a read and a write of 16 bytes a tick. Not in the paper.

use crate::config::{ConfigError, Services};
use crate::proxy::shared::Shared;
use crate::sync::State;
use crate::units::Timestamp;
use std::time::Duration;

/// A lease lasts this long without renewal.
pub const LEASE: Duration = Duration::from_secs(12);

const LEADER_KEY: &str = "bloc/leader";
/// The stamp of the current state. Each tick reads it, so it also has its own key.
const STAMP: &str = "bloc/stamp";
/// The stamp, then the control plane's answer.
const STATE: &str = "bloc/state";

/// Identifies a state within this proxy: the VM that brought it and that VM's count, little endian.
/// Only equality is meaningful.
pub type Stamp = [u8; 16];

/// One VM's copy of the control plane's state.
#[derive(Clone, Debug, Default)]
pub struct Follower {
    vm: u64,
    keys: Keys,
    /// The version in force in this VM; empty: none.
    version: String,
    unread: Vec<String>,
    /// The stamp of the state in force in this VM; zero: none.
    stamp: Stamp,
    /// How many states this VM brought.
    brought: u64,
}

#[derive(Clone, Debug)]
struct Keys {
    state: String,
    stamp: String,
}

impl Default for Keys {
    fn default() -> Self {
        Self { state: STATE.to_owned(), stamp: STAMP.to_owned() }
    }
}

/// A state to apply in this VM.
#[derive(Debug, PartialEq)]
pub struct News {
    /// The services.
    pub services: Services,
    /// Those that could not be read, and why.
    pub unread: Vec<(String, ConfigError)>,
    /// Whether this VM brought it, and must tell the others.
    pub brought: bool,
}

impl Follower {
    /// The VM with this number (not 0), without a state.
    pub fn new(vm: u64) -> Self {
        Self { vm, ..Self::default() }
    }

    /// From now on follows the control plane in this cluster. None of its state is in force in this
    /// VM yet.
    pub fn follow(&mut self, cluster: &str) {
        self.keys = Keys { state: format!("{STATE}/{cluster}"), stamp: format!("{STAMP}/{cluster}") };
        self.forget();
    }

    /// The version in force in this VM; empty if there is none.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// The services of that version that could not be read.
    pub fn unread(&self) -> &[String] {
        &self.unread
    }

    /// The stamp to pass to [`answered`](Self::answered) with the answer to a question that is
    /// asked now.
    pub fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// Whether this VM leads. Renews the lease, or takes a free one.
    pub fn try_lead(&self, shared: &impl Shared, now: Timestamp) -> bool {
        let (holder, cas) = shared.get(LEADER_KEY);
        let free = holder.and_then(|value| lease(&value)).is_none_or(|(vm, ends)| vm == self.vm || now >= ends);
        let mut value = self.vm.to_le_bytes().to_vec();
        value.extend(now.after(LEASE).as_nanos().to_le_bytes());
        free && shared.set(LEADER_KEY, &value, cas)
    }

    /// Forgets this VM's copy.
    pub fn forget(&mut self) {
        (self.version, self.unread, self.stamp) = (String::new(), Vec::new(), Stamp::default());
    }

    /// Releases this VM's lease, so that the next VM that asks leads at once. Returns whether it
    /// held one.
    pub fn resign(&self, shared: &impl Shared) -> bool {
        let (holder, cas) = shared.get(LEADER_KEY);
        let leads = holder.and_then(|value| lease(&value)).is_some_and(|(vm, _)| vm == self.vm);
        // If another thread interferes, the lease is that thread's.
        leads && shared.set(LEADER_KEY, &[], cas)
    }

    /// Takes the answer to the question asked with `stamp`. None if nothing changes in this VM.
    ///
    /// # Errors
    /// The body is not an answer with a state; nothing changes.
    pub fn answered(&mut self, shared: &impl Shared, stamp: Stamp, body: &[u8]) -> Result<Option<News>, ConfigError> {
        self.answered_with(shared, stamp, State::read(body)?, body)
    }

    /// The same, with the state of the `body` already read.
    ///
    /// # Errors
    /// A state that another thread brought cannot be read; nothing changes.
    pub fn answered_with(
        &mut self,
        shared: &impl Shared,
        stamp: Stamp,
        read: State,
        body: &[u8],
    ) -> Result<Option<News>, ConfigError> {
        if read.version == self.version && stamp == self.stamp {
            return Ok(None);
        }
        let (in_force, cas) = shared.get(&self.keys.state);
        self.brought = self.brought.saturating_add(1);
        let mut state = [self.vm.to_le_bytes(), self.brought.to_le_bytes()].concat();
        let new = stamp_of(&state);
        state.extend_from_slice(body);
        let in_force = in_force.map(|state| stamp_of(&state)).unwrap_or_default();
        if ![stamp, Stamp::default()].contains(&in_force) || !shared.set(&self.keys.state, &state, cas) {
            // Another thread has brought a state since. The next question compares this answer with
            // it.
            return self.take_over(shared);
        }
        self.announce(shared, new);
        Ok(Some(self.take(read, new, true)))
    }

    /// Takes a new state that another thread put into shared data.
    ///
    /// # Errors
    /// It cannot be read; nothing changes.
    pub fn look(&mut self, shared: &impl Shared) -> Result<Option<News>, ConfigError> {
        match shared.get(&self.keys.stamp).0 {
            Some(value) if stamp_of(&value) != self.stamp => self.take_over(shared),
            _ => Ok(None),
        }
    }

    fn take_over(&mut self, shared: &impl Shared) -> Result<Option<News>, ConfigError> {
        let Some(value) = shared.get(&self.keys.state).0 else { return Ok(None) };
        let (stamp, body) = (stamp_of(&value), value.get(size_of::<Stamp>()..).unwrap_or_default());
        if [self.stamp, Stamp::default()].contains(&stamp) {
            return Ok(None);
        }
        Ok(Some(self.take(State::read(body)?, stamp, false)))
    }

    fn take(&mut self, State { version, services, unread }: State, stamp: Stamp, brought: bool) -> News {
        (self.version, self.unread, self.stamp) =
            (version, unread.iter().map(|(name, _)| name.clone()).collect(), stamp);
        News { services, unread, brought }
    }

    /// Writes the stamp of the current state, starting with the one just brought. If two threads do
    /// so at once, the last writer also reads last, so the final stamp matches the state. Otherwise
    /// threads with the other state would not notice until the next change.
    fn announce(&self, shared: &impl Shared, brought: Stamp) {
        let mut stamp = brought;
        loop {
            shared.overwrite(&self.keys.stamp, &stamp);
            let in_force = shared.get(&self.keys.state).0.map_or(stamp, |value| stamp_of(&value));
            if in_force == stamp {
                return;
            }
            stamp = in_force;
        }
    }
}

/// The stamp at the start of a shared value; zeros if there is none.
fn stamp_of(value: &[u8]) -> Stamp {
    value.get(..size_of::<Stamp>()).and_then(|stamp| stamp.try_into().ok()).unwrap_or_default()
}

fn lease(value: &[u8]) -> Option<(u64, Timestamp)> {
    let vm = u64::from_le_bytes(value.get(..8)?.try_into().ok()?);
    let ends = u64::from_le_bytes(value.get(8..16)?.try_into().ok()?);
    Some((vm, Timestamp::from_nanos(ends)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proxy::shared::Cas;
    use std::cell::RefCell;
    use std::collections::HashMap;

    /// The data of one thread, and the keys that were read.
    #[derive(Default)]
    struct Data {
        values: RefCell<HashMap<String, (Vec<u8>, u32)>>,
        read: RefCell<Vec<String>>,
    }

    impl Shared for Data {
        fn get(&self, key: &str) -> (Option<Vec<u8>>, Cas) {
            self.read.borrow_mut().push(key.to_owned());
            let found = self.values.borrow().get(key).cloned();
            found.map_or((None, Cas::ABSENT), |(value, cas)| (Some(value), Cas::new(cas)))
        }

        fn set(&self, key: &str, value: &[u8], cas: Cas) -> bool {
            let there = self.values.borrow().get(key).map(|(_, there)| *there);
            let is_current = there.is_none_or(|there| there == cas.get());
            if is_current {
                self.overwrite(key, value);
            }
            is_current
        }

        fn overwrite(&self, key: &str, value: &[u8]) {
            let mut values = self.values.borrow_mut();
            let next = values.get(key).map_or(1, |(_, there)| there + 1);
            values.insert(key.to_owned(), (value.to_vec(), next));
        }
    }

    fn answer(version: &str) -> Vec<u8> {
        format!(r#"{{"version":"{version}","services":{{"{version}":{{}}}}}}"#).into_bytes()
    }

    #[test]
    fn a_lease_is_renewed_by_its_holder_and_free_for_others_when_it_ends() {
        let (data, start) = (Data::default(), Timestamp::from_nanos(1_000));
        let (one, two) = (Follower::new(1), Follower::new(2));
        assert!(one.try_lead(&data, start) && !two.try_lead(&data, start));
        let renewed = start.after(LEASE / 2);
        assert!(one.try_lead(&data, renewed));
        assert!(!two.try_lead(&data, start.after(LEASE)), "renewed since");
        assert!(two.try_lead(&data, renewed.after(LEASE)) && !one.try_lead(&data, renewed.after(LEASE)));
        assert!(!one.resign(&data) && two.resign(&data) && one.try_lead(&data, renewed.after(LEASE)));
    }

    #[test]
    fn an_answer_is_in_force_in_all_threads_and_the_same_answer_is_no_news() {
        let data = Data::default();
        let (mut one, mut two) = (Follower::new(1), Follower::new(2));
        assert_eq!(one.look(&data), Ok(None));
        let news = one.answered(&data, one.stamp(), &answer("a")).unwrap().unwrap();
        assert_eq!((news.brought, news.services.len(), one.version()), (true, 1, "a"));
        let asked = one.stamp();
        assert_eq!(one.answered(&data, asked, &answer("a")), Ok(None));
        let taken = two.look(&data).unwrap().unwrap();
        assert_eq!((taken.brought, two.version(), two.stamp()), (false, "a", asked));
        assert_eq!(two.look(&data), Ok(None));
        assert!(one.answered(&data, asked, &answer("b")).unwrap().is_some());
        assert_ne!(one.stamp(), asked);
        // Asked before another state came: what is in force stays.
        assert_eq!(two.answered(&data, asked, &answer("c")).unwrap().map(|news| news.brought), Some(false));
        assert_eq!(two.version(), "b");
        assert_eq!(one.look(&data), Ok(None));
    }

    #[test]
    fn all_threads_know_which_services_could_not_be_read() {
        let (data, [mut one, mut two]) = (Data::default(), [1, 2].map(Follower::new));
        let body = br#"{"version":"a","services":{"good":{},"bad":{"later":1}}}"#;
        let news = one.answered(&data, one.stamp(), body).unwrap().unwrap();
        assert_eq!((news.services.len(), news.unread.len(), one.version()), (1, 1, "a"));
        two.look(&data).unwrap();
        assert_eq!([one.unread(), two.unread()], [["bad"], ["bad"]]);
        one.answered(&data, one.stamp(), &answer("b")).unwrap();
        two.forget();
        assert_eq!([one.unread(), two.unread()], [&[] as &[String]; 2]);
    }

    #[test]
    fn a_look_without_news_reads_only_the_stamp() {
        let (data, mut one) = (Data::default(), Follower::new(1));
        one.answered(&data, one.stamp(), &answer("a")).unwrap();
        data.read.borrow_mut().clear();
        assert_eq!(one.look(&data), Ok(None));
        assert_eq!(*data.read.borrow(), [STAMP]);
    }

    #[test]
    fn each_control_plane_has_a_state_of_its_own() {
        let (data, mut one) = (Data::default(), Follower::new(1));
        one.answered(&data, one.stamp(), &answer("a")).unwrap();
        one.follow("another");
        assert_eq!((one.version(), one.stamp()), ("", Stamp::default()));
        assert_eq!(one.look(&data), Ok(None));
        assert!(one.answered(&data, one.stamp(), &answer("b")).unwrap().is_some());
        let mut other = Follower::new(2);
        other.follow("another");
        assert!(other.look(&data).unwrap().is_some());
        assert_eq!(other.version(), "b");
        other.forget();
        assert_eq!((other.version(), other.stamp()), ("", Stamp::default()));
        assert!(other.look(&data).unwrap().is_some(), "as after a restart");
    }
}
