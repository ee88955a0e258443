//! The schedule of a proxy's polls. Only the newest poll counts. The next one is due when it ends,
//! or when the services differ from those in it, but not before the end of a pause:
//!
//! | what came | pause |
//! |---|---|
//! | news, or CPU | none |
//! | nothing new, with `retry-after` | uniform in 0 to that time, at most 60 s: a thousand proxies must not reconnect at once |
//! | nothing new, in less than [`LEAST_WAIT`] | uniform in 1 to 2 times that: another proxy uses the same id |
//! | nothing new, after that | none |
//! | a failure, the `n`-th in a row | uniform in 0.5 to 1 times `min(0.5 s * 2^(n-1), 5 s)` |
//!
//! After a poll shorter than [`LEAST_WAIT`] the next one waits for a tick, except after an answer
//! about CPU only, at most once in [`LEAST_CPU`].

use crate::proxy::cpu::ServerCpu;
use crate::sync::follower::Stamp;
use crate::units::Timestamp;
use crate::units::rng::Rng;
use std::collections::BTreeSet;
use std::time::Duration;

/// The pause after a first failure, before jitter.
pub const LEAST_PAUSE: Duration = Duration::from_millis(500);
/// The longest pause after a failure.
pub const MOST_PAUSE: Duration = Duration::from_secs(5);
/// A shorter poll without news was not held for its time.
pub const LEAST_WAIT: Duration = Duration::from_millis(900);
/// The shortest time between polls that follow short ones at once. The control plane sends CPU at
/// most five times a second, but the network may bring two answers closer together.
pub const LEAST_CPU: Duration = Duration::from_millis(150);
/// The longest `retry-after` to obey.
pub const MOST_RETRY_AFTER: Duration = Duration::from_secs(60);
/// How long a poll may take beyond the time that the control plane may hold it.
const GRACE: Duration = Duration::from_secs(5);

/// The timeout of a poll that the control plane may hold for `wait`.
pub fn timeout(wait: Duration) -> Duration {
    wait + GRACE
}

/// After this time no answer can arrive.
pub fn longest(wait: Duration) -> Duration {
    timeout(wait) + GRACE
}

/// What a poll asks.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// The services that it asks for.
    pub services: BTreeSet<String>,
    /// The services whose load it reports.
    pub serves: BTreeSet<String>,
    /// The stamp of the state when it was asked.
    pub stamp: Stamp,
    /// The shared CPU at that time.
    pub cpu: ServerCpu,
    /// How long the control plane may hold it.
    pub wait: Duration,
}

/// A poll that has ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Answered {
    /// What it asked.
    pub question: Question,
    /// When it began.
    pub since: Timestamp,
}

/// The outcome of a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// An answer with a state, which was accepted.
    News,
    /// An answer about CPU only; the state stays.
    Cpu,
    /// Nothing is new.
    Unchanged {
        /// How long the control plane asks to be left alone.
        retry_after: Option<Duration>,
    },
    /// The answer was refused, had another status, or did not arrive.
    Failed,
}

/// What follows a poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settled {
    /// How long to pause, if the poll failed.
    pub pause: Option<Duration>,
    /// Whether the next poll may begin in the same call if it is due. Otherwise it waits for a
    /// tick.
    pub at_once: bool,
}

/// The polls of one VM.
#[derive(Clone, Debug, Default)]
pub struct Polls {
    /// The poll under way, and the host's token for it.
    under_way: Option<(u32, Answered)>,
    failures: u32,
    not_before: Timestamp,
    /// When a poll last followed at once after a short one.
    hurried: Timestamp,
}

impl Polls {
    /// The root context was lost, with the poll under way. The next poll is due.
    pub fn reset(&mut self) {
        self.under_way = None;
        self.not_before = Timestamp::ZERO;
    }

    /// Gives up the poll under way if the host's timeout and a reserve have passed: it was lost.
    pub fn give_up(&mut self, now: Timestamp) {
        self.under_way.take_if(|(_, poll)| now.since(poll.since) >= longest(poll.question.wait));
    }

    /// Whether to poll now for `services`, and report the load of `serves`.
    pub fn is_due(&self, services: &BTreeSet<String>, serves: &BTreeSet<String>, now: Timestamp) -> bool {
        let same = |question: &Question| question.services == *services && question.serves == *serves;
        let asked = self.under_way.as_ref().is_some_and(|(_, poll)| same(&poll.question));
        !asked && now >= self.not_before
    }

    /// Whether an answer is still to come.
    pub fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    /// A poll begins, with the host's `token`. An older one no longer counts.
    pub fn asked(&mut self, token: u32, question: Question, now: Timestamp) {
        self.under_way = Some((token, Answered { question, since: now }));
    }

    /// The call with this token ended. Returns the poll if it was the one under way, to be
    /// [settled](Self::settle) next.
    pub fn answered(&mut self, token: u32) -> Option<Answered> {
        self.under_way.take_if(|(name, _)| *name == token).map(|(_, poll)| poll)
    }

    /// Records the outcome of the poll that began at `since`.
    pub fn settle(&mut self, since: Timestamp, outcome: Outcome, now: Timestamp, rng: &mut impl Rng) -> Settled {
        let took = now.since(since);
        let pause = match outcome {
            Outcome::News | Outcome::Cpu => {
                self.failures = 0;
                None
            }
            Outcome::Unchanged { retry_after } => {
                self.failures = 0;
                let jitter = rng.unit();
                if let Some(within) = retry_after {
                    self.not_before = now.after(within.min(MOST_RETRY_AFTER).mul_f64(jitter));
                } else if took < LEAST_WAIT {
                    self.not_before = now.after(LEAST_WAIT.mul_f64(1.0 + jitter));
                }
                None
            }
            Outcome::Failed => Some(self.pause(now, rng)),
        };
        let hurries = outcome == Outcome::Cpu && now.since(self.hurried) >= LEAST_CPU;
        if hurries {
            self.hurried = now;
        }
        Settled { pause, at_once: hurries || took >= LEAST_WAIT }
    }

    /// The host refused to send the poll. Returns the pause.
    pub fn failed_to_ask(&mut self, now: Timestamp, rng: &mut impl Rng) -> Duration {
        self.pause(now, rng)
    }

    fn pause(&mut self, now: Timestamp, rng: &mut impl Rng) -> Duration {
        let pause = LEAST_PAUSE.saturating_mul(1 << self.failures.min(10)).min(MOST_PAUSE);
        let pause = pause.mul_f64(0.5 + 0.5 * rng.unit());
        self.failures = self.failures.saturating_add(1);
        self.not_before = now.after(pause);
        pause
    }
}

#[cfg(test)]
#[path = "polls_tests.rs"]
mod tests;
