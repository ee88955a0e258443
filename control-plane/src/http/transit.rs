//! Memory for bytes in transit: bodies while they are read, and responses until the client has
//! taken them.
//!
//! A slow client keeps its bytes here for long. One caller may take as much as stays free: own <=
//! most - taken, both including the new bytes (the dynamic thresholds of Choudhury and Hahne, 1998,
//! with a factor of 1). So a single caller takes at most half. Each of N greedy
//! callers has 1 / (N + 1), and as much stays free for the next one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::time::sleep;

/// How often a caller that waits for room looks again, and how many times.
const LOOK: (Duration, u32) = (Duration::from_millis(50), 100);

/// The bytes in transit by caller; clones share the state.
#[derive(Clone, Debug)]
pub struct Transit(Arc<Mutex<Taken>>);

#[derive(Debug)]
struct Taken {
    most: usize,
    all: usize,
    of: HashMap<Arc<str>, usize>,
}

/// Bytes of one body; dropping this releases them.
#[derive(Debug)]
pub struct Passage {
    transit: Transit,
    caller: Arc<str>,
    bytes: usize,
}

/// Too many bytes are in transit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoRoom;

impl Transit {
    /// With room for `most` bytes.
    pub fn of(most: usize) -> Self {
        Self(Arc::new(Mutex::new(Taken { most, all: 0, of: HashMap::new() })))
    }

    /// Takes room for a response. Waits for it for at most 5 s, while others finish.
    ///
    /// # Errors
    /// If there is still no room then.
    pub async fn room(&self, caller: Arc<str>, bytes: usize) -> Result<Passage, NoRoom> {
        let mut passage = self.passage(caller);
        let (every, times) = LOOK;
        for _ in 0..times {
            if passage.grow(bytes).is_ok() {
                return Ok(passage);
            }
            sleep(every).await;
        }
        passage.grow(bytes).map(|()| passage)
    }

    /// A body without bytes so far.
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
        if own + more > (taken.most - taken.all).saturating_sub(more) {
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
    const MOST: usize = 64 << 20;

    fn fill(transit: &Transit, caller: &str) -> Vec<Passage> {
        let one = || {
            let mut passage = transit.passage(caller.into());
            passage.grow(STEP).ok().map(|()| passage)
        };
        std::iter::from_fn(one).collect()
    }

    #[test]
    fn a_caller_that_takes_all_it_can_leaves_room_for_others() {
        let transit = Transit::of(MOST);
        let first = fill(&transit, "0");
        assert_eq!(first.len() * STEP, MOST / 2);
        let others: Vec<_> = (1..10).map(|caller| fill(&transit, &caller.to_string())).collect();
        assert!(others.iter().all(|taken| !taken.is_empty()), "each has some");
        drop(first);
        let again = fill(&transit, "0");
        assert!(again.len() * STEP >= MOST / 20, "its share among ten callers");
        assert!(transit.passage("new".into()).grow(STEP).is_ok());
        drop((others, again));
        assert!(transit.lock().of.is_empty() && transit.lock().all == 0, "all memory is given back");
    }

    #[test]
    fn a_request_for_too_much_memory_takes_none() {
        let transit = Transit::of(MOST);
        let mut passage = transit.passage("a".into());
        assert_eq!(passage.grow(MOST / 2 + 1), Err(NoRoom));
        assert_eq!((passage.grow(1), passage.grow(0)), (Ok(()), Ok(())));
        assert_eq!(transit.lock().all, 1);
        drop(passage);
        assert!(transit.lock().of.is_empty() && transit.lock().all == 0);
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_waits_for_memory_but_not_forever() {
        let transit = Transit::of(MOST);
        let mut before = fill(&transit, "a");
        let waiting = tokio::spawn({
            let transit = transit.clone();
            async move { transit.room("a".into(), 2 * STEP).await.map(|passage| passage.bytes) }
        });
        sleep(Duration::from_secs(2)).await;
        assert!(!waiting.is_finished());
        before.truncate(before.len() - 4);
        assert_eq!(waiting.await.unwrap(), Ok(2 * STEP));
        let full = fill(&transit, "a");
        assert_eq!(transit.room("a".into(), STEP).await.map(|_| ()), Err(NoRoom), "it gives up in the end");
        drop(full);
    }
}
