//! Threads that burn CPU time: a request costs what its thread's CPU clock says, however slowly
//! that passes.
//!
//! [`super::Places`] only wait. These threads feel a CPU quota: while their control group is
//! throttled, their clocks stand still.

use nix::time::{ClockId, clock_gettime};
use std::hint::black_box;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::oneshot;

/// Steps of work between two looks at the clock; some microseconds.
const STEPS: u64 = 2_000;

/// A pool of threads with a bounded queue.
#[derive(Debug)]
pub struct Burner {
    jobs: SyncSender<Job>,
}

#[derive(Debug)]
struct Job {
    work: Duration,
    done: oneshot::Sender<()>,
}

impl Burner {
    /// So many threads, and so many requests that may wait for one.
    pub fn new(threads: usize, queue: usize) -> Self {
        let (jobs, waiting) = sync_channel(queue);
        let waiting = Arc::new(Mutex::new(waiting));
        for _ in 0..threads {
            let waiting = Arc::clone(&waiting);
            std::thread::spawn(move || work(&waiting));
        }
        Self { jobs }
    }

    /// Waits for a thread, and until that has used this CPU time. False if too many wait already. A
    /// client that goes away while it waits costs nothing.
    pub async fn burn(&self, work: Duration) -> bool {
        let (done, end) = oneshot::channel();
        self.jobs.try_send(Job { work, done }).is_ok() && end.await.is_ok()
    }
}

/// Until the pool is dropped.
fn work(waiting: &Mutex<Receiver<Job>>) {
    loop {
        let next = waiting.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok(Job { work, done }) = next else { return };
        if !done.is_closed() {
            burn(work);
            let _ = done.send(());
        }
    }
}

fn burn(work: Duration) {
    let end = cpu_time() + work;
    let mut value = 1_u64;
    while cpu_time() < end {
        for _ in 0..STEPS {
            value = black_box(value.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        }
    }
}

/// The CPU time of this thread. Linux has that clock since 2.6.12.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::MAX, Duration::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn burns_the_cpu_time_of_the_thread() {
        let (start, work) = (cpu_time(), Duration::from_millis(20));
        burn(work);
        assert!(cpu_time() >= start + work);
        let start = cpu_time();
        std::thread::sleep(Duration::from_millis(20));
        assert!(cpu_time() < start + work, "a thread that sleeps burns nothing");
    }

    #[tokio::test]
    async fn refuses_what_its_queue_cannot_hold() {
        let (jobs, waiting) = sync_channel(1);
        let burner = Burner { jobs };
        let mut first = Box::pin(burner.burn(Duration::ZERO));
        assert!(futures_util::poll!(&mut first).is_pending());
        assert!(!burner.burn(Duration::ZERO).await, "one waits already");
        waiting.recv().unwrap().done.send(()).unwrap();
        assert!(first.await);
    }

    #[tokio::test]
    async fn each_thread_works() {
        let burner = Burner::new(2, 10);
        let all = (0..5).map(|_| burner.burn(Duration::from_millis(1)));
        assert_eq!(futures_util::future::join_all(all).await, [true; 5]);
    }

    #[tokio::test]
    async fn skips_a_request_whose_client_has_gone() {
        let (jobs, waiting) = sync_channel(2);
        let burner = Burner { jobs };
        let mut gone = Box::pin(burner.burn(Duration::MAX / 2));
        let mut stays = Box::pin(burner.burn(Duration::from_millis(1)));
        assert!(futures_util::poll!(&mut gone).is_pending() && futures_util::poll!(&mut stays).is_pending());
        drop(gone);
        let waiting = Mutex::new(waiting);
        std::thread::spawn(move || work(&waiting));
        assert!(stays.await);
    }
}
