//! How the threads of one proxy follow the control plane: who asks, and whose answer counts.
//!
//! Every thread's VM looks once a tick. One of them, the leader, asks; it is found by a lease in the data that they share (a VM's number and when the lease ends, renewed at each look,
//! so a leader that died is replaced within [`LEASE`]). What the shared data holds is in force. An answer replaces it only if it is still what the question was asked with, so that two threads that
//! both believe to lead for a moment cannot bring an older state back; each state carries a [`Stamp`] of its own for that, since the same version may come twice.
//!
//! That an answer is not older than the question is the control plane's business, see `control-plane/adr/0001-versions.md`. Cold start: no version, everything is news. Cost: a read and a
//! write of 16 bytes a look; the state is copied when it changes. Not in the paper.

use crate::config::{ConfigError, Services};
use crate::shared::Shared;
use crate::sync::SyncResponse;
use crate::units::Timestamp;
use std::time::Duration;

/// Whoever did not renew the lease for so long leads no more.
pub const LEASE: Duration = Duration::from_secs(12);

const LEADER_KEY: &str = "bloc/leader";
/// The stamp of what is in force: a look at each tick, which is why it is not only in front of the state.
const STAMP: &str = "bloc/stamp";
/// The stamp again, then the control plane's answer.
const STATE: &str = "bloc/state";

/// Names a state in force within this proxy: the VM that brought it and that VM's count, little endian. Only equality means something.
pub type Stamp = [u8; 16];

/// What one VM has of the control plane's state.
#[derive(Clone, Debug, Default)]
pub struct Follower {
    vm: u64,
    /// Where the state of the control plane lies that is followed, and its stamp.
    keys: Keys,
    /// The version in force in this VM; empty: none.
    version: String,
    /// The stamp of the state in force in this VM; zero: none.
    stamp: Stamp,
    /// States that this VM brought.
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

/// What is to be put in force in this VM.
#[derive(Debug, PartialEq)]
pub struct News {
    /// The services.
    pub services: Services,
    /// Whether this VM brought it, and so has to tell the others.
    pub brought: bool,
}

impl Follower {
    /// The VM with this number (not 0), which has nothing yet.
    pub fn new(vm: u64) -> Self {
        Self { vm, ..Self::default() }
    }

    /// From now on it is the control plane in this cluster that is followed. Nothing of it is in
    /// force in this VM yet.
    pub fn follow(&mut self, cluster: &str) {
        self.keys = Keys { state: format!("{STATE}/{cluster}"), stamp: format!("{STAMP}/{cluster}") };
        self.forget();
    }

    /// The version in force in this VM; empty if there is none.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// What an answer has to be compared with that is asked for now.
    pub fn stamp(&self) -> Stamp {
        self.stamp
    }

    /// Whether this VM leads; the lease is renewed, or taken over if it may be.
    pub fn leads(&self, shared: &impl Shared, now: Timestamp) -> bool {
        let (holder, cas) = shared.get(LEADER_KEY);
        let free = holder.and_then(|value| lease(&value)).is_none_or(|(vm, ends)| vm == self.vm || now >= ends);
        let mut value = self.vm.to_le_bytes().to_vec();
        value.extend(now.after(LEASE).as_nanos().to_le_bytes());
        free && shared.set(LEADER_KEY, &value, cas)
    }

    /// Forgets what was in force in this VM.
    pub fn forget(&mut self) {
        (self.version, self.stamp) = (String::new(), Stamp::default());
    }

    /// Gives the lease back, if this VM has it, so that whoever asks next leads at once. Whether it
    /// had.
    pub fn resign(&self, shared: &impl Shared) -> bool {
        let (holder, cas) = shared.get(LEADER_KEY);
        let leads = holder.and_then(|value| lease(&value)).is_some_and(|(vm, _)| vm == self.vm);
        // If another thread has come in between, the lease is its own.
        leads && shared.set(LEADER_KEY, &[], cas)
    }

    /// Takes the answer to what was asked with `stamp`. None if it changes nothing here.
    ///
    /// # Errors
    /// It is no answer, or its parameters are not valid; nothing changes.
    pub fn answered(&mut self, shared: &impl Shared, stamp: Stamp, body: &[u8]) -> Result<Option<News>, ConfigError> {
        let (version, services) = read(body)?;
        if version == self.version && stamp == self.stamp {
            return Ok(None);
        }
        let (in_force, cas) = shared.get(&self.keys.state);
        self.brought = self.brought.saturating_add(1);
        let mut state = [self.vm.to_le_bytes(), self.brought.to_le_bytes()].concat();
        let new = stamp_of(&state);
        state.extend_from_slice(body);
        let in_force = in_force.map(|state| stamp_of(&state)).unwrap_or_default();
        if ![stamp, Stamp::default()].contains(&in_force) || !shared.set(&self.keys.state, &state, cas) {
            // Another thread brought something since; the next question tells how this answer compares with that.
            return self.take_over(shared);
        }
        self.announce(shared, new);
        (self.version, self.stamp) = (version, new);
        Ok(Some(News { services, brought: true }))
    }

    /// Takes over what another thread has put into the shared data, if there is anything new.
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
        let (version, services) = read(body)?;
        (self.version, self.stamp) = (version, stamp);
        Ok(Some(News { services, brought: false }))
    }

    /// Writes the stamp of the state, beginning with the one that was brought. Two threads may do so at once, each for its own state; whoever writes last looks last, and so
    /// leaves the stamp of what is there. Otherwise those that have the other one would believe to be up to date until the next change.
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

/// The stamp at the beginning of a shared value; all zero if there is none.
fn stamp_of(value: &[u8]) -> Stamp {
    value.get(..size_of::<Stamp>()).and_then(|stamp| stamp.try_into().ok()).unwrap_or_default()
}

/// VM and end of a lease.
fn lease(value: &[u8]) -> Option<(u64, Timestamp)> {
    let vm = u64::from_le_bytes(value.get(..8)?.try_into().ok()?);
    let ends = u64::from_le_bytes(value.get(8..16)?.try_into().ok()?);
    Some((vm, Timestamp::from_nanos(ends)))
}

fn read(body: &[u8]) -> Result<(String, Services), ConfigError> {
    let mut response: SyncResponse = ConfigError::read_json(body)?;
    let version = std::mem::take(&mut response.version);
    Ok((version, response.into_services().validate()?))
}
