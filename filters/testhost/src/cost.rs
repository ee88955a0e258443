//! The cost of callbacks: instructions (wasmtime's fuel), host calls by name, and buffers that the
//! host put into the guest's memory.

use std::collections::BTreeMap;
use std::time::Duration;

/// The cost of a VM's callbacks since the last reading.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cost {
    /// Per callback: its number of calls and their fuel (about one unit for each WebAssembly
    /// instruction; 0 without metering).
    pub callbacks: BTreeMap<&'static str, (u64, u64)>,
    /// Host calls by name.
    pub host_calls: BTreeMap<&'static str, u64>,
    /// Buffers that the host asked the guest to allocate for an answer, each a call into the guest.
    pub buffers: u64,
    /// Their size in bytes.
    pub buffer_bytes: u64,
    /// Time spent in host calls, if measured ([`crate::Vm::time_host_calls`]).
    pub host_time: Duration,
}

impl Cost {
    /// The fuel of all callbacks.
    pub fn fuel(&self) -> u64 {
        self.callbacks.values().map(|(_, fuel)| fuel).sum()
    }

    /// All host calls.
    pub fn calls(&self) -> u64 {
        self.host_calls.values().sum()
    }

    /// Adds another cost to this one.
    pub fn add(&mut self, other: &Self) {
        for (name, (count, fuel)) in &other.callbacks {
            let entry = self.callbacks.entry(name).or_default();
            *entry = (entry.0 + count, entry.1 + fuel);
        }
        for (name, count) in &other.host_calls {
            *self.host_calls.entry(name).or_default() += count;
        }
        self.buffers += other.buffers;
        self.buffer_bytes += other.buffer_bytes;
        self.host_time += other.host_time;
    }
}

/// A [`Cost`] while it is counted: host calls by the number of the function.
#[derive(Default)]
pub(crate) struct Tally {
    callbacks: Vec<(&'static str, u64, u64)>,
    host_calls: Vec<u64>,
    pub(crate) buffers: u64,
    pub(crate) buffer_bytes: u64,
    pub(crate) host_time: Duration,
}

impl Tally {
    pub(crate) fn new(functions: usize) -> Self {
        Self { host_calls: vec![0; functions], ..Self::default() }
    }

    pub(crate) fn callback(&mut self, name: &'static str, fuel: u64) {
        match self.callbacks.iter_mut().find(|(known, ..)| *known == name) {
            Some((_, count, sum)) => (*count, *sum) = (*count + 1, *sum + fuel),
            None => self.callbacks.push((name, 1, fuel)),
        }
    }

    pub(crate) fn host_call(&mut self, function: usize) {
        if let Some(count) = self.host_calls.get_mut(function) {
            *count += 1;
        }
    }

    pub(crate) fn take(&mut self, functions: &[&'static str]) -> Cost {
        let tally = std::mem::replace(self, Self::new(functions.len()));
        let calls = functions.iter().copied().zip(tally.host_calls);
        Cost {
            callbacks: tally.callbacks.into_iter().map(|(name, count, fuel)| (name, (count, fuel))).collect(),
            host_calls: calls.filter(|(_, count)| *count > 0).collect(),
            buffers: tally.buffers,
            buffer_bytes: tally.buffer_bytes,
            host_time: tally.host_time,
        }
    }
}
