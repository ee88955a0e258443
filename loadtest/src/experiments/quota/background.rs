//! Work in a thread of its own, so that the load does not delay it.

use bloc_mesh::cgroups::GroupError;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// The thread. Dropping it ends it.
#[derive(Debug)]
pub struct Background<T> {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Result<T, GroupError>>>,
}

impl<T: Send + 'static> Background<T> {
    /// Begins; the work is to end when it is told to stop.
    pub fn start(work: impl FnOnce(&AtomicBool) -> Result<T, GroupError> + Send + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        Self { stop, thread: Some(std::thread::spawn(move || work(&stopped))) }
    }

    /// Ends it.
    ///
    /// # Errors
    /// The work has failed.
    ///
    /// # Panics
    /// The work has panicked.
    pub fn finish(mut self) -> Result<T, GroupError>
    where
        T: Default,
    {
        self.stop.store(true, Ordering::Relaxed);
        let ended = self.thread.take().map(|thread| thread.join().unwrap_or_else(|panic| resume_unwind(panic)));
        ended.unwrap_or_else(|| Ok(T::default()))
    }
}

impl<T> Drop for Background<T> {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(until: &AtomicBool) -> Result<u64, GroupError> {
        let mut count = 0;
        while !until.load(Ordering::Relaxed) {
            count += 1;
        }
        Ok(count + 1)
    }

    #[test]
    fn works_until_it_is_told_to_stop() {
        assert!(Background::start(counts).finish().unwrap() > 0);
        drop(Background::start(counts));
    }

    #[test]
    #[should_panic(expected = "the work")]
    fn a_panic_of_the_work_is_one_of_who_ends_it() {
        let _ = Background::<u64>::start(|_| panic!("the work")).finish();
    }
}
