//! The columns of each row.

use bloc_mesh::MeshSpec;
use bloc_mesh::envoy::Guard;
use bloc_mesh::policy::Policy;
use serde::Serialize;

/// What balances the load in a column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    /// Stock Envoy: least request of two choices, Istio's default retries, no limits.
    Stock,
    /// The same with circuit breakers, outlier detection and retries set by [`Guard`].
    Tuned,
    /// Our filters, on top of [`Self::Stock`].
    Ours,
    /// Our filters, on top of [`Self::Tuned`]: what an operator gets who adds them to what he has.
    OursTuned,
}

/// All sides, in the order of the columns and of the runs.
pub const SIDES: [Side; 4] = [Side::Stock, Side::Tuned, Side::Ours, Side::OursTuned];

impl Side {
    /// Its name in tables and folders.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stock => "stock",
            Self::Tuned => "tuned",
            Self::Ours => "ours",
            Self::OursTuned => "ours-tuned",
        }
    }

    /// Whether our filters run.
    pub fn is_ours(self) -> bool {
        matches!(self, Self::Ours | Self::OursTuned)
    }

    /// The heading of the column.
    pub fn title(self) -> &'static str {
        match self {
            Self::Stock => "stock Envoy",
            Self::Tuned => "stock Envoy, breakers and outlier detection",
            Self::Ours => "ours",
            Self::OursTuned => "ours, with the same breakers and outlier detection",
        }
    }

    /// The mesh of this column: `ours`, or the same servers and sidecars without our filters.
    pub fn mesh(self, ours: &MeshSpec, guard: Guard) -> MeshSpec {
        let stock = MeshSpec { policy: Policy::LeastRequest, capacity: None, hold: false, guard: None, ..ours.clone() };
        match self {
            Self::Stock => stock,
            Self::Tuned => MeshSpec { guard: Some(guard), ..stock },
            Self::Ours => ours.clone(),
            Self::OursTuned => MeshSpec { guard: Some(guard), ..ours.clone() },
        }
    }
}
