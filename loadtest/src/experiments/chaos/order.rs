//! What to run.

use bloc_mesh::envoy::Guard;
use bloc_mesh::policy::Policy;
use bloc_mesh::seeds;
use std::time::Duration;

/// What to run.
#[derive(Clone, Debug)]
pub struct Chaos {
    /// What balances the load in our column.
    pub policy: Policy,
    /// Only rows with these names; all if empty.
    pub only: Vec<String>,
    /// How long a flood lasts.
    pub flood: Duration,
    /// How stock Envoy is tuned; none: in the best way for each row.
    pub guard: Option<Guard>,
    /// Nothing starts that would end later than this.
    pub limit: Duration,
    /// The seed of the order, the victims, the arrivals and the service times.
    pub seed: u64,
}

impl Chaos {
    /// Whether the row of this name is to be run.
    pub fn wants(&self, name: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|only| only == name)
    }

    /// How stock Envoy is tuned in a row whose best tuning is `best`.
    pub fn guard(&self, best: Guard) -> Guard {
        self.guard.unwrap_or(best)
    }

    /// The seed of the arrivals of a row, the same for all its columns.
    pub fn arrivals(&self, number: usize) -> u64 {
        seeds::arrivals(seeds::round(self.seed, number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chaos(guard: Option<Guard>) -> Chaos {
        Chaos {
            policy: Policy::Bid,
            only: vec!["flood".to_owned()],
            flood: Duration::from_secs(5),
            guard,
            limit: Duration::from_secs(60),
            seed: 1,
        }
    }

    #[test]
    fn runs_only_the_named_rows_or_all_if_none_is_named() {
        let chaos = chaos(None);
        assert!(chaos.wants("flood") && !chaos.wants("senders"));
        assert!(Chaos { only: vec![], ..chaos }.wants("senders"));
    }

    #[test]
    fn a_requested_guard_replaces_the_best_one() {
        let best = Guard { requests: 3, attempt: Duration::from_secs(1) };
        let asked = Guard { requests: 5, ..best };
        assert_eq!((chaos(None).guard(best), chaos(Some(asked)).guard(best)), (best, asked));
    }

    #[test]
    fn all_rows_and_backends_have_distinct_seeds() {
        let chaos = chaos(None);
        let mut seeds: Vec<u64> = (0..30).map(|number| chaos.arrivals(number)).collect();
        seeds.extend((0..30).map(|n| seeds::backend(chaos.seed, n)));
        let all = seeds.len();
        seeds.sort_unstable();
        seeds.dedup();
        assert_eq!(seeds.len(), all);
    }
}
