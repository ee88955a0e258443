//! Response times of pods that node agents ask for, from the reports of the pods' proxies.
//!
//! The sums begin at the first question. They only grow, so an agent that misses an answer finds
//! everything in the next one. A replica hears only the reports whose polls it answers. Each report
//! counts at one replica, so the growth of all replicas' sums adds up.
//!
//! A pod that nobody asks for within [`SILENT_AFTER`](super::SILENT_AFTER) is forgotten. The next
//! question starts again at 0.

use super::news::is_silent;
use bloc_daemon::cpu::{PodAnswers, PodName};
use bloc_daemon::shares::{Share, Shares};
use bloc_policy::sync::ServiceLoad;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::Instant;

/// The proxy of a requested pod reports at least this often.
pub const ASKED_EVERY: Duration = Duration::from_secs(1);
/// The bytes of a requested pod, without its name.
const ASKED: usize = 128;

/// The responses of a pod since an agent first asked for it.
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
    /// An agent asks for this pod. False if there is no room for it.
    pub fn ask(&mut self, pod: String, memory: &Shares, now: Instant) -> bool {
        // An expired entry may still be here, because sweeps are rare.
        if let Some(asked) = self.0.get_mut(&pod).filter(|asked| asked.is_valid(now)) {
            asked.at = now;
            return true;
        }
        self.0.remove(&pod);
        let Ok(_memory) = memory.take("", ASKED + pod.len()) else { return false };
        self.0.insert(pod, Asked { at: now, count: 0, micros: 0, _memory });
        true
    }

    /// Forgets pods that nobody asks for any more.
    pub fn sweep(&mut self, now: Instant) {
        self.0.retain(|_, asked| asked.is_valid(now));
    }

    /// Whether agents ask for a pod.
    pub fn is_asked(&self, pod: &str, now: Instant) -> bool {
        self.0.get(pod).is_some_and(|asked| asked.is_valid(now))
    }

    /// The number of pods that agents ask for.
    pub fn count(&self, now: Instant) -> usize {
        self.0.values().filter(|asked| asked.is_valid(now)).count()
    }

    /// The proxy of a pod reports responses.
    pub fn add(&mut self, pod: &str, load: &[ServiceLoad]) {
        let Some(asked) = self.0.get_mut(pod) else { return };
        for latency in load.iter().filter_map(|load| load.latency.as_ref()) {
            let count = asked.count.checked_add(latency.response.count());
            let micros = asked.micros.checked_add(latency.response.sum_us);
            // A saturated sum would be wrong for ever, so both start again at 0.
            (asked.count, asked.micros) = count.zip(micros).unwrap_or_default();
        }
    }

    /// The sums of these pods, except those that nobody has asked for.
    pub fn answers(&self, pods: &[PodName]) -> Vec<PodAnswers> {
        let answers = |pod: &PodName| {
            let asked = self.0.get(&pod.key())?;
            Some(PodAnswers { pod: pod.clone(), count: asked.count, seconds: asked.micros as f64 / 1e6 })
        };
        pods.iter().filter_map(answers).collect()
    }
}
