//! A proxy: the threads that follow the control plane, and their shared data.

use super::replica::{Reply, Truth};
use bloc_policy::config::Services;
use bloc_policy::sync::follower::{Follower, Stamp};
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};

/// A thread of a proxy, reduced to the relevant part of its agent.
pub(super) struct Thread {
    pub(super) follower: Follower,
    pub(super) in_force: Services,
    pub(super) question: u64,
    /// The open question, what was in force when it was asked, and its version.
    pub(super) asked: Option<(u64, Stamp, String)>,
    pub(super) inbox: VecDeque<(u64, Reply)>,
}

impl Thread {
    pub(super) fn new(vm: u64) -> Self {
        let follower = Follower::new(vm);
        Self { follower, in_force: Services::new(), question: 0, asked: None, inbox: VecDeque::new() }
    }
}

pub(super) struct Proxy {
    pub(super) threads: Vec<RefCell<Thread>>,
    pub(super) data: RefCell<HashMap<String, (Vec<u8>, u32)>>,
    pub(super) cas: Cell<u32>,
    /// The last cores that it was told.
    pub(super) cpu: Cell<Option<f64>>,
    /// How often an answer changed the cores.
    pub(super) moves: Cell<u32>,
    /// How many threads are in the middle of a call, each interrupted by the next.
    pub(super) depth: Cell<u32>,
    /// The changes in force in each thread; the last element has those in the shared data. Empty:
    /// none yet.
    pub(super) reached: RefCell<Vec<Vec<u64>>>,
    /// The oldest changes that it may go back to.
    pub(super) floor: Cell<Truth>,
}
