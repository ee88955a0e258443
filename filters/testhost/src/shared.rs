//! What all VMs of an Envoy share: data with compare-and-swap, and queues.
//!
//! Both are keyed by the VM id. A queue wakes the VM that registered it last. Its messages outlive
//! that VM.

use crate::status::Status;
use std::collections::{BTreeMap, HashMap, VecDeque};

/// Shared data.
#[derive(Default)]
pub(crate) struct SharedData {
    values: HashMap<(String, Vec<u8>), (Vec<u8>, u32)>,
    last_cas: u32,
}

impl SharedData {
    pub(crate) fn get(&self, vm_id: &str, key: &[u8]) -> Option<&(Vec<u8>, u32)> {
        self.values.get(&(vm_id.to_owned(), key.to_vec()))
    }

    /// Sets a value if `cas` is 0 or current, or if there is no value.
    pub(crate) fn set(&mut self, vm_id: &str, key: &[u8], value: &[u8], cas: u32) -> Result<(), Status> {
        let entry = self.values.entry((vm_id.to_owned(), key.to_vec()));
        if let std::collections::hash_map::Entry::Occupied(present) = &entry
            && cas != 0
            && present.get().1 != cas
        {
            return Err(Status::CasMismatch);
        }
        self.last_cas = self.last_cas.wrapping_add(1).max(1);
        entry.insert_entry((value.to_vec(), self.last_cas));
        Ok(())
    }

    /// Forgets the data of a VM id.
    pub(crate) fn forget(&mut self, vm_id: &str) {
        self.values.retain(|(id, _), _| id != vm_id);
    }
}

/// The context that a queue wakes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Address {
    /// The number of the VM in its process.
    pub(crate) vm: usize,
    /// The instance of the VM: a new one after each trap or end.
    pub(crate) generation: u32,
    /// The root context.
    pub(crate) root: u32,
}

/// The queues of a process.
#[derive(Default)]
pub(crate) struct Queues {
    tokens: BTreeMap<(String, Vec<u8>), u32>,
    last_token: u32,
    queues: BTreeMap<u32, Queue>,
    wakeups: VecDeque<(Address, u32)>,
}

struct Queue {
    owner: Address,
    messages: VecDeque<Vec<u8>>,
}

impl Queues {
    pub(crate) fn register(&mut self, vm_id: &str, name: &[u8], owner: Address) -> u32 {
        let last = &mut self.last_token;
        let token = *self.tokens.entry((vm_id.to_owned(), name.to_vec())).or_insert_with(|| {
            *last += 1;
            *last
        });
        self.queues.entry(token).or_insert(Queue { owner, messages: VecDeque::new() }).owner = owner;
        token
    }

    pub(crate) fn resolve(&self, vm_id: &str, name: &[u8]) -> Option<u32> {
        self.tokens.get(&(vm_id.to_owned(), name.to_vec())).copied()
    }

    /// Forgets the queues of a VM id and their messages.
    pub(crate) fn forget(&mut self, vm_id: &str) {
        let Self { tokens, queues, .. } = self;
        tokens.retain(|(id, _), token| {
            let stays = id != vm_id;
            if !stays {
                queues.remove(token);
            }
            stays
        });
    }

    /// Adds a message and wakes the current owner of the queue; false if there is no such queue.
    pub(crate) fn enqueue(&mut self, token: u32, message: &[u8]) -> bool {
        let Some(queue) = self.queues.get_mut(&token) else { return false };
        queue.messages.push_back(message.to_vec());
        self.wakeups.push_back((queue.owner, token));
        true
    }

    /// Takes a message: outer none if there is no such queue, inner none if it is empty.
    pub(crate) fn dequeue(&mut self, token: u32) -> Option<Option<Vec<u8>>> {
        Some(self.queues.get_mut(&token)?.messages.pop_front())
    }

    /// The next VM to wake because of a message.
    pub(crate) fn next_wakeup(&mut self) -> Option<(Address, u32)> {
        self.wakeups.pop_front()
    }

    /// How many wake-ups are pending.
    pub(crate) fn wakeups(&self) -> usize {
        self.wakeups.len()
    }

    /// Keeps wake-ups that could not be delivered yet.
    pub(crate) fn keep_wakeups(&mut self, wakeups: Vec<(Address, u32)>) {
        self.wakeups.extend(wakeups);
    }

    /// Drops the pending wake-ups.
    pub(crate) fn lose_wakeups(&mut self) {
        self.wakeups.clear();
    }
}
