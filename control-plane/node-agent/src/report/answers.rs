//! What pods have answered, as replicas report it.
//!
//! A replica reports sums since it was first asked for a pod. Only their growth counts: a base is
//! kept for each replica and pod. Bases are keyed by the replica's name: one with two addresses
//! counts once, and a restarted one has a new name.
//!
//! A replica forgets a pod that it is not asked about for 15 s, and starts at 0 again. Bases expire
//! earlier.

use crate::qos::Answers;
use bloc_daemon::cpu::{CpuAnswer, PodAnswers, PodName};
use bloc_daemon::lock;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// What pods have answered since this was last taken.
pub type Heard = Arc<Mutex<BTreeMap<PodName, Answers>>>;

/// How long a base counts.
const KEPT: Duration = Duration::from_secs(10);

/// When a replica was last asked for a pod, and its sums.
#[derive(Debug, Default)]
pub(super) struct Bases(BTreeMap<(String, PodName), (Duration, Answers)>);

impl Bases {
    /// Applies answers about these pods, asked for at `asked`. Returns how much the sums grew.
    pub(super) fn receive(
        &mut self,
        said: Vec<CpuAnswer>,
        asks: &BTreeSet<PodName>,
        asked: Duration,
    ) -> BTreeMap<PodName, Answers> {
        self.0.retain(|_, (at, _)| asked.saturating_sub(*at) < KEPT);
        let mut more: BTreeMap<PodName, Answers> = BTreeMap::new();
        for ((replica, pod), sums) in newest(said, asks) {
            let base = self.0.insert((replica, pod.clone()), (asked, sums));
            if let Some(grown) = base.and_then(|(_, base)| grown(base, sums)) {
                more.entry(pod).or_default().add(grown);
            }
        }
        more
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// The sums of each pod at each replica; the larger ones if a replica answered at two addresses.
/// Ignores pods that were not asked for, and impossible times.
fn newest(said: Vec<CpuAnswer>, asks: &BTreeSet<PodName>) -> BTreeMap<(String, PodName), Answers> {
    let mut newest: BTreeMap<_, Answers> = BTreeMap::new();
    for CpuAnswer { replica, answers } in said {
        for PodAnswers { pod, count, seconds } in answers {
            let Ok(time) = Duration::try_from_secs_f64(seconds) else { continue };
            if asks.contains(&pod) {
                let sums = newest.entry((replica.clone(), pod)).or_default();
                (sums.count, sums.time) = (sums.count.max(count), sums.time.max(time));
            }
        }
    }
    newest
}

/// None if sums fell or stayed.
fn grown(before: Answers, after: Answers) -> Option<Answers> {
    let count = after.count.checked_sub(before.count)?;
    let time = after.time.checked_sub(before.time)?;
    (count > 0).then_some(Answers { count, time })
}

/// Adds to what was not taken yet, and drops pods that are no longer asked for.
pub(super) fn put(heard: &Heard, more: BTreeMap<PodName, Answers>, asks: &BTreeSet<PodName>) {
    let mut heard = lock(heard);
    heard.retain(|pod, _| asks.contains(pod));
    for (pod, more) in more {
        heard.entry(pod).or_default().add(more);
    }
}
