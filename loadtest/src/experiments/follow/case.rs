//! What is measured in turns.

use super::plan::Estimator;

/// Whether the sidecar comes to know the CPU of its pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// It does not.
    Unaided,
    /// The agent tells the control plane.
    Told,
}

/// What is measured in a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FollowCase {
    /// Answers after the quota was halved.
    Answers(Estimator, Way),
    /// How long a new quota takes to be in force.
    Delay,
}

impl FollowCase {
    /// In the order of tables.
    pub const ALL: [Self; 5] = {
        use Estimator::{PerCore, Slo};
        use Way::{Told, Unaided};
        [
            Self::Answers(Slo, Unaided),
            Self::Answers(Slo, Told),
            Self::Answers(PerCore, Unaided),
            Self::Answers(PerCore, Told),
            Self::Delay,
        ]
    };

    /// Its name on the command line and in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Answers(Estimator::Slo, Way::Unaided) => "follow-slo-unaided",
            Self::Answers(Estimator::Slo, Way::Told) => "follow-slo-told",
            Self::Answers(Estimator::PerCore, Way::Unaided) => "follow-per-core-unaided",
            Self::Answers(Estimator::PerCore, Way::Told) => "follow-per-core-told",
            Self::Delay => "follow-delay-told",
        }
    }
}
