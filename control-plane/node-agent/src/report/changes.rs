//! What is due to be sent to a replica.

use super::message::Cpu;
use bloc_daemon::cpu::{PodCpu, PodName, differs};
use std::collections::BTreeMap;
use std::time::Duration;

/// How often everything is sent.
pub const ALL: Duration = Duration::from_secs(5);

/// What a replica knows.
#[derive(Debug, Default)]
pub(super) struct Known {
    /// When everything was sent; none: the replica may know nothing.
    all: Option<Duration>,
    cores: BTreeMap<PodName, f64>,
}

impl Known {
    /// The pods that are due at `now`, and whether these are all pods. From then on they count as
    /// known. A pod that lost its quota is sent once without cores.
    pub(super) fn next(&mut self, cpu: &Cpu, now: Duration) -> Option<(Vec<PodCpu>, bool)> {
        let all = self.all.is_none_or(|at| now.saturating_sub(at) >= ALL);
        if all {
            self.all = Some(now);
        }
        let current: BTreeMap<PodName, &PodCpu> = cpu.pods.iter().map(|pod| (name(pod), pod)).collect();
        let differs = |name: &PodName, pod: &PodCpu| differs(self.cores.get(name).copied(), pod.cores);
        let changed = current.iter().filter(|(name, pod)| all || differs(name, pod));
        let mut pods: Vec<PodCpu> = changed.map(|(_, pod)| (*pod).clone()).collect();
        let gone = self.cores.keys().filter(|name| !current.contains_key(name)).cloned();
        pods.extend(gone.map(|PodName { namespace, name }| PodCpu { namespace, name, ..PodCpu::default() }));
        for pod in &pods {
            match pod.cores {
                Some(cores) => drop(self.cores.insert(name(pod), cores)),
                None => drop(self.cores.remove(&name(pod))),
            }
        }
        (all || !pods.is_empty()).then_some((pods, all))
    }

    /// Call this if the last message may not have arrived.
    pub(super) fn forget(&mut self) {
        *self = Self::default();
    }
}

fn name(PodCpu { namespace, name, .. }: &PodCpu) -> PodName {
    PodName { namespace: namespace.clone(), name: name.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu(cores: &[(&str, f64)]) -> Cpu {
        let pod = |(name, cores): &(&str, f64)| PodCpu {
            namespace: "shop".to_owned(),
            name: (*name).to_owned(),
            cores: Some(*cores),
            used_seconds: 1.5,
        };
        Cpu { pods: cores.iter().map(pod).collect(), ..Cpu::default() }
    }

    /// The pods of the next message, and whether these are all.
    fn next(known: &mut Known, cpu: &Cpu, millis: u64) -> Option<(Vec<String>, bool)> {
        let (pods, all) = known.next(cpu, Duration::from_millis(millis))?;
        Some((pods.into_iter().map(|pod| pod.name).collect(), all))
    }

    #[test]
    fn all_is_sent_each_five_seconds_and_changes_of_a_twentieth_at_once() {
        let mut known = Known::default();
        let both = |all| Some((vec!["a".to_owned(), "b".to_owned()], all));
        assert_eq!(next(&mut known, &cpu(&[("a", 1.0), ("b", 0.5)]), 0), both(true));
        assert_eq!(next(&mut known, &cpu(&[("a", 1.049), ("b", 0.476)]), 200), None);
        let b = Some((vec!["b".to_owned()], false));
        assert_eq!(next(&mut known, &cpu(&[("a", 1.049), ("b", 0.475)]), 400), b);
        assert_eq!(next(&mut known, &cpu(&[("a", 1.05), ("b", 0.5)]), 600), both(false));
        assert_eq!(next(&mut known, &cpu(&[("a", 1.05), ("b", 0.5)]), 4_999), None);
        assert_eq!(next(&mut known, &cpu(&[("a", 1.05), ("b", 0.5)]), 5_000), both(true));
        assert_eq!(next(&mut known, &cpu(&[("a", 1.05)]), 5_200), Some((vec!["b".to_owned()], false)), "without cores");
        assert_eq!(next(&mut known, &cpu(&[("a", 1.05)]), 5_400), None);
    }

    #[test]
    fn a_pod_that_is_new_or_comes_again_is_sent_at_once() {
        let mut known = Known::default();
        next(&mut known, &cpu(&[("a", 1.0)]), 0);
        assert_eq!(next(&mut known, &cpu(&[("a", 1.0), ("b", 0.0)]), 200), Some((vec!["b".to_owned()], false)));
        let (pods, all) = known.next(&cpu(&[("a", 1.0)]), Duration::from_millis(400)).unwrap();
        assert_eq!((pods.len(), &*pods[0].name, pods[0].cores, all), (1, "b", None, false));
        assert_eq!(next(&mut known, &cpu(&[("a", 1.0), ("b", 0.0)]), 600), Some((vec!["b".to_owned()], false)));
    }

    #[test]
    fn a_replica_that_may_have_heard_nothing_is_told_all() {
        let mut known = Known::default();
        next(&mut known, &cpu(&[("a", 1.0)]), 0);
        known.forget();
        assert_eq!(next(&mut known, &cpu(&[("a", 1.0)]), 200), Some((vec!["a".to_owned()], true)));
        assert_eq!(next(&mut Known::default(), &Cpu::default(), 0), Some((vec![], true)));
    }
}
