//! What a proxy subscribes to: the services that it calls and those that it serves.

use serde::{Serialize, Serializer};
use std::cmp::Ordering;
use std::sync::Arc;

/// A name; clones share its text.
#[derive(Clone, Debug)]
pub struct Name {
    /// Identifies the text while it is in use; never assigned twice.
    pub id: u64,
    pub text: Arc<str>,
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

/// The names that a proxy subscribed to, shared by its record and its held poll.
#[derive(Debug, Default)]
pub struct Subscription {
    /// The services that it calls, ascending, each once.
    pub calls: Box<[Name]>,
    /// The services that it serves, ascending, each once.
    pub serves: Box<[Name]>,
}

impl Subscription {
    /// All names, ascending, each once.
    pub fn iter(&self) -> impl Iterator<Item = &Name> {
        let (mut calls, mut serves) = (self.calls.iter().peekable(), self.serves.iter().peekable());
        std::iter::from_fn(move || {
            let order = match (calls.peek(), serves.peek()) {
                (Some(call), Some(serve)) => call.text.cmp(&serve.text),
                (Some(_), None) => Ordering::Less,
                (None, _) => Ordering::Greater,
            };
            match order {
                Ordering::Less => calls.next(),
                Ordering::Greater => serves.next(),
                Ordering::Equal => calls.next().and(serves.next()),
            }
        })
    }

    /// The texts of [`iter`](Self::iter).
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.iter().map(|name| &*name.text)
    }

    /// Whether it calls this service.
    pub fn calls(&self, service: &str) -> bool {
        holds(&self.calls, service)
    }

    /// Whether it consists of exactly these names; both lists must ascend without repetitions.
    pub fn is_of(&self, calls: &[String], serves: &[String]) -> bool {
        let same = |own: &[Name], names: &[String]| own.iter().map(|name| &*name.text).eq(names);
        same(&self.calls, calls) && same(&self.serves, serves)
    }
}

fn holds(names: &[Name], service: &str) -> bool {
    names.binary_search_by(|name| (*name.text).cmp(service)).is_ok()
}

#[cfg(test)]
mod tests {
    use crate::store::names::Names;

    #[test]
    fn lists_each_name_once_and_in_order() {
        let list = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        let of = |calls: &[&str], serves: &[&str]| Names::default().subscribe(&list(calls), &list(serves));
        let texts = |calls, serves| of(calls, serves).texts().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(texts(&["a", "c", "e"], &["b", "c", "f", "g"]), ["a", "b", "c", "e", "f", "g"]);
        assert_eq!((texts(&["a"], &[]), texts(&[], &["a"])), (list(&["a"]), list(&["a"])));
        assert!(texts(&[], &[]).is_empty());
        let one = of(&["a", "c"], &["b"]);
        assert!(one.calls("c") && !one.calls("b"));
        assert!(one.is_of(&list(&["a", "c"]), &list(&["b"])));
        assert!(!one.is_of(&list(&["a"]), &list(&["b", "c"])) && !one.is_of(&list(&["a", "c"]), &[]));
    }
}
