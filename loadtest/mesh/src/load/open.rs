//! The open loop: arrivals of a Poisson process, computed in advance from the seed.
//!
//! A request's latency counts from its intended start. The request counts if that lies within the
//! window; the run then waits for its end, however late (up to its timeout). Two runs with the same
//! seed have the same arrivals.

use super::{Client, ErrorKind, LoadPlan, Outcome, Sample, Tally};
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand_distr::{Distribution, Exp1};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

/// The intended starts of the requests, from the start of the load: exponential gaps of mean `1 /
/// rate` (requests per second), up to `end`.
pub fn poisson_arrivals(rate: f64, end: Duration, seed: u64) -> Vec<Duration> {
    let mut rng = StdRng::seed_from_u64(seed);
    let mut at = 0.0;
    let gaps = std::iter::from_fn(|| {
        let gap: f64 = Exp1.sample(&mut rng);
        at += gap / rate;
        Duration::try_from_secs_f64(at).ok()
    });
    gaps.take_while(|arrival| *arrival < end).collect()
}

pub(super) async fn run(
    plan: &LoadPlan,
    client: Arc<Client>,
    rate: f64,
    start: Instant,
    tally: Arc<Tally>,
) -> Vec<Sample> {
    let arrivals = poisson_arrivals(rate, plan.warm_up + plan.window, plan.seed);
    let arrivals = arrivals.into_iter().map(|at| (at, Arc::clone(&client)));
    at_arrivals(arrivals, plan.warm_up, plan.outstanding_limit, start, tally).await
}

/// One request of a client at each of these moments after `start`. Those from `warm_up` on count.
pub async fn at_arrivals(
    arrivals: impl IntoIterator<Item = (Duration, Arc<Client>)>,
    warm_up: Duration,
    outstanding_limit: usize,
    start: Instant,
    tally: Arc<Tally>,
) -> Vec<Sample> {
    let places = Arc::new(Semaphore::new(outstanding_limit));
    let mut requests = JoinSet::new();
    let mut samples = Vec::new();
    for (arrival, client) in arrivals {
        let intended = start + arrival;
        let counts = arrival >= warm_up;
        sleep_until(intended).await;
        // Collected as they end, so that a long run does not keep a task for every request.
        while let Some(ended) = requests.try_join_next() {
            samples.extend(ended.ok().flatten());
        }
        let (tally, place) = (Arc::clone(&tally), Arc::clone(&places).try_acquire_owned());
        requests.spawn(async move {
            let outcome = match place {
                Ok(_place) => client.request().await,
                Err(_) => Outcome::Error(ErrorKind::Outstanding),
            };
            tally.count(outcome);
            let latency = intended.elapsed();
            counts.then_some(Sample { latency, outcome, ended: arrival + latency })
        });
    }
    samples.extend(requests.join_all().await.into_iter().flatten());
    samples
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_are_poisson_and_repeat_with_the_seed() {
        let (rate, end) = (200.0, Duration::from_secs(500));
        let arrivals = poisson_arrivals(rate, end, 5);
        assert_eq!(arrivals, poisson_arrivals(rate, end, 5));
        assert_ne!(arrivals, poisson_arrivals(rate, end, 6));
        assert!(arrivals.is_sorted() && arrivals.iter().all(|at| *at < end));
        // Counts per second of a Poisson process: its mean and variance both equal the rate.
        let mut counts = vec![0.0; 500];
        arrivals.iter().for_each(|at| counts[at.as_secs() as usize] += 1.0);
        let mean = counts.iter().sum::<f64>() / 500.0;
        let variance = counts.iter().map(|n: &f64| (n - mean).powi(2)).sum::<f64>() / 500.0;
        // Four standard errors of each.
        assert!((mean - rate).abs() < 4.0 * (rate / 500.0).sqrt(), "mean {mean}");
        assert!((variance / rate - 1.0).abs() < 4.0 * (2.0 / 500.0f64).sqrt(), "variance {variance}");
    }

    fn plan(target: std::net::SocketAddr) -> LoadPlan {
        LoadPlan {
            target,
            path: "/".into(),
            body: 0,
            load: "poisson:200".parse().unwrap(),
            keep_alive: false,
            timeout: Duration::from_millis(200),
            warm_up: Duration::from_millis(100),
            window: Duration::from_millis(400),
            outstanding_limit: 5,
            seed: 1,
        }
    }

    #[tokio::test]
    async fn reports_timeouts_and_requests_beyond_the_limit() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let plan = plan(listener.local_addr().unwrap());
        let measured = super::super::run(&plan, Instant::now(), Arc::default()).await;
        let arrivals = poisson_arrivals(200.0, Duration::from_millis(500), 1);
        let counted = arrivals.iter().filter(|at| **at >= plan.warm_up).count();
        assert_eq!(measured.samples.len(), counted);
        let errors = measured.errors();
        assert!(errors[&ErrorKind::Timeout] >= 5 && errors[&ErrorKind::Outstanding] > 0, "{errors:?}");
    }
}
