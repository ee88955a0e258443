//! The end of a history: nothing is left.

use super::*;
use bloc_testhost::Vm;

impl Play {
    fn gauges_are_zero(&self) -> Outcome {
        for service in SERVICES {
            let name = format!("bloc.inbound.{service}.in_flight");
            if let Some(left) = self.proxy.process.metric(&name).filter(|left| *left != 0) {
                return Err(format!("{name} is {}", left.cast_signed()));
            }
        }
        Ok(())
    }

    fn until_all_are_gone(&mut self) -> Outcome {
        let start = self.now();
        while !self.requests.is_empty() {
            self.pass(SECOND)?;
            if self.now() > start + LONGEST {
                return Err(format!("{} requests do not end", self.requests.len()));
            }
        }
        self.pass(SECOND * 2)?;
        self.gauges_are_zero()
    }

    /// The end: no request is left, every listener does what its configuration says, and without
    /// listeners none of our state is left.
    pub(super) fn end(&mut self) -> Outcome {
        self.until_all_are_gone()?;
        if !self.proxy.slots().iter().any(|slot| slot.direction == Direction::Inbound) {
            self.proxy.set(SLOTS[0], &Configuration::of(Direction::Inbound, 0));
        }
        self.pass(ASKS)?;
        if self.proxy.names_the_control_plane() && self.proxy.process.http_calls().len() != 1 {
            return Err(format!("{} polls", self.proxy.process.http_calls().len()));
        }
        for slot in self.proxy.slots() {
            for _ in 0..20 {
                self.arrive(slot, SECOND / 10)?;
            }
            self.until_all_are_gone()?;
        }
        self.proxy.remove_all();
        self.pass(self.proxy.drain + SECOND * 2)?;
        let (process, ticks) = (self.proxy.process.clone(), self.proxy.process.ticks());
        self.pass(SECOND * 10)?;
        let contexts = self.proxy.threads().iter().map(Vm::contexts).sum::<usize>();
        let left = (process.ticks() - ticks, process.http_calls().len(), contexts, process.orphaned_ticks());
        if left != (0, 0, 0, 0) {
            return Err(format!("left are (ticks, polls, contexts, orphaned ticks) {left:?}"));
        }
        Ok(())
    }
}
