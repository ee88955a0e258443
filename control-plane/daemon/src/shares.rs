//! How much each caller takes of a whole that all share: bytes, connections, applications.
//!
//! A caller has at most `of_one`. If nothing can be taken back from callers, each has at most as
//! much as stays free: own <= whole - taken, both including the new part (the dynamic thresholds of
//! Choudhury and Hahne, 1998, with a factor of 1). A single caller thus takes at most half. Each of
//! N greedy callers has 1 / (N + 1), and as much stays free for the next.
//!
//! Cost: a map access for each part; [`in_the_way`](Shares::in_the_way) visits all callers.

use crate::lock;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;
use tokio::time::sleep;

/// The interval and number of attempts of a caller that waits for room.
const LOOK: (Duration, u32) = (Duration::from_millis(50), 100);

/// A whole, and what is taken of it; clones share it.
#[derive(Clone, Debug)]
pub struct Shares(Arc<Mutex<Taken>>);

#[derive(Debug)]
struct Taken {
    whole: usize,
    /// What one caller may have; none: as much as stays free.
    of_one: Option<usize>,
    all: usize,
    of: HashMap<Arc<str>, usize>,
}

/// What a caller has taken for one purpose; dropping it gives it back.
#[derive(Debug)]
pub struct Share {
    shares: Shares,
    owner: Arc<str>,
    amount: usize,
}

/// The caller, or all callers together, have taken too much.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

impl Shares {
    /// Lets each caller have at most `of_one`.
    pub fn capped(of_one: usize, whole: usize) -> Self {
        Self::new(Some(of_one), whole)
    }

    /// Lets each caller have at most as much as stays free.
    pub fn fair(whole: usize) -> Self {
        Self::new(None, whole)
    }

    fn new(of_one: Option<usize>, whole: usize) -> Self {
        Self(Arc::new(Mutex::new(Taken { whole, of_one, all: 0, of: HashMap::new() })))
    }

    /// An empty share of this caller.
    pub fn share(&self, owner: Arc<str>) -> Share {
        Share { shares: self.clone(), owner, amount: 0 }
    }

    /// A share of this caller with this amount.
    ///
    /// # Errors
    /// If there is no room.
    pub fn take(&self, owner: impl Into<Arc<str>>, amount: usize) -> Result<Share, NoRoom> {
        let mut share = self.share(owner.into());
        share.grow(amount).map(|()| share)
    }

    /// The caller that must give something back before `owner` can take `more`: the one with most,
    /// if it has more than `owner` would have; otherwise `owner`. None: there is room.
    pub fn in_the_way(&self, owner: &Arc<str>, more: usize) -> Option<Arc<str>> {
        let taken = self.lock();
        if taken.has_room(owner, more) {
            return None;
        }
        let own = taken.own(owner) + more;
        let others = taken.of.iter().filter(|(_, other)| **other > own && taken.of_one.is_none_or(|most| own <= most));
        let most = others.max_by(|one, other| (one.1, one.0).cmp(&(other.1, other.0)));
        Some(Arc::clone(most.map_or(owner, |(name, _)| name)))
    }

    /// What all callers have taken.
    pub fn taken(&self) -> usize {
        self.lock().all
    }

    fn lock(&self) -> MutexGuard<'_, Taken> {
        lock(&self.0)
    }
}

impl Taken {
    fn own(&self, owner: &str) -> usize {
        self.of.get(owner).copied().unwrap_or(0)
    }

    fn has_room(&self, owner: &str, more: usize) -> bool {
        let free = self.whole.checked_sub(self.all + more);
        free.is_some_and(|free| self.own(owner) + more <= self.of_one.unwrap_or(free))
    }

    fn put(&mut self, owner: &Arc<str>, before: usize, after: usize) {
        self.all = self.all - before + after;
        match self.own(owner) - before + after {
            0 => drop(self.of.remove(owner)),
            own => drop(self.of.insert(Arc::clone(owner), own)),
        }
    }
}

impl Share {
    /// Takes `more`.
    ///
    /// # Errors
    /// If there is no room.
    pub fn grow(&mut self, more: usize) -> Result<(), NoRoom> {
        let mut taken = self.shares.lock();
        if !taken.has_room(&self.owner, more) {
            return Err(NoRoom);
        }
        taken.put(&self.owner, self.amount, self.amount + more);
        self.amount += more;
        Ok(())
    }

    /// Like [`Self::grow`], but waits at most 5 s for others to give back.
    ///
    /// # Errors
    /// If there is still no room then.
    pub async fn grow_later(&mut self, more: usize) -> Result<(), NoRoom> {
        let (every, times) = LOOK;
        for _ in 0..times {
            if self.grow(more).is_ok() {
                return Ok(());
            }
            sleep(every).await;
        }
        self.grow(more)
    }

    /// Sets the amount, whether or not there is room.
    pub fn set(&mut self, amount: usize) {
        self.shares.lock().put(&self.owner, self.amount, amount);
        self.amount = amount;
    }

    pub fn owner(&self) -> &Arc<str> {
        &self.owner
    }

    pub fn amount(&self) -> usize {
        self.amount
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.set(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEP: usize = 64 << 10;
    const MOST: usize = 64 << 20;

    fn fill(shares: &Shares, caller: &str) -> Vec<Share> {
        std::iter::from_fn(|| shares.take(caller, STEP).ok()).collect()
    }

    fn is_empty(shares: &Shares) -> bool {
        shares.taken() == 0 && shares.lock().of.is_empty()
    }

    #[test]
    fn a_caller_that_takes_all_it_can_leaves_room_for_others() {
        let shares = Shares::fair(MOST);
        let first = fill(&shares, "0");
        assert_eq!(first.len() * STEP, MOST / 2);
        let others: Vec<_> = (1..10).map(|caller| fill(&shares, &caller.to_string())).collect();
        assert!(others.iter().all(|taken| !taken.is_empty()), "each has some");
        drop(first);
        let again = fill(&shares, "0");
        assert!(again.len() * STEP >= MOST / 20, "its share among ten callers");
        assert!(shares.take("new", STEP).is_ok());
        drop((others, again));
        assert!(is_empty(&shares), "all is given back");
    }

    #[test]
    fn a_caller_with_a_limit_of_its_own_takes_no_more() {
        let shares = Shares::capped(6 * STEP, 10 * STEP);
        let (a, b) = (fill(&shares, "a"), fill(&shares, "b"));
        assert_eq!((a.len(), b.len()), (6, 4));
        assert_eq!(shares.in_the_way(&"a".into(), 1).as_deref(), Some("a"), "its own limit");
        assert_eq!(shares.in_the_way(&"b".into(), STEP).as_deref(), Some("a"), "which has more");
        assert_eq!(shares.in_the_way(&"b".into(), 2 * STEP).as_deref(), Some("b"), "it would have as much");
        assert_eq!((shares.in_the_way(&"a".into(), 0), shares.in_the_way(&"b".into(), 0)), (None, None));
        drop(b);
        assert_eq!(shares.in_the_way(&"a".into(), 1).as_deref(), Some("a"), "although there is room");
        assert_eq!(shares.in_the_way(&"b".into(), 4 * STEP), None);
        drop(a);
        assert!(is_empty(&shares));
    }

    #[test]
    fn who_asks_for_too_much_takes_nothing() {
        let shares = Shares::fair(MOST);
        let mut share = shares.share("a".into());
        assert_eq!(share.grow(MOST / 2 + 1), Err(NoRoom));
        assert_eq!((share.grow(1), share.grow(0)), (Ok(()), Ok(())));
        assert_eq!(shares.taken(), 1);
        share.set(MOST);
        assert_eq!((shares.taken(), share.grow(1)), (MOST, Err(NoRoom)), "set takes it all the same");
        drop(share);
        assert!(is_empty(&shares));
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_room_does_not_wait_forever() {
        let shares = Shares::fair(MOST);
        let mut before = fill(&shares, "a");
        let mut share = shares.share("a".into());
        let waiting = tokio::spawn(async move { share.grow_later(2 * STEP).await.map(|()| share.amount()) });
        sleep(Duration::from_secs(2)).await;
        assert!(!waiting.is_finished());
        before.truncate(before.len() - 4);
        assert_eq!(waiting.await.unwrap(), Ok(2 * STEP));
        let full = fill(&shares, "a");
        assert_eq!(shares.share("a".into()).grow_later(STEP).await, Err(NoRoom), "it gives up in the end");
        drop(full);
    }
}
