//! What replicas say that pods have answered.
//!
//! A replica says sums since it was first asked for a pod. Of those, only what they have grown by
//! counts: a base is kept for each replica and pod. It is found by the name of the replica, so one
//! with two addresses counts once. A restarted replica has another name.
//!
//! A replica forgets a pod that is not asked for within 15 s, and begins at 0. So an older base is
//! no base.

use crate::qos::Answers;
use bloc_daemon::cpu::{CpuAnswer, PodAnswers, PodName};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// What pods have answered since this was last taken.
pub type Heard = Arc<Mutex<BTreeMap<PodName, Answers>>>;

/// How long a base counts.
const KEPT: Duration = Duration::from_secs(10);

/// The last sums of a pod at a replica, and when it was asked for them.
#[derive(Clone, Copy, Debug)]
struct Base {
    asked: Duration,
    sums: Answers,
}

/// The last sums of each pod at each replica.
#[derive(Debug, Default)]
pub(super) struct Bases(BTreeMap<(String, PodName), Base>);

impl Bases {
    /// The replicas were asked for these pods at `asked`, and said this: how much more pods have
    /// answered. Forgets who has not been asked for long.
    pub(super) fn hear(
        &mut self,
        said: Vec<CpuAnswer>,
        asks: &BTreeSet<PodName>,
        asked: Duration,
    ) -> BTreeMap<PodName, Answers> {
        self.0.retain(|_, base| asked.saturating_sub(base.asked) < KEPT);
        let mut more: BTreeMap<PodName, Answers> = BTreeMap::new();
        for ((replica, pod), sums) in newest(said, asks) {
            let base = self.0.insert((replica, pod.clone()), Base { asked, sums });
            if let Some(grown) = base.and_then(|base| grown(base.sums, sums)) {
                add(more.entry(pod).or_default(), grown);
            }
        }
        more
    }

    /// How many are kept.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }
}

/// The sums of each pod at each replica. If it was asked at two addresses, the later answer has the
/// larger sums. Without pods that were not asked for, and times that cannot be.
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

/// By how much sums have grown; none if they fell, or not at all.
fn grown(before: Answers, after: Answers) -> Option<Answers> {
    let count = after.count.checked_sub(before.count)?;
    let time = after.time.checked_sub(before.time)?;
    (count > 0).then_some(Answers { count, time })
}

fn add(sums: &mut Answers, more: Answers) {
    sums.count = sums.count.saturating_add(more.count);
    sums.time = sums.time.saturating_add(more.time);
}

/// Adds what pods have answered to what was heard before, and drops what was heard of pods that are
/// no longer asked for.
pub(super) fn put(heard: &Heard, more: BTreeMap<PodName, Answers>, asks: &BTreeSet<PodName>) {
    let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
    heard.retain(|pod, _| asks.contains(pod));
    for (pod, more) in more {
        add(heard.entry(pod).or_default(), more);
    }
}
