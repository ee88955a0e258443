//! The CPU that the application has, as the control plane and the node agent say, and how the
//! threads of one proxy share that.
//!
//! A node agent moves CPU quotas between containers within 100 ms. What a sidecar measures follows
//! only with the next answers. So the control plane tells it the new quota at once:
//! [`Server::provide`](crate::server::Server::provide).
//!
//! One thread asks, as [`follower`](crate::follower) says, and puts what it hears into the shared
//! data. It counts only if the same was in force when the question was asked. So of two threads
//! that both believe to lead, neither can bring older news back. Each control plane has a key of
//! its own.
//!
//! What was said is forgotten after a [time](Source::kept), by each thread for itself, unless it is
//! said again. Failed polls, and answers of a replica that knows nothing of the pod, say nothing.
//!
//! # The node agent itself
//!
//! A proxy may also ask the node agent of its node, over a unix socket of its own pod:
//! `GET` [`SELF_PATH`]. That saves the way over the control plane. The leader of the control
//! plane's polls asks. What the agent says has a [`Supply`] of its own, with a key for each
//! cluster. While its cores are known, they and what is used of them are in force, and otherwise
//! what the control plane says. The CPU time of a request is always the control plane's, since only
//! it can measure that ([`ServerCpu::or_nearer`]). A poll at the control plane says what that has
//! said, whatever the agent says: otherwise each difference between the two would be answered.
//!
//! Cold start: nothing is known. Cost: a read of 32 bytes a look and source, a write of as many an
//! answer. Not in the papers.

use crate::config::ConfigError;
use crate::members::{Members, read};
use crate::shared::{Cas, Shared};
use crate::units::{Ratio, Timestamp};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How long what the control plane said holds. It says it again at the end of each poll, which
/// takes [70 s](crate::polls::longest) at most.
pub const KEPT: Duration = Duration::from_secs(90);
/// How long what the node agent said holds: until an unanswered poll is
/// [over](crate::polls::longest), 20 s with [`SELF_WAIT`].
pub const SELF_KEPT: Duration = Duration::from_secs(20);
/// The path of a poll at the node agent.
pub const SELF_PATH: &str = "/v1/self";
/// How long the node agent may hold a poll.
pub const SELF_WAIT: Duration = Duration::from_secs(10);
/// Likewise if a poll was lost, so that what was said is said again before it is forgotten. It is
/// long enough that the next poll [follows at once](crate::polls::LEAST_WAIT).
pub const SELF_WAIT_AGAIN: Duration = Duration::from_secs(1);
/// How long an answer of the node agent may be under way without being lost.
const SELF_GRACE: Duration = Duration::from_secs(5);

/// The most cores that are believed: more than any machine has.
const MOST_CORES: f64 = 1e5;
/// The longest CPU time of a request that is believed, in microseconds: an hour.
const MOST_MICROS: f64 = 3.6e9;

/// What the application has of CPU. Absent members are not known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerCpu {
    /// The CPU quotas of all containers of the pod that the node agent manages, in cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<f64>,
    /// What they have used of late, in cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<f64>,
    /// The CPU time of a request, in microseconds; absent: as before, while the cores are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_request_us: Option<f64>,
}

impl ServerCpu {
    /// Reads what the control plane says, JSON. What is not possible is not known.
    pub fn read(json: &[u8]) -> Self {
        Self::read_object(json).unwrap_or_default()
    }

    /// Likewise, from an answer that is about nothing else.
    ///
    /// # Errors
    /// It is no JSON object.
    pub fn read_object(json: &[u8]) -> Result<Self, ConfigError> {
        let members: Members = read(json)?;
        let member = |name| read(members.get(name)?.get().as_bytes()).ok();
        Ok(Self { cores: member("cores"), used: member("used"), per_request_us: member("perRequestUs") }.possible())
    }

    /// What is in force if a nearer source, the node agent itself, says that.
    #[must_use]
    pub fn or_nearer(self, nearer: Self) -> Self {
        match nearer.cores {
            Some(_) => Self { per_request_us: self.per_request_us, ..nearer },
            None => self,
        }
    }

    fn possible(self) -> Self {
        let above_zero = |value: Option<f64>, most| value.filter(|value| *value > 0.0 && *value <= most);
        Self {
            cores: above_zero(self.cores, MOST_CORES),
            used: self.used.filter(|used| (0.0..=MOST_CORES).contains(used)),
            per_request_us: above_zero(self.per_request_us, MOST_MICROS),
        }
    }

    /// The share of its CPU that the application does not use.
    pub fn headroom(&self) -> Option<Ratio> {
        Ratio::new((1.0 - self.used? / self.cores?).max(0.0))
    }

    /// The most requests per second that its CPU is enough for.
    pub fn service_rate(&self) -> Option<f64> {
        Some(self.cores? * 1e6 / self.per_request_us?)
    }

    /// What is known once this is said, if that was known `before`. The CPU time of a request stays
    /// with the cores: the control plane cannot always measure it.
    fn said_after(self, before: Self) -> Self {
        let kept = before.per_request_us.filter(|_| self.cores.is_some());
        Self { per_request_us: self.per_request_us.or(kept), ..self }
    }
}

/// Who says it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// The control plane.
    #[default]
    ControlPlane,
    /// The node agent itself.
    NodeAgent,
}

impl Source {
    /// How long it holds.
    pub const fn kept(self) -> Duration {
        match self {
            Self::ControlPlane => KEPT,
            Self::NodeAgent => SELF_KEPT,
        }
    }

    /// Where the threads share it. No cluster's name makes one of another source's keys.
    const fn key(self) -> &'static str {
        match self {
            Self::ControlPlane => "bloc/cpu",
            Self::NodeAgent => "bloc/node-agent",
        }
    }
}

/// What the threads share.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Said {
    at: Timestamp,
    cpu: ServerCpu,
}

impl Said {
    /// What is known of it now, if it holds for so long.
    fn known(&self, kept: Duration, now: Timestamp) -> ServerCpu {
        if now.since(self.at) < kept { self.cpu } else { ServerCpu::default() }
    }

    /// NaN: not known.
    fn bytes(&self) -> Vec<u8> {
        let ServerCpu { cores, used, per_request_us } = self.cpu;
        let members = [cores, used, per_request_us].map(|member| member.unwrap_or(f64::NAN).to_bits());
        [self.at.as_nanos()].into_iter().chain(members).flat_map(u64::to_le_bytes).collect()
    }

    fn of_bytes(bytes: &[u8]) -> Self {
        let mut words = bytes.chunks_exact(8).filter_map(|word| Some(u64::from_le_bytes(word.try_into().ok()?)));
        let at = Timestamp::from_nanos(words.next().unwrap_or_default());
        let mut member = || words.next().map(f64::from_bits);
        let cpu = ServerCpu { cores: member(), used: member(), per_request_us: member() };
        Self { at, cpu: cpu.possible() }
    }
}

/// What one thread knows of its application's CPU, from one source.
#[derive(Clone, Debug, Default)]
pub struct Supply {
    source: Source,
    /// Where the threads share what it says.
    key: String,
    /// What they shared at the last look, also if that was old, and when it was said.
    last: ServerCpu,
    said: Timestamp,
    in_force: ServerCpu,
}

impl Supply {
    /// From this source; nothing yet.
    pub fn of(source: Source) -> Self {
        Self { source, ..Self::default() }
    }

    /// Follows the source in this cluster from now on. Nothing is known from it yet.
    pub fn follow(&mut self, cluster: &str) {
        *self = Self { key: format!("{}/{cluster}", self.source.key()), ..Self::of(self.source) };
    }

    /// Forgets what was in force in this thread.
    pub fn forget(&mut self) {
        self.in_force = ServerCpu::default();
    }

    /// What is in force in this thread.
    pub fn get(&self) -> ServerCpu {
        self.in_force
    }

    /// What the threads shared at the last look, for the question that is asked next.
    pub fn last(&self) -> ServerCpu {
        self.last
    }

    /// How long the node agent may hold the question that is asked next. Usually the last answer
    /// has just come. If it was lost, or came to a leader that has died, a shorter time lets what
    /// is in force be said again in time.
    pub fn self_wait(&self, now: Timestamp) -> Duration {
        let ends_late = now.since(self.said) + SELF_WAIT + SELF_GRACE > SELF_KEPT;
        if self.in_force.cores.is_some() && ends_late { SELF_WAIT_AGAIN } else { SELF_WAIT }
    }

    /// The source has `said` this, to a thread that had `asked` with that as the
    /// [last](Self::last). Returns whether it is news for all threads, which must then
    /// [look](Self::look), this one too.
    pub fn hear(&self, shared: &impl Shared, asked: ServerCpu, said: ServerCpu, now: Timestamp) -> bool {
        let (shares, cas) = self.shared(shared);
        let known = shares.known(self.source.kept(), now);
        let said = Said { at: now, cpu: said.said_after(known) };
        shares.cpu == asked && shared.set(&self.key, &said.bytes(), cas) && said.cpu != known
    }

    /// Takes over what the threads share. Returns whether that changes anything here.
    pub fn look(&mut self, shared: &impl Shared, now: Timestamp) -> bool {
        let (shares, _) = self.shared(shared);
        let known = shares.known(self.source.kept(), now);
        (self.last, self.said) = (shares.cpu, shares.at);
        std::mem::replace(&mut self.in_force, known) != known
    }

    fn shared(&self, shared: &impl Shared) -> (Said, Cas) {
        let (value, cas) = shared.get(&self.key);
        (value.map(|bytes| Said::of_bytes(&bytes)).unwrap_or_default(), cas)
    }
}

#[cfg(test)]
#[path = "cpu_tests.rs"]
mod tests;
