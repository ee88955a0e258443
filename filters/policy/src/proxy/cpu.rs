//! The application's CPU, as reported by the control plane and shared by the threads of one proxy.
//!
//! A node agent moves CPU quotas within 100 ms; a sidecar's own measurements follow only with the
//! next answers. So the control plane reports a new quota at once
//! ([`Server::provide`](crate::server::Server::provide)).
//!
//! One thread asks ([`follower`](crate::sync::follower)) and shares the answer, but only if the
//! shared data is unchanged since it asked. So if two threads believe that they lead, neither can
//! restore older news. Not in the papers.

use crate::config::error::{Members, read};
use crate::proxy::shared::{Cas, Shared};
use crate::units::{Ratio, Timestamp};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How long a report holds. The control plane repeats it after each poll, which takes at most [70
/// s](crate::sync::polls::longest). Failed polls and replicas that do not know the pod say nothing.
pub const KEPT: Duration = Duration::from_secs(90);

const KEY: &str = "bloc/cpu";
/// Most cores that are believed: more than any machine has.
const MOST_CORES: f64 = 1e5;
/// Longest CPU time of a request that is believed, in microseconds: an hour.
const MOST_MICROS: f64 = 3.6e9;

/// The application's CPU. Absent members are unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ServerCpu {
    /// The CPU quotas of all containers of the pod that the node agent manages, in cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<f64>,
    /// Their recent usage, in cores.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<f64>,
    /// The CPU time of a request, in microseconds; absent: unchanged, while the cores are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_request_us: Option<f64>,
}

impl ServerCpu {
    /// Reads the control plane's JSON. Impossible values become unknown.
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

    /// The share of the CPU that is not used, 0 to 1.
    pub fn headroom(&self) -> Option<Ratio> {
        Ratio::new((1.0 - self.used? / self.cores?).max(0.0))
    }

    /// The most requests per second that the CPU allows.
    pub fn service_rate(&self) -> Option<f64> {
        Some(self.cores? * 1e6 / self.per_request_us?)
    }

    /// The values that each request needs.
    pub fn provided(&self) -> Provided {
        Provided { cores: self.cores, rate: self.service_rate(), headroom: self.headroom() }
    }

    /// Merges this report with the one `before`. The control plane cannot always measure the CPU
    /// time of a request, so that stays while the cores are known.
    fn said_after(self, before: Self) -> Self {
        let kept = before.per_request_us.filter(|_| self.cores.is_some());
        Self { per_request_us: self.per_request_us.or(kept), ..self }
    }
}

/// The CPU, as each request needs it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Provided {
    /// In cores.
    pub cores: Option<f64>,
    /// The most requests per second that the CPU allows.
    pub rate: Option<f64>,
    /// The unused share, 0 to 1.
    pub headroom: Option<Ratio>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Said {
    at: Timestamp,
    cpu: ServerCpu,
}

impl Said {
    fn known(&self, now: Timestamp) -> ServerCpu {
        if now.since(self.at) < KEPT { self.cpu } else { ServerCpu::default() }
    }

    /// NaN stands for unknown.
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
    /// The key in the shared data; each control plane has its own.
    key: String,
    /// Shared at the last look, even if expired.
    last: ServerCpu,
    in_force: ServerCpu,
}

impl Supply {
    /// Follows the control plane in this cluster. Nothing is known from it yet.
    pub fn follow(&mut self, cluster: &str) {
        *self = Self { key: format!("{KEY}/{cluster}"), ..Self::default() };
    }

    /// Forgets the CPU in this thread.
    pub fn forget(&mut self) {
        self.in_force = ServerCpu::default();
    }

    /// The CPU in force in this thread.
    pub fn get(&self) -> ServerCpu {
        self.in_force
    }

    /// What was shared at the last look, to remember with the next question.
    pub fn last(&self) -> ServerCpu {
        self.last
    }

    /// The control plane `said` this when the asking thread's [last](Self::last) was `asked`.
    /// Returns whether all threads, including this one, must now [look](Self::look).
    pub fn observe(&self, shared: &impl Shared, asked: ServerCpu, said: ServerCpu, now: Timestamp) -> bool {
        let (shares, cas) = self.shared(shared);
        let known = shares.known(now);
        let said = Said { at: now, cpu: said.said_after(known) };
        shares.cpu == asked && shared.set(&self.key, &said.bytes(), cas) && said.cpu != known
    }

    /// Applies what the threads share. Returns whether it changed anything here.
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
