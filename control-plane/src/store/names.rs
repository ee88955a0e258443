//! The service names that proxies subscribed to, each stored once.
//!
//! A mesh has some thousand names and ten thousand proxies, but an attacker may invent names. A
//! name is therefore dropped with its last use. A use is an entry in a [`Subscription`], which must
//! be [released](Names::release) when it ends.

use super::subscription::{Name, Subscription};
use std::collections::HashMap;
use std::sync::Arc;

/// Below this number of names the table does not shrink.
const KEPT: usize = 1_024;

/// All names in use.
#[derive(Debug, Default)]
pub struct Names {
    known: HashMap<Arc<str>, Known>,
    next: u64,
}

#[derive(Debug)]
struct Known {
    id: u64,
    uses: usize,
}

impl Names {
    /// The id of a name that is in use.
    pub fn id(&self, text: &str) -> Option<u64> {
        self.known.get(text).map(|known| known.id)
    }

    /// A subscription to these names; both lists must ascend without repetitions.
    pub fn subscribe(&mut self, calls: &[String], serves: &[String]) -> Arc<Subscription> {
        let mut all = |names: &[String]| names.iter().map(|name| self.take(name)).collect();
        Arc::new(Subscription { calls: all(calls), serves: all(serves) })
    }

    /// Ends a subscription made by [`subscribe`](Self::subscribe). Call it only once.
    pub fn release(&mut self, subscription: &Subscription) {
        for name in subscription.calls.iter().chain(&subscription.serves) {
            if let Some(known) = self.known.get_mut(&name.text) {
                known.uses -= 1;
                if known.uses == 0 {
                    self.known.remove(&name.text);
                }
            }
        }
        // Frees the capacity left by a flood of names.
        if self.known.capacity() > KEPT.max(self.known.len() * 8) {
            self.known.shrink_to(self.known.len() * 2);
        }
    }

    fn take(&mut self, text: &str) -> Name {
        if let Some((text, _)) = self.known.get_key_value(text) {
            let text = Arc::clone(text);
            if let Some(known) = self.known.get_mut(&text) {
                known.uses += 1;
                return Name { id: known.id, text };
            }
        }
        let (id, text) = (self.next, Arc::from(text));
        self.next += 1;
        self.known.insert(Arc::clone(&text), Known { id, uses: 1 });
        Name { id, text }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(names: &[&str]) -> Vec<String> {
        names.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn keeps_each_name_once_and_only_while_it_is_used() {
        let mut names = Names::default();
        let one = names.subscribe(&list(&["a", "b"]), &list(&["b"]));
        let other = names.subscribe(&list(&["b", "c"]), &[]);
        assert!(Arc::ptr_eq(&one.calls[1].text, &other.calls[0].text));
        assert_eq!((names.known.len(), names.id("b")), (3, Some(one.serves[0].id)));
        names.release(&one);
        assert_eq!((names.id("a"), names.id("b")), (None, Some(other.calls[0].id)));
        names.release(&other);
        assert!(names.known.is_empty());
        let again = names.subscribe(&list(&["a"]), &[]);
        assert_ne!(again.calls[0].id, one.calls[0].id, "an id is never given twice");
    }

    #[test]
    fn frees_the_memory_of_a_flood_of_names() {
        let mut names = Names::default();
        let many: Vec<String> = (0..100_000).map(|i| i.to_string()).collect();
        let flood = names.subscribe(&many, &[]);
        assert!(names.known.capacity() >= 100_000);
        names.release(&flood);
        assert!(names.known.capacity() <= KEPT);
    }

    #[test]
    fn makes_the_table_smaller_only_when_an_eighth_of_it_is_in_use() {
        let mut names = Names::default();
        let some = |range: std::ops::Range<u32>| range.map(|i| i.to_string()).collect::<Vec<_>>();
        let [_few, more, flood] = [0..4_000, 4_000..10_000, 10_000..60_000].map(|of| names.subscribe(&some(of), &[]));
        names.release(&flood);
        let after_the_flood = names.known.capacity();
        assert!((20_000..80_000).contains(&after_the_flood), "room for twice as many: {after_the_flood}");
        names.release(&more);
        // A removal may cost some capacity until the next growth, depending on hashes. A smaller
        // table would have half of it at most.
        assert!(names.known.capacity() > after_the_flood * 3 / 4);
    }
}
