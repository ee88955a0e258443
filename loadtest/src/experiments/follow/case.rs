//! What is measured in turns.

use super::plan::Estimator;

/// How the sidecar comes to know the CPU of its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// Not at all.
    Unaided,
    /// The agent tells the control plane.
    Told,
    /// The sidecar asks the agent at a socket of its pod, and the agent tells nobody.
    Socket,
    /// The sidecar asks the agent for the cores. The agent also tells the control plane, which
    /// computes the CPU time of a request.
    Both,
}

/// What is measured in a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FollowCase {
    /// Answers after the quota was halved.
    Answers(Estimator, Way),
    /// How long a new quota takes to be in force.
    Delay(Way),
}

impl Way {
    /// Whether the agent tells the control plane.
    pub const fn tells(self) -> bool {
        matches!(self, Self::Told | Self::Both)
    }

    /// Whether the sidecar asks the agent.
    pub const fn asks(self) -> bool {
        matches!(self, Self::Socket | Self::Both)
    }
}

impl FollowCase {
    /// In the order of tables.
    pub const ALL: [Self; 8] = {
        use Estimator::{PerCore, Slo};
        use Way::{Both, Socket, Told, Unaided};
        [
            Self::Answers(Slo, Unaided),
            Self::Answers(Slo, Told),
            Self::Answers(Slo, Both),
            Self::Answers(PerCore, Unaided),
            Self::Answers(PerCore, Told),
            Self::Answers(PerCore, Socket),
            Self::Delay(Told),
            Self::Delay(Socket),
        ]
    };

    /// Its name on the command line and in tables.
    pub const fn name(self) -> &'static str {
        let [slo, per_core, delay] = match self.way() {
            Way::Unaided => ["follow-slo-unaided", "follow-per-core-unaided", "follow-delay-unaided"],
            Way::Told => ["follow-slo-told", "follow-per-core-told", "follow-delay-told"],
            // Without the CPU time of a request, `slo` measures only.
            Way::Socket | Way::Both => ["follow-slo-socket", "follow-per-core-socket", "follow-delay-socket"],
        };
        match self {
            Self::Answers(Estimator::Slo, _) => slo,
            Self::Answers(Estimator::PerCore, _) => per_core,
            Self::Delay(_) => delay,
        }
    }

    const fn way(self) -> Way {
        match self {
            Self::Answers(_, way) | Self::Delay(way) => way,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_estimator_has_three_ways_and_delays_have_two() {
        let names = FollowCase::ALL.map(FollowCase::name);
        let [slo, per_core, delay] = ["follow-slo", "follow-per-core", "follow-delay"];
        let of = |kind: &str, ways: &[&str]| ways.iter().map(|way| format!("{kind}-{way}")).collect::<Vec<_>>();
        let all = ["unaided", "told", "socket"];
        assert_eq!(names.to_vec(), [of(slo, &all), of(per_core, &all), of(delay, &all[1..])].concat());
        let ways = [Way::Unaided, Way::Told, Way::Socket, Way::Both].map(|way| (way.tells(), way.asks()));
        assert_eq!(ways, [(false, false), (true, false), (false, true), (true, true)]);
    }
}
