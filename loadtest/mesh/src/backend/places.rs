//! A first-in-first-out queue in front of a fixed number of places, paced exactly.
//!
//! A timer of the runtime fires up to two milliseconds late. If each service began when the
//! previous one was *seen* to end, a busy server of 50 ms would serve 19.5 instead of 20 requests
//! per second. So a service that waited begins at the *intended* end of the previous one:
//!
//! `end = max(arrival, intended end of the previous service in this place) + service time`
//!
//! That does not help where a sidecar holds the queue: the next request arrives only after the end.
//! So the operating system times the last milliseconds, and ends are late by some 0.1 ms.
//!
//! A client that goes away while it waits gives up its position. Once its service has begun, the
//! place stays taken until the end.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep_until};

/// More than a timer of the runtime is late.
const LATE: Duration = Duration::from_millis(3);

/// The places of one server.
#[derive(Debug)]
pub struct Places {
    semaphore: Arc<Semaphore>,
    /// When the free places became free, one entry per permit of the semaphore.
    free_since: Mutex<BinaryHeap<Reverse<Instant>>>,
}

impl Places {
    /// Serves this many requests at once (at least one).
    pub fn new(concurrency: usize) -> Arc<Self> {
        let concurrency = concurrency.max(1);
        let free_since = Mutex::new(std::iter::repeat_n(Reverse(Instant::now()), concurrency).collect());
        Arc::new(Self { semaphore: Arc::new(Semaphore::new(concurrency)), free_since })
    }

    /// Waits for a place, and then for the service time. `service` is called when the service
    /// begins.
    pub async fn serve(self: &Arc<Self>, service: impl FnOnce() -> Duration) {
        let arrival = Instant::now();
        let Ok(permit) = Arc::clone(&self.semaphore).acquire_owned().await else { return };
        let Reverse(free) = self.heap().pop().unwrap_or(Reverse(arrival));
        let end = arrival.max(free) + service();
        let places = Arc::clone(self);
        // A separate task, so the work goes on when the client goes away.
        let work = tokio::spawn(async move {
            sleep_exactly_until(end).await;
            places.heap().push(Reverse(end));
            drop(permit);
        });
        let _ = work.await;
    }

    fn heap(&self) -> std::sync::MutexGuard<'_, BinaryHeap<Reverse<Instant>>> {
        self.free_since.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Sleeps until `end`; not longer by a millisecond or two, as the runtime's timers do.
async fn sleep_exactly_until(end: Instant) {
    sleep_until(end - LATE).await;
    let rest = end.saturating_duration_since(Instant::now());
    let _ = spawn_blocking(move || std::thread::sleep(rest)).await;
    // Only where the runtime's clock is not the operating system's.
    if Instant::now() < end {
        sleep_until(end).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::{advance, sleep};

    const SERVICE: Duration = Duration::from_micros(50_300);

    #[tokio::test(start_paused = true)]
    async fn a_busy_server_keeps_its_rate_exactly() {
        for concurrency in [1u32, 3] {
            let places = Places::new(concurrency as usize);
            let start = Instant::now();
            let requests: Vec<_> = (0..300)
                .map(|_| {
                    let places = Arc::clone(&places);
                    tokio::spawn(async move { places.serve(|| SERVICE).await })
                })
                .collect();
            for request in requests {
                request.await.unwrap();
            }
            let ideal = SERVICE * 300 / concurrency;
            let late = start.elapsed() - ideal;
            assert!(late <= Duration::from_millis(1), "{concurrency}: {late:?} late");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn serves_requests_first_in_first_out() {
        let places = Places::new(1);
        let order = Arc::new(Mutex::new(Vec::new()));
        let mut requests = Vec::new();
        for n in 0..20 {
            let (places, order) = (Arc::clone(&places), Arc::clone(&order));
            requests.push(tokio::spawn(async move {
                places.serve(|| SERVICE).await;
                order.lock().unwrap().push(n);
            }));
            tokio::task::yield_now().await;
        }
        for request in requests {
            request.await.unwrap();
        }
        assert_eq!(*order.lock().unwrap(), (0..20).collect::<Vec<_>>());
    }

    #[tokio::test(start_paused = true)]
    async fn a_cancelled_request_takes_time_only_if_its_service_began() {
        let places = Places::new(1);
        let begin = |n: &'static str| {
            let places = Arc::clone(&places);
            tokio::spawn(async move {
                places.serve(|| SERVICE).await;
                n
            })
        };
        let start = Instant::now();
        let (served, waiting, last) = (begin("served"), begin("waiting"), begin("last"));
        sleep(Duration::from_millis(10)).await;
        served.abort();
        waiting.abort();
        last.await.unwrap();
        let ideal = SERVICE * 2;
        assert!(
            start.elapsed() >= ideal && start.elapsed() <= ideal + Duration::from_millis(1),
            "{:?}",
            start.elapsed()
        );
    }

    #[tokio::test(start_paused = true)]
    async fn idle_time_does_not_shorten_the_next_service() {
        let places = Places::new(1);
        places.serve(|| SERVICE).await;
        advance(Duration::from_secs(5)).await;
        let start = Instant::now();
        places.serve(|| SERVICE).await;
        assert!(start.elapsed() >= SERVICE);
    }
}
