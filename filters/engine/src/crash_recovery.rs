//! Crash recovery: what is put right when our code panics.
//!
//! A panic is a trap, and a trap is the end of the VM: nothing is dropped, and no callback runs any
//! more. Envoy answers the VM's requests with a 503 as soon as it would call the filter for one of
//! them again, and makes a new VM when the next request comes. Some things nobody else could put
//! right, so the panic hook does, which still runs inside. Whoever has such a thing registers how
//! it is put right; the panic may come while anything is borrowed, so that must not borrow what a
//! callback borrows.
//!
//! A trap without a panic (out of memory, a stack that is used up, the host's own end of the VM)
//! runs none of it. Then the others put right the count and the places, see [`bloc_policy::count`]
//! and [`bloc_policy::limiter`]; held requests wait for Envoy's own timeouts, and the crash is not
//! counted.

use std::cell::RefCell;
use std::rc::Rc;

/// In which order it is put right.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// What this VM has added to numbers that all threads share is taken back.
    TakeBack,
    /// The crash is counted.
    Count,
    /// The places of this VM are free for the other threads.
    Resign,
    /// Held requests, for which nobody would ever call again, are answered.
    Answer,
}

/// A step, and what is done in it.
type Work = (Step, Rc<dyn Fn()>);

/// What is to be put right by this VM.
#[derive(Default)]
pub struct CrashRecovery(RefCell<Vec<Work>>);

impl CrashRecovery {
    /// From now on `work` is done in this step.
    pub fn register(&self, step: Step, work: impl Fn() + 'static) {
        self.0.borrow_mut().push((step, Rc::new(work)));
    }

    /// This VM ends in order, without any request: its places among the threads are free.
    pub fn resign(&self) {
        let all: Vec<Work> = self.0.borrow().iter().filter(|(step, _)| *step == Step::Resign).cloned().collect();
        all.into_iter().for_each(|(_, work)| work());
    }

    /// Puts everything right, once: a panic in here ends the VM at once.
    pub fn run(&self) {
        let work = self.0.try_borrow_mut().map(|mut work| std::mem::take(&mut *work));
        let Ok(mut work) = work else { return };
        work.sort_by_key(|(step, _)| *step);
        for (_, work) in work {
            work();
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
