//! The response times of pods that node agents ask for, as the proxies of the pods report them.
//!
//! Sums, from the first question on. They only grow, so an agent that misses an answer finds
//! everything in the next one. A replica hears only those reports whose polls it answers. Each
//! report counts at one replica, so what the sums of all replicas grow by adds up.
//!
//! A pod that nobody asks for within [`SILENT_AFTER`](super::SILENT_AFTER) is forgotten. The next
//! question begins at 0.

use super::news::is_silent;
use bloc_daemon::cpu::{PodAnswers, PodName};
use bloc_daemon::shares::{Share, Shares};
use bloc_policy::sync::ServiceLoad;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// The proxy of a pod that is asked for reports at least this often.
pub const ASKED_EVERY: Duration = Duration::from_secs(1);
/// The bytes of a pod that is asked for, without its name.
const ASKED: usize = 128;

/// What a pod has answered since it was first asked for.
#[derive(Debug)]
struct Asked {
    at: Instant,
    count: u64,
    micros: u64,
    _memory: Share,
}

impl Asked {
    fn is_valid(&self, now: Instant) -> bool {
        !is_silent(self.at, now)
    }
}

/// The pods that agents ask for.
#[derive(Debug, Default)]
pub struct Asks(BTreeMap<String, Asked>);

impl Asks {
    /// Somebody asks for this pod. False if there is no room for it.
    pub fn ask(&mut self, pod: String, memory: &Shares, now: Instant) -> bool {
        // It may be kept longer than for its time, because sweeps are rare.
        if let Some(asked) = self.0.get_mut(&pod).filter(|asked| asked.is_valid(now)) {
            asked.at = now;
            return true;
        }
        self.0.remove(&pod);
        let Ok(_memory) = memory.take("", ASKED + pod.len()) else { return false };
        self.0.insert(pod, Asked { at: now, count: 0, micros: 0, _memory });
        true
    }

    /// Forgets those that were not asked for of late.
    pub fn sweep(&mut self, now: Instant) {
        self.0.retain(|_, asked| asked.is_valid(now));
    }

    /// Whether a pod was asked for of late.
    pub fn is_asked(&self, pod: &str, now: Instant) -> bool {
        self.0.get(pod).is_some_and(|asked| asked.is_valid(now))
    }

    /// The number of pods that were asked for of late.
    pub fn count(&self, now: Instant) -> usize {
        self.0.values().filter(|asked| asked.is_valid(now)).count()
    }

    /// The proxy of a pod reports what it has answered.
    pub fn add(&mut self, pod: &str, load: &[ServiceLoad]) {
        let Some(asked) = self.0.get_mut(pod) else { return };
        for latency in load.iter().filter_map(|load| load.latency.as_ref()) {
            let count = asked.count.checked_add(latency.response.count());
            let micros = asked.micros.checked_add(latency.response.sum_us);
            // A sum that could grow no more would be a lie for ever: they begin anew.
            (asked.count, asked.micros) = count.zip(micros).unwrap_or_default();
        }
    }

    /// What these pods have answered; without those that nobody has asked for.
    pub fn answers(&self, pods: &[PodName]) -> Vec<PodAnswers> {
        let answers = |pod: &PodName| {
            let asked = self.0.get(&pod.key())?;
            Some(PodAnswers { pod: pod.clone(), count: asked.count, seconds: asked.micros as f64 / 1e6 })
        };
        pods.iter().filter_map(answers).collect()
    }
}
