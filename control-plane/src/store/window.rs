//! When a proxy counts at this replica. Exactly one replica counts each proxy, wherever its polls
//! go.
//!
//! The replica that answered a proxy last counts it until the next answer. Both ends are [`LINGER`]
//! late, so that this replica need not know of the next answer. With `a` the time of the answer
//! before this poll and `b` the time of the answer to it, this poll counts at its replica in
//!
//! ```text
//! [a + LINGER, b + LINGER)        open-ended while the poll is held
//! ```
//!
//! | the previous answer came from | the poll counts from |
//! |---|---|
//! | another replica | `a + LINGER`: until then the other replica counts the proxy |
//! | this replica | the start of the previous poll's window, without a gap |
//! | nobody: a first poll, a failed one, a replica shutting down | now |
//!
//! If the client of a poll leaves, the window ends at once: the proxy either comes back at once or
//! is gone. A newer poll of the same proxy replaces the older one. If an answer is lost, both
//! replicas count the proxy for at most [`LINGER`]; if a replica answers and dies, neither counts
//! it for as long. Cost: some 100 bytes per proxy.

use bloc_policy::sync::Last;
use std::time::Duration;
use tokio::time::Instant;

/// Longer than a proxy's longest pause between an answer and its next poll: 5 s and a tick.
pub const LINGER: Duration = Duration::from_secs(6);
/// The most windows kept of one proxy. Polls that are answered early make no more within
/// [`LINGER`].
const MOST: usize = 16;

/// The windows of one proxy.
#[derive(Debug, Default)]
pub struct Window {
    /// When the current poll starts to count.
    open: Option<Instant>,
    /// The windows of previous polls, in order, with gaps between them.
    closed: Vec<(Instant, Instant)>,
}

impl Window {
    /// A poll has come to this replica, whose name is `own`.
    pub fn arrive(&mut self, last: Option<&Last>, own: &str, now: Instant) {
        let by_us = last.is_some_and(|last| last.replica == own);
        if by_us && self.open.is_some() {
            // It replaces a poll that followed the same answer.
            return;
        }
        self.leave(now);
        // Kept a little longer than they count, because a caller may ask about a moment just before
        // now.
        self.closed.retain(|(_, until)| now.saturating_duration_since(*until) < LINGER);
        self.open = Some(match last {
            Some(_) if by_us => self.closed.pop().map_or(now, |(from, _)| from),
            Some(last) if !last.replica.is_empty() => {
                now + LINGER.saturating_sub(Duration::from_millis(last.answered_ms))
            }
            _ => now,
        });
    }

    /// The current poll is answered, and the answer names this replica.
    pub fn answer(&mut self, now: Instant) {
        if let Some(from) = self.open.take() {
            self.close(from, now + LINGER);
        }
    }

    /// The current poll has ended without an answer.
    pub fn leave(&mut self, now: Instant) {
        if let Some(from) = self.open.take().filter(|from| *from < now) {
            self.close(from, now);
        }
    }

    /// Whether the proxy counts here at `at`: now or shortly before.
    pub fn contains(&self, at: Instant) -> bool {
        self.open.is_some_and(|from| from <= at)
            || self.closed.iter().any(|(from, until)| (*from..*until).contains(&at))
    }

    /// Keeps empty windows too: the next poll may continue from them.
    fn close(&mut self, from: Instant, until: Instant) {
        match self.closed.last_mut() {
            Some(last) if from <= last.1 => *last = (last.0.min(from), last.1.max(until)),
            _ => self.closed.push((from, until)),
        }
        if self.closed.len() > MOST {
            self.closed.remove(0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: [&str; 2] = ["one", "two"];

    /// Two replicas that one proxy polls; times in milliseconds.
    struct World {
        replicas: [Window; 2],
        start: Instant,
        /// Who answered last, and when.
        last: Option<(usize, u64)>,
    }

    impl World {
        fn new() -> Self {
            Self { replicas: Default::default(), start: Instant::now(), last: None }
        }

        fn at(&self, millis: u64) -> Instant {
            self.start + Duration::from_millis(millis)
        }

        fn poll(&mut self, replica: usize, millis: u64) {
            let last = self.last.map_or_else(Last::default, |(by, at)| Last {
                replica: NAMES[by].into(),
                answered_ms: millis - at,
                ..Last::default()
            });
            let now = self.at(millis);
            self.replicas[replica].arrive(Some(&last), NAMES[replica], now);
        }

        fn answer(&mut self, replica: usize, millis: u64) {
            let now = self.at(millis);
            self.replicas[replica].answer(now);
            self.last = Some((replica, millis));
        }

        /// The poll ends without an answer known to the proxy.
        fn leave(&mut self, replica: usize, millis: u64) {
            let now = self.at(millis);
            self.replicas[replica].leave(now);
            self.last = None;
        }

        /// How many replicas count the proxy.
        fn counts(&self, millis: u64) -> usize {
            self.replicas.iter().filter(|window| window.contains(self.at(millis))).count()
        }

        /// Which replica counts the proxy in the middle of each second: `1` or `2`, `-` for none
        /// and `*` for both.
        fn counted(&self, seconds: u64) -> String {
            let count = |second: u64| match self.replicas.each_ref().map(|w| w.contains(self.at(1_000 * second + 500)))
            {
                [true, false] => '1',
                [false, true] => '2',
                [true, true] => '*',
                [false, false] => '-',
            };
            (0..seconds).map(count).collect()
        }
    }

    #[test]
    fn one_replica_counts_a_proxy_that_alternates() {
        let mut world = World::new();
        // Each poll is held for a second; the next one follows at once.
        world.poll(0, 0);
        for second in 1..=6 {
            world.answer((second as usize - 1) % 2, 1_000 * second);
            world.poll(second as usize % 2, 1_000 * second);
        }
        assert_eq!(world.counted(15), "111111121212111");
    }

    #[test]
    fn counts_a_proxy_that_polls_at_random_once_at_every_moment() {
        for seed in 0..200 {
            let (mut world, mut rng) = (World::new(), fastrand::Rng::with_seed(seed));
            let (mut now, mut replica) = (0, rng.usize(..2));
            world.poll(replica, now);
            while now < 60_000 {
                // The answer comes at once, early or at the end; usually no pause follows it.
                let answered = now + [0, 4, 1_700, 5_000][rng.usize(..4)];
                world.answer(replica, answered);
                let next = answered + [0, 0, 900, 5_500][rng.usize(..4)];
                for at in now..next {
                    assert_eq!(world.counts(at), 1, "seed {seed} at {at}");
                }
                (now, replica) = (next, rng.usize(..2));
                world.poll(replica, now);
                assert_eq!(world.counts(now), 1, "seed {seed} at {now}");
            }
        }
    }

    #[test]
    fn counts_a_proxy_that_is_gone_until_its_linger_time_ends() {
        let mut world = World::new();
        world.poll(0, 0);
        world.answer(0, 2_000);
        assert_eq!(world.counted(10), "11111111--");
        let mut world = World::new();
        world.poll(0, 0);
        world.leave(0, 2_000);
        assert_eq!(world.counted(4), "11--", "its connection has ended");
    }

    #[test]
    fn after_a_replica_ends_the_other_counts_the_proxy_at_once() {
        let mut world = World::new();
        world.poll(0, 0);
        world.leave(0, 2_000);
        world.poll(1, 3_000);
        assert_eq!(world.counted(6), "11-222");
    }

    #[test]
    fn both_replicas_count_a_proxy_for_a_while_after_a_lost_answer() {
        let mut world = World::new();
        world.poll(0, 0);
        world.answer(0, 2_000);
        world.last = None;
        world.poll(1, 3_000);
        assert_eq!(world.counted(10), "111*****22");
    }

    #[test]
    fn a_newer_poll_replaces_the_older_one() {
        let mut world = World::new();
        world.poll(0, 0);
        world.answer(0, 1_000);
        world.poll(1, 1_000);
        world.poll(1, 3_000);
        assert_eq!(world.counted(10), "1111111222");
        // This replica still holds the older poll after another replica has answered.
        let mut world = World::new();
        world.poll(0, 0);
        world.last = None;
        world.poll(1, 2_000);
        world.answer(1, 3_000);
        world.poll(0, 4_000);
        assert_eq!(world.counted(11), "11**2222211");
    }

    #[test]
    fn a_newer_poll_counts_from_when_the_older_one_would_have() {
        let mut world = World::new();
        // Replica 1 answers at 1 s, replica 2 at 2 s, replica 1 at 3 s; then it gets two polls.
        for (replica, second) in [(0, 0), (1, 1), (0, 2)] {
            world.poll(replica, 1_000 * second);
            world.answer(replica, 1_000 * (second + 1));
        }
        world.poll(0, 3_000);
        world.poll(0, 4_000);
        assert_eq!(world.counted(11), "11111112111");
    }

    #[test]
    fn bounds_the_number_of_closed_windows() {
        let (mut window, start) = (Window::default(), Instant::now());
        for i in 0..1_000 {
            let now = start + Duration::from_millis(10 * i);
            let last = Last { replica: "other".into(), answered_ms: 5, ..Last::default() };
            window.arrive(Some(&last), "own", now);
            window.answer(now);
        }
        assert_eq!(window.closed.len(), MOST);
        window.arrive(None, "own", start + Duration::from_secs(3600));
        assert!(window.closed.is_empty());
    }
}
