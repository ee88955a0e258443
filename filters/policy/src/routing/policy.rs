//! What every routing policy does.

use crate::endpoints::{EndpointId, Endpoints};
use crate::units::Timestamp;
use crate::units::rng::Rng;

/// A way to choose servers.
pub trait Routing {
    /// Puts up to `length` distinct servers into `list` (which is emptied first), in the order in
    /// which they are to be tried; fewer only if there are fewer.
    fn choose(
        &mut self,
        endpoints: &mut Endpoints,
        length: usize,
        now: Timestamp,
        rng: &mut impl Rng,
        list: &mut Vec<EndpointId>,
    );
}
