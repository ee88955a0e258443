//! Bytes on their way: bodies while they are read, and answers until the client has taken them.
//!
//! Who sends slowly, or does not read its answers, keeps them here for long. One caller may take as much as is left free by all:
//! own <= MOST - taken, both with what comes (the dynamic thresholds of Choudhury and Hahne, 1998, with a factor of 1). So one alone takes half,
//! N that take what they can get have 1 / (N + 1) each, and as much is left for whoever comes next.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// All bytes on their way.
const MOST: usize = 64 << 20;

/// What is on its way, and whose it is; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Transit(Arc<Mutex<Taken>>);

#[derive(Debug, Default)]
struct Taken {
    all: usize,
    of: HashMap<Arc<str>, usize>,
}

/// Bytes of one body; dropping it gives them back.
#[derive(Debug)]
pub struct Passage {
    transit: Transit,
    caller: Arc<str>,
    bytes: usize,
}

/// Too much is on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

impl Transit {
    /// A body of nothing yet.
    pub fn passage(&self, caller: Arc<str>) -> Passage {
        Passage { transit: self.clone(), caller, bytes: 0 }
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Passage {
    /// Takes `more` bytes.
    ///
    /// # Errors
    /// If there is no room for them.
    pub fn grow(&mut self, more: usize) -> Result<(), NoRoom> {
        let mut taken = self.transit.lock();
        let own = taken.of.get(&self.caller).copied().unwrap_or(0);
        if own + more > (MOST - taken.all).saturating_sub(more) {
            return Err(NoRoom);
        }
        taken.all += more;
        taken.of.insert(Arc::clone(&self.caller), own + more);
        self.bytes += more;
        Ok(())
    }
}

impl Drop for Passage {
    fn drop(&mut self) {
        let mut taken = self.transit.lock();
        taken.all -= self.bytes;
        let left = taken.of.get(&self.caller).map(|own| own - self.bytes);
        match left {
            Some(own) if own > 0 => {
                taken.of.insert(Arc::clone(&self.caller), own);
            }
            _ => {
                taken.of.remove(&self.caller);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: usize = 64 << 10;

    fn fill(transit: &Transit, caller: &str) -> Vec<Passage> {
        let one = || {
            let mut passage = transit.passage(caller.into());
            passage.grow(STEP).ok().map(|()| passage)
        };
        std::iter::from_fn(one).collect()
    }

    #[test]
    fn whoever_takes_what_it_can_get_leaves_room_for_others() {
        let transit = Transit::default();
        let first = fill(&transit, "0");
        assert_eq!(first.len() * STEP, MOST / 2);
        let others: Vec<_> = (1..10).map(|caller| fill(&transit, &caller.to_string())).collect();
        assert!(others.iter().all(|taken| !taken.is_empty()), "each has some");
        drop(first);
        let again = fill(&transit, "0");
        assert!(again.len() * STEP >= MOST / 20, "its share of ten");
        assert!(transit.passage("new".into()).grow(STEP).is_ok());
        drop((others, again));
        assert!(transit.lock().of.is_empty() && transit.lock().all == 0, "nothing stays behind");
    }

    #[test]
    fn what_does_not_fit_takes_nothing() {
        let transit = Transit::default();
        let mut passage = transit.passage("a".into());
        assert_eq!(passage.grow(MOST / 2 + 1), Err(NoRoom));
        assert_eq!((passage.grow(1), passage.grow(0)), (Ok(()), Ok(())));
        assert_eq!(transit.lock().all, 1);
        drop(passage);
        assert!(transit.lock().of.is_empty() && transit.lock().all == 0);
    }
}
