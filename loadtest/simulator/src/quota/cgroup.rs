//! A container in the kernel's bandwidth control.
//!
//! It works on its requests in the order of their arrival, on at most so many threads at once, each
//! on a core of its own. Every 100 ms the quota is filled up anew. Once it is used up, the
//! container is throttled until the next period, or until its quota is written. Times are in
//! nanoseconds.

use super::case::Case;
use bloc_node_agent::Cores;
use std::collections::VecDeque;

/// The length of a period.
pub const PERIOD: u64 = 100_000_000;

/// A request inside.
#[derive(Clone, Copy, Debug)]
struct Work {
    came: u64,
    /// CPU time that it still needs.
    left: u64,
}

/// What the kernel counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// CPU time.
    pub used: u64,
    /// Periods in which something ran or wanted to.
    pub periods: u64,
    /// Those in which it was throttled.
    pub throttled: u64,
}

/// A request has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// When it came.
    pub came: u64,
    /// How long it was inside.
    pub took: u64,
}

/// A container.
#[derive(Clone, Debug)]
pub struct Cgroup {
    now: u64,
    quota: Cores,
    threads: usize,
    /// CPU time that may lie over from earlier periods (`cpu.cfs_burst_us`).
    burst: u64,
    /// How long a request waits for a thread.
    patience: u64,
    /// Whether a write fills the quota up.
    refill: bool,
    period_ends: u64,
    left: u64,
    throttled: bool,
    active: bool,
    running: Vec<Work>,
    waiting: VecDeque<Work>,
    counters: Counters,
}

impl Cgroup {
    /// An idle container whose first period ends at `phase`.
    pub fn new(case: &Case, quota: Cores, burst: u64, phase: u64) -> Self {
        Self {
            now: 0,
            quota,
            threads: case.threads,
            burst,
            patience: case.patience.as_nanos() as u64,
            refill: case.refill,
            period_ends: phase,
            left: fill(quota),
            throttled: false,
            active: false,
            running: Vec::new(),
            waiting: VecDeque::new(),
            counters: Counters::default(),
        }
    }

    /// Writes the quota. As in the kernel (`tg_set_cfs_bandwidth`), this fills it up at once.
    pub fn set_quota(&mut self, quota: Cores) {
        let before = fill(self.quota);
        self.quota = quota;
        if self.refill {
            self.fill_up();
        } else {
            self.left = (self.left + fill(quota)).saturating_sub(before);
        }
    }

    fn fill_up(&mut self) {
        self.left = (self.left + fill(self.quota)).min(fill(self.quota) + self.burst);
    }

    /// What was counted so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// A request comes now.
    pub fn receive(&mut self, need: u64) {
        self.waiting.push_back(Work { came: self.now, left: need });
    }

    /// Works until then. Calls `ended` with each request that is answered, or that has waited for
    /// longer than its client does and is dropped.
    pub fn run(&mut self, until: u64, mut ended: impl FnMut(End)) {
        while self.now < until {
            self.begin(&mut ended);
            let until = until.min(self.period_ends);
            let threads = self.running.len() as u64;
            self.active |= threads > 0;
            let shortest = self.running.iter().map(|work| work.left).min();
            if let Some(shortest) = shortest.filter(|_| self.left > 0) {
                let ran = (until - self.now).min(shortest).min(self.left.div_ceil(threads));
                self.now += ran;
                self.left = self.left.saturating_sub(ran * threads);
                self.counters.used += ran * threads;
                let now = self.now;
                self.running.retain_mut(|work| {
                    work.left -= ran;
                    if work.left == 0 {
                        ended(End { came: work.came, took: now - work.came });
                    }
                    work.left > 0
                });
            } else {
                self.throttled |= threads > 0;
                self.now = until;
            }
            if self.now == self.period_ends {
                self.period_ends += PERIOD;
                self.counters.periods += u64::from(self.active);
                self.counters.throttled += u64::from(self.throttled);
                (self.active, self.throttled) = (false, false);
                self.fill_up();
            }
        }
    }

    /// Takes requests out of the queue.
    fn begin(&mut self, mut ended: impl FnMut(End)) {
        while self.running.len() < self.threads
            && let Some(work) = self.waiting.pop_front()
        {
            let took = self.now - work.came;
            if took > self.patience {
                ended(End { came: work.came, took });
            } else {
                self.running.push(work);
            }
        }
    }
}

/// CPU time of a period.
fn fill(quota: Cores) -> u64 {
    (quota.get() * PERIOD as f64) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const MS: u64 = 1_000_000;

    fn cgroup(quota: f64, threads: usize, burst: u64) -> Cgroup {
        Cgroup::new(&Case { threads, ..Case::default() }, Cores::new(quota), burst, PERIOD)
    }

    /// The times, in milliseconds, of what ends until then.
    fn run(cgroup: &mut Cgroup, until: u64) -> Vec<f64> {
        let mut times = Vec::new();
        cgroup.run(until * MS, |end| times.push(end.took as f64 / MS as f64));
        times
    }

    #[test]
    fn a_request_takes_its_cpu_time_and_waits_for_the_next_period_once_the_quota_is_used_up() {
        let mut cgroup = cgroup(0.25, 2, 0);
        cgroup.receive(20 * MS);
        assert_eq!(run(&mut cgroup, 100), [20.0]);
        cgroup.receive(30 * MS);
        assert_eq!(run(&mut cgroup, 300), [105.0]);
        let counters = Counters { used: 50 * MS, periods: 3, throttled: 1 };
        assert_eq!(cgroup.counters(), counters, "the last period of three had nothing to do once it was answered");
        run(&mut cgroup, 400);
        assert_eq!(cgroup.counters(), counters, "an idle period does not count");
    }

    #[test]
    fn who_needs_just_the_quota_is_not_throttled() {
        let mut cgroup = cgroup(0.25, 1, 0);
        cgroup.receive(25 * MS);
        assert_eq!(run(&mut cgroup, 100), [25.0]);
        assert_eq!(cgroup.counters(), Counters { used: 25 * MS, periods: 1, throttled: 0 });
        let mut whole = self::cgroup(1.0, 1, 0);
        whole.receive(150 * MS);
        assert_eq!(run(&mut whole, 200), [150.0]);
        assert_eq!(whole.counters().throttled, 0);
    }

    #[test]
    fn threads_share_the_quota_and_further_requests_wait() {
        let mut large = cgroup(2.0, 2, 0);
        for need in [10, 15, 2] {
            large.receive(need * MS);
        }
        assert_eq!(run(&mut large, 100), [10.0, 12.0, 15.0]);
        let mut small = cgroup(0.1, 2, 0);
        for _ in 0..2 {
            small.receive(10 * MS);
        }
        assert_eq!(run(&mut small, 200), [105.0, 105.0]);
    }

    #[test]
    fn a_burst_is_what_lay_unused_before() {
        let mut with = cgroup(0.1, 1, 10 * MS);
        run(&mut with, 300);
        assert_eq!(with.counters(), Counters::default(), "it was idle from the beginning");
        with.receive(25 * MS);
        assert_eq!(run(&mut with, 500), [105.0]);
        let mut without = cgroup(0.1, 1, 0);
        run(&mut without, 300);
        without.receive(25 * MS);
        assert_eq!(run(&mut without, 600), [205.0]);
    }

    #[test]
    fn a_quota_that_is_written_is_filled_up_at_once() {
        let mut cgroup = cgroup(0.1, 1, 0);
        cgroup.receive(90 * MS);
        run(&mut cgroup, 50);
        cgroup.set_quota(Cores::new(0.3));
        assert_eq!((run(&mut cgroup, 90), cgroup.counters().used), (vec![], 40 * MS));
        // The same again: it has the new quota once more, and not more than that.
        cgroup.set_quota(Cores::new(0.2));
        assert_eq!((run(&mut cgroup, 100), cgroup.counters().used), (vec![], 50 * MS));
        assert_eq!((run(&mut cgroup, 150), cgroup.counters().used), (vec![], 70 * MS));
        cgroup.set_quota(Cores::new(0.1));
        assert_eq!((run(&mut cgroup, 199), cgroup.counters().used), (vec![], 80 * MS));
        assert_eq!(run(&mut cgroup, 300), [210.0]);
    }

    #[test]
    fn without_that_only_the_difference_comes_or_goes() {
        let case = Case { threads: 1, refill: false, ..Case::default() };
        let mut cgroup = Cgroup::new(&case, Cores::new(0.1), 0, PERIOD);
        cgroup.receive(90 * MS);
        run(&mut cgroup, 50);
        cgroup.set_quota(Cores::new(0.3));
        run(&mut cgroup, 90);
        assert_eq!(cgroup.counters().used, 30 * MS);
        run(&mut cgroup, 110);
        cgroup.set_quota(Cores::new(0.15));
        run(&mut cgroup, 190);
        assert_eq!(cgroup.counters().used, 45 * MS);
    }

    #[test]
    fn the_period_has_a_phase() {
        let mut cgroup = Cgroup::new(&Case::default(), Cores::new(0.1), 0, 30 * MS);
        cgroup.receive(15 * MS);
        assert_eq!(run(&mut cgroup, 100), [35.0]);
    }

    #[test]
    fn a_client_that_has_waited_for_too_long_is_gone_unless_its_request_is_begun() {
        let case = Case { threads: 1, patience: Duration::from_millis(50), ..Case::default() };
        let mut cgroup = Cgroup::new(&case, Cores::new(1.0), 0, PERIOD);
        for need in [50, 60, 1] {
            cgroup.receive(need * MS);
        }
        assert_eq!(run(&mut cgroup, 200), [50.0, 110.0, 110.0]);
        assert_eq!(cgroup.counters().used, 110 * MS);
    }
}
