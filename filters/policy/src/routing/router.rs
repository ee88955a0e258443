//! The routing that a service's parameters select, generated from the table in [`crate::config`].

use super::contract::{BidPosition, Event, Routing};
use crate::config::{RoutingKind, ServiceParameters, routing::routings};
use crate::endpoints::{EndpointId, Endpoints};
use crate::units::Timestamp;
use crate::units::rng::Rng;
use crate::wire::bid::Bid;
use std::time::Duration;

macro_rules! router {
    ($($(#[$doc:meta])+ $kind:ident $name:literal $of:tt $module:ident $type:ident,)+) => {
        /// The routing that the parameters select.
        #[derive(Clone, Debug)]
        pub enum Router {
            $($(#[$doc])+ $kind(super::$module::$type),)+
        }

        impl Routing for Router {
            fn new(parameters: &ServiceParameters) -> Self {
                match parameters.routing() {
                    $(RoutingKind::$kind => Self::$kind(Routing::new(parameters)),)+
                }
            }

            /// Switching to another routing discards what the old one knew.
            fn configure(&mut self, parameters: &ServiceParameters) {
                match (&mut *self, parameters.routing()) {
                    $((Self::$kind(routing), RoutingKind::$kind) => routing.configure(parameters),)+
                    _ => *self = Self::new(parameters),
                }
            }

            fn choose(
                &mut self,
                endpoints: &mut Endpoints,
                length: usize,
                now: Timestamp,
                rng: &mut impl Rng,
                list: &mut Vec<EndpointId>,
            ) {
                match self {
                    $(Self::$kind(routing) => routing.choose(endpoints, length, now, rng, list),)+
                }
            }

            fn expected(&self) -> Option<Duration> {
                match self {
                    $(Self::$kind(routing) => routing.expected(),)+
                }
            }

            fn most_bids(&self, endpoints: &Endpoints) -> usize {
                match self {
                    $(Self::$kind(routing) => routing.most_bids(endpoints),)+
                }
            }

            fn price(&self, turn: BidPosition) -> Option<Duration> {
                match self {
                    $(Self::$kind(routing) => routing.price(turn),)+
                }
            }

            fn bid(
                &self,
                endpoints: &Endpoints,
                endpoint: EndpointId,
                turn: BidPosition,
                now: Timestamp,
            ) -> Option<Bid> {
                match self {
                    $(Self::$kind(routing) => routing.bid(endpoints, endpoint, turn, now),)+
                }
            }

            fn learn(&mut self, event: &Event<'_>, endpoints: &Endpoints) {
                match self {
                    $(Self::$kind(routing) => routing.learn(event, endpoints),)+
                }
            }
        }
    };
}
routings!(router);
