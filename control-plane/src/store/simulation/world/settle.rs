//! The end of a run: no more faults.

use super::World;
use crate::agents::cpu::differs;
use crate::store::simulation::proxy::{Proxy, Thread};
use crate::store::simulation::{KINDS, NAMES, PROXIES, REPLICAS, REST, ROUNDS, THREADS};
use std::cell::RefCell;

/// All pairs of indices below `first` and below `second`.
fn pairs(first: usize, second: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..first).flat_map(move |one| (0..second).map(move |other| (one, other)))
}

impl World {
    /// Runs without faults until every thread has the state. Returns the number of rounds.
    pub(in super::super) fn settle(&self) -> usize {
        self.interrupts.set(false);
        for round in 0..ROUNDS {
            if self.is_settled() {
                return round;
            }
            self.calm(round);
        }
        panic!("seed {}: not everybody has the state after {ROUNDS} rounds", self.seed);
    }

    /// Runs on: no proxy is told other cores, and all keep the state.
    pub(in super::super) fn rest(&self) {
        let moves = || self.proxies.iter().map(|proxy| proxy.moves.get()).collect::<Vec<_>>();
        let before = moves();
        (0..REST).for_each(|round| self.calm(round));
        assert_eq!(moves(), before, "seed {}: cores moved to and fro", self.seed);
        assert!(self.is_settled(), "seed {}: a state or cores were lost", self.seed);
    }

    /// A round without faults.
    fn calm(&self, round: usize) {
        self.round.set(Some(round));
        for (replica, kind) in pairs(REPLICAS, KINDS) {
            let mut replica = self.replicas[replica].borrow_mut();
            replica.catch_up(&self.source.borrow(), kind, self.now());
        }
        pairs(PROXIES, REPLICAS).for_each(|(proxy, replica)| self.speak(proxy, replica));
        self.flush();
        pairs(PROXIES, THREADS).for_each(|(proxy, thread)| self.tick(proxy, thread));
        while !self.network.borrow().is_empty() {
            self.deliver(0);
            self.flush();
        }
        // Questions with lost answers time out, and a dead leader is replaced.
        self.millis.set(self.millis.get() + 4_000);
        for (nth, thread) in pairs(PROXIES, THREADS) {
            while !self.proxies[nth].threads[thread].borrow().inbox.is_empty() {
                self.run(nth, thread);
            }
            if round % 2 == 1 {
                self.proxies[nth].threads[thread].borrow_mut().asked = None;
            }
        }
    }

    fn is_settled(&self) -> bool {
        let source = self.source.borrow();
        let wanted = [0, 1].map(|kind| source.at(kind, source.revision).1);
        let has = |thread: &RefCell<Thread>| {
            let thread = thread.borrow();
            [0, 1].map(|kind| thread.in_force.get(NAMES[kind]).map(|service| service.retries())) == wanted
        };
        let is_told = |(proxy, cores): (&Proxy, &f64)| !differs(proxy.cpu.get(), Some(*cores));
        self.proxies.iter().zip(&*self.cores.borrow()).all(is_told)
            && self.proxies.iter().flat_map(|proxy| &proxy.threads).all(has)
    }
}
