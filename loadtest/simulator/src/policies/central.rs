//! One queue for all: the limit of late binding.
//!
//! Every request waits, first come first served, until a server has a free place, and takes it at
//! once. The queue knows which places are free at this moment, and each server's speed: of the
//! servers with a free place it takes the fastest, at a tie a random one. It does not know how long
//! a request takes, and lets none wait for a faster place. A request pays the way to the queue and
//! the way back; a place is never empty while a request waits. No real queue reaches that, since
//! the way from the queue to the server takes time.

use super::omniscient::{Omniscient, least};
use super::{Binding, Policy, SenderModel, View};

/// The central queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct Central;

impl Central {
    /// The server whose free place the next request takes; none: no place is free.
    pub fn free_place(view: &View, rng: &mut fastrand::Rng) -> Option<u32> {
        let slowness = |(&committed, &rate): (&u32, &f64)| {
            if committed < view.concurrency { -rate } else { f64::INFINITY }
        };
        let server = least(view.committed.iter().zip(&view.rates).map(slowness), rng)?;
        (view.committed[server] < view.concurrency).then_some(server as u32)
    }
}

impl Policy for Central {
    /// Its senders choose nothing.
    fn sender(&self) -> Box<dyn SenderModel> {
        Box::new(Omniscient::Queue)
    }

    fn binding(&self) -> Binding {
        Binding::Central
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policies::UNAVAILABLE;

    #[test]
    fn takes_the_fastest_free_place() {
        let mut rng = fastrand::Rng::with_seed(1);
        let rates = vec![2.0, 1.0, 0.5, 9.0];
        let mut next = |committed: [u32; 4]| {
            Central::free_place(&View { committed: committed.to_vec(), rates: rates.clone(), concurrency: 2 }, &mut rng)
        };
        assert_eq!(next([1, 0, 0, UNAVAILABLE]), Some(0));
        assert_eq!(next([2, 1, 0, UNAVAILABLE]), Some(1));
        assert_eq!(next([2, 2, 2, UNAVAILABLE]), None);
    }
}
