//! What is simulated.

use bloc_node_agent::qos::{LEAST, Start};
use std::time::Duration;

/// What the hot container wants, as a multiple of what each other one does.
pub(super) const HOT: f64 = 3.0;
/// Shares of a core.
const CORE: f64 = 1_024.0;

/// Which container is hot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hot {
    /// One after the other, for so long.
    Wanders(Duration),
    /// Always the first one, whose requests need three times the CPU time.
    Slow,
}

/// A case.
#[derive(Clone, Debug, PartialEq)]
pub struct Case {
    /// Cores of the node.
    pub cores: f64,
    /// What all containers on it request, as a part of the cores.
    pub requested: f64,
    /// What the container outside of the application requests, as a part of that; 0: there is none.
    pub outside: f64,
    /// Containers of the application, each with an equal part of the rest.
    pub containers: usize,
    /// Cores that a container can use at once.
    pub threads: f64,
    /// CPU that the application wants, as a part of what its requests give it if all others want
    /// all that they can get.
    pub load: f64,
    /// Which container is hot.
    pub hot: Hot,
    /// Mean CPU time of a request.
    pub work: Duration,
    /// Mean response time that is to be kept.
    pub target: Duration,
    /// The part of the target above which an answer is a violation.
    pub threshold: f64,
    /// How long a client waits.
    pub patience: Duration,
    /// Whether sidecars report at a time of their own in each second; otherwise the agent knows all
    /// answers.
    pub delayed: bool,
    /// The least that is measured, after a minute; rounds are not cut off.
    pub duration: Duration,
    /// The seed.
    pub seed: u64,
}

impl Default for Case {
    fn default() -> Self {
        Self {
            cores: 4.0,
            requested: 0.5,
            outside: 0.25,
            containers: 4,
            threads: 4.0,
            load: 0.8,
            hot: Hot::Wanders(Duration::from_secs(60)),
            work: Duration::from_millis(20),
            target: Duration::from_millis(100),
            threshold: 1.2,
            patience: Duration::from_secs(1),
            delayed: true,
            duration: Duration::from_secs(600),
            seed: 1,
        }
    }
}

impl Case {
    /// A container of the application.
    pub(super) fn start(&self) -> Start {
        let own = (self.cores * self.requested * (1.0 - self.outside) / self.containers as f64 * CORE).max(LEAST);
        Start { own, least: (own * self.requested.min(1.0)).max(LEAST) }
    }

    /// Shares of the container outside of it.
    pub(super) fn outside_shares(&self) -> f64 {
        self.cores * self.requested * self.outside * CORE
    }

    /// Cores that the application's requests give it at least.
    pub(super) fn part(&self) -> f64 {
        self.cores * (1.0 - self.outside)
    }

    /// Seconds that are measured.
    pub(super) fn measured(&self) -> u64 {
        let least = self.duration.as_secs().max(1);
        match self.hot {
            Hot::Slow => least,
            Hot::Wanders(each) => {
                let round = each.as_secs().max(1) * self.containers as u64;
                least.div_ceil(round) * round
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_and_what_they_give() {
        let case = Case::default();
        // Two of four cores are requested, half a core of them outside.
        assert_eq!(case.start(), Start { own: 384.0, least: 192.0 });
        assert_eq!((case.outside_shares(), case.part()), (512.0, 3.0));
        let full = Case { requested: 1.0, outside: 0.0, containers: 2, ..case.clone() };
        assert_eq!(full.start(), Start { own: 2_048.0, least: 2_048.0 });
        assert_eq!((full.outside_shares(), full.part()), (0.0, 4.0));
        let tiny = Case { requested: 0.001, ..case };
        assert_eq!(tiny.start(), Start { own: 2.0, least: 2.0 });
    }

    #[test]
    fn whole_rounds_are_measured() {
        let measured =
            |seconds, hot| Case { hot, duration: Duration::from_secs(seconds), ..Case::default() }.measured();
        let each = |seconds| Hot::Wanders(Duration::from_secs(seconds));
        assert_eq!([measured(600, each(60)), measured(600, each(20)), measured(600, each(300))], [720, 640, 1_200]);
        assert_eq!([measured(600, Hot::Slow), measured(0, Hot::Slow), measured(240, each(60))], [600, 1, 240]);
    }
}
