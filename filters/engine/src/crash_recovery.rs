//! Crash recovery: what this VM puts right when its code panics.
//!
//! A panic is a trap, and a trap ends the VM: nothing is dropped, and no callback runs any more.
//! Envoy answers each of the VM's requests with a 503 when it would next call a filter for it, and
//! creates a new VM for the next request. Some things only the crashing VM can put right. Its panic
//! hook, which still runs, does so. The owner of such a thing registers a step for it. A panic may
//! come while anything is borrowed, so a step must not borrow what a callback borrows.
//!
//! A trap without a panic (out of memory, stack overflow, a VM ended by the host) runs none of
//! this. Then other workers put right the count and the places, see [`bloc_policy::server::count`]
//! and [`bloc_policy::server::limiter`]; held requests wait until their clients or Envoy time out,
//! and the crash is not counted.

use std::cell::RefCell;
use std::rc::Rc;

/// The steps, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Takes back what this VM has added to numbers that all threads share.
    TakeBack,
    /// Counts the crash.
    Count,
    /// Frees this VM's places for the other threads.
    Resign,
    /// Answers held requests, for which no callback would run again.
    Answer,
}

/// A step, and its work.
type Work = (Step, Rc<dyn Fn()>);

/// What this VM puts right.
#[derive(Default)]
pub struct CrashRecovery(RefCell<Vec<Work>>);

impl CrashRecovery {
    /// Registers `work` for this step.
    pub fn register(&self, step: Step, work: impl Fn() + 'static) {
        self.0.borrow_mut().push((step, Rc::new(work)));
    }

    /// This VM ends without a crash and without requests: frees its places for the other threads.
    pub fn resign(&self) {
        let all: Vec<Work> = self.0.borrow().iter().filter(|(step, _)| *step == Step::Resign).cloned().collect();
        all.into_iter().for_each(|(_, work)| work());
    }

    /// Runs all steps, once. A panic in here ends the VM at once.
    pub fn run(&self) {
        let work = self.0.try_borrow_mut().map(|mut work| std::mem::take(&mut *work));
        let Ok(mut work) = work else { return };
        // Not sorted: that would be the only use of this code in the module.
        while let Some((first, _)) = work.iter().enumerate().min_by_key(|(_, (step, _))| *step) {
            let (_, next) = work.remove(first);
            next();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_each_recovery_step_once_and_in_order() {
        let (recovery, done) = (CrashRecovery::default(), Rc::new(RefCell::new(Vec::new())));
        for (step, name) in [(Step::Answer, 4), (Step::TakeBack, 1), (Step::Resign, 3), (Step::TakeBack, 2)] {
            let done = Rc::clone(&done);
            recovery.register(step, move || done.borrow_mut().push(name));
        }
        recovery.run();
        recovery.run();
        assert_eq!(*done.borrow(), [1, 2, 3, 4]);
    }

    #[test]
    fn an_orderly_end_frees_the_places_and_nothing_else() {
        let (recovery, done) = (CrashRecovery::default(), Rc::new(RefCell::new(Vec::new())));
        for step in [Step::TakeBack, Step::Count, Step::Resign, Step::Answer] {
            let done = Rc::clone(&done);
            recovery.register(step, move || done.borrow_mut().push(step));
        }
        recovery.resign();
        assert_eq!(*done.borrow(), [Step::Resign]);
    }
}
