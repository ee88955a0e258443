//! The CPU that the application has, as the control plane says, and how the threads of one proxy
//! share that.
//!
//! A node agent moves CPU quotas between containers within 100 ms. What a sidecar measures follows
//! only with the next answers. So the control plane tells it the new quota at once:
//! [`Server::provide`](crate::server::Server::provide).
//!
//! One thread asks, as [`follower`](crate::sync::follower) says, and puts what it hears into the
//! shared data. It counts only if the same was in force when the question was asked. So of two
//! threads that both believe to lead, neither can bring older news back. Each control plane has a
//! key of its own.
//!
//! What was said is forgotten after [`KEPT`], by each thread for itself, unless it is said again.
//! Failed polls, and answers of a replica that knows nothing of the pod, say nothing.
//!
//! Cold start: nothing is known. Cost: a read of 32 bytes a look, a write of as many an answer. Not
//! in the papers.

use crate::config::error::{Members, read};
use crate::proxy::shared::{Cas, Shared};
use crate::units::{Ratio, Timestamp};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How long what was said holds. The control plane says it again at the end of each poll, which
/// takes [70 s](crate::sync::polls::longest) at most.
pub const KEPT: Duration = Duration::from_secs(90);

const KEY: &str = "bloc/cpu";
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
        let members: Members = read(json).unwrap_or_default();
        let member = |name| read(members.get(name)?.get().as_bytes()).ok();
        Self { cores: member("cores"), used: member("used"), per_request_us: member("perRequestUs") }.possible()
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

    /// The same, ready for use by each request.
    pub fn provided(&self) -> Provided {
        Provided { cores: self.cores, rate: self.service_rate(), headroom: self.headroom() }
    }

    /// What is known once this is said, if that was known `before`. The CPU time of a request stays
    /// with the cores: the control plane cannot always measure it.
    fn said_after(self, before: Self) -> Self {
        let kept = before.per_request_us.filter(|_| self.cores.is_some());
        Self { per_request_us: self.per_request_us.or(kept), ..self }
    }
}

/// What is known of the CPU, ready for use by each request.
#[derive(Clone, Copy, Debug, Default)]
pub struct Provided {
    /// The cores.
    pub cores: Option<f64>,
    /// The most requests per second.
    pub rate: Option<f64>,
    /// The share that is not used.
    pub headroom: Option<Ratio>,
}

/// What the threads share.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Said {
    at: Timestamp,
    cpu: ServerCpu,
}

impl Said {
    /// What is known of it now.
    fn known(&self, now: Timestamp) -> ServerCpu {
        if now.since(self.at) < KEPT { self.cpu } else { ServerCpu::default() }
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

/// What one thread knows of its application's CPU.
#[derive(Clone, Debug, Default)]
pub struct Supply {
    /// Where the threads share what this control plane says.
    key: String,
    /// What they shared at the last look, also if that was old.
    last: ServerCpu,
    in_force: ServerCpu,
}

impl Supply {
    /// Follows the control plane in this cluster from now on. Nothing is known from it yet.
    pub fn follow(&mut self, cluster: &str) {
        *self = Self { key: format!("{KEY}/{cluster}"), ..Self::default() };
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

    /// The control plane has `said` this, to a thread that had `asked` with that as the
    /// [last](Self::last). Returns whether it is news for all threads, which must then
    /// [look](Self::look), this one too.
    pub fn hear(&self, shared: &impl Shared, asked: ServerCpu, said: ServerCpu, now: Timestamp) -> bool {
        let (shares, cas) = self.shared(shared);
        let known = shares.known(now);
        let said = Said { at: now, cpu: said.said_after(known) };
        shares.cpu == asked && shared.set(&self.key, &said.bytes(), cas) && said.cpu != known
    }

    /// Takes over what the threads share. Returns whether that changes anything here.
    pub fn look(&mut self, shared: &impl Shared, now: Timestamp) -> bool {
        let (shares, _) = self.shared(shared);
        let known = shares.known(now);
        self.last = shares.cpu;
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
