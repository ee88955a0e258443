//! The routings: one row each, from which [`RoutingKind`] and the router come.
//!
//! A new routing is a folder below `routing/`, a row here, and its paragraph in the documents.

use super::seen::Seen;
use serde::{Deserialize, Serialize};

/// Hands the table to a macro. A row: the variant, what the other parts of the code ask of it, and
/// the module and the type in `routing/`.
macro_rules! routings {
    ($then:ident) => {
        $then! {
            /// Chips, backoff and probing, two choices among those that qualify.
            Bloc "bloc" { bids: false, compares_speeds: false, baseline: false } bloc Bloc,
            /// Uniformly at random.
            Random "random" { bids: false, compares_speeds: false, baseline: true } random Random,
            /// One after the other.
            RoundRobin "round_robin" { bids: false, compares_speeds: false, baseline: true } round_robin RoundRobin,
            /// Two at random, the one with fewer pending requests of this sender.
            LeastRequest "least_request" { bids: false, compares_speeds: false, baseline: false } least_request LeastRequest,
            /// The smallest expected response time, from the queue lengths and service rates that
            /// the servers report.
            Mu "mu" { bids: false, compares_speeds: true, baseline: false } mu Mu,
            /// Each attempt bids the longest expected response time that it accepts; the server
            /// decides.
            Bid "bid" { bids: true, compares_speeds: true, baseline: false } bid Bidder,
        }
    };
}
pub(crate) use routings;

macro_rules! kinds {
    ($($(#[$doc:meta])+ $kind:ident $name:literal { bids: $bids:literal, compares_speeds: $speeds:literal, baseline: $baseline:literal } $module:ident $type:ident,)+) => {
        /// How a sender chooses among the endpoints of a service.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
        #[serde(rename_all = "snake_case")]
        pub enum RoutingKind {
            $($(#[$doc])+ $kind,)+
        }

        impl Default for RoutingKind {
            fn default() -> Self {
                Self::Bid
            }
        }

        impl RoutingKind {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$kind),+];

            /// Its name in a configuration.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$kind => $name,)+
                }
            }

            /// Those that a user may have.
            pub fn offered() -> impl Iterator<Item = Self> {
                Self::ALL.iter().copied().filter(|routing| routing.is_offered())
            }

            /// Whether a user may have it. Envoy has the others; the simulator compares with them.
            pub const fn is_offered(self) -> bool {
                match self {
                    $(Self::$kind => !$baseline,)+
                }
            }

            /// Whether a sidecar that knows the `concurrency` holds requests unless told otherwise.
            pub const fn holds(self) -> bool {
                self.compares_speeds() && !self.bids()
            }

            /// Whether attempts say how long they are ready to wait, and servers decide.
            pub const fn bids(self) -> bool {
                match self {
                    $(Self::$kind => $bids,)+
                }
            }

            /// Whether servers that seem slow get fewer requests. So it needs to know how many
            /// requests a server works on at once, and to try now and then who seems slow.
            pub const fn compares_speeds(self) -> bool {
                match self {
                    $(Self::$kind => $speeds,)+
                }
            }
        }
    };
}
routings!(kinds);

impl From<RoutingKind> for Seen {
    fn from(routing: RoutingKind) -> Self {
        routing.name().to_owned().into()
    }
}
