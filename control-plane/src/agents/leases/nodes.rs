//! Which nodes are silent.
//!
//! Any message of its agent shows that a node is alive, whatever application it is about. A node is
//! freed if it was silent for [`SILENT`] and the API server no longer has it: its machine is gone,
//! and nothing on it uses CPU. A replica that has just started has heard of no node, so silence
//! counts from when it first sees the node in a record.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

/// How long a node must be silent before the API server is asked, and between two such requests.
pub const SILENT: Duration = Duration::from_secs(60);
/// After this long without a message, operators see a node as silent.
const LIVE: Duration = bloc_leases::LIVE;
/// The most requests at a time.
const AT_ONCE: usize = 10;
/// The most nodes that are remembered: more than a cluster has.
const MOST: usize = 20_000;

/// What is known of nodes. Times are since the start of this replica.
#[derive(Debug, Default)]
pub struct Nodes(HashMap<String, Node>);

#[derive(Clone, Copy, Debug)]
struct Node {
    /// When it was last heard, or first seen in a record.
    heard: Duration,
    /// Whether it was ever heard.
    is_known: bool,
    /// When the API server was last asked.
    asked: Option<Duration>,
    /// Whether the API server lacked it then.
    is_missing: bool,
}

impl Nodes {
    /// An agent has sent something.
    pub fn heard(&mut self, node: &str, now: Duration) {
        if self.0.len() < MOST || self.0.contains_key(node) {
            self.0.insert(node.to_owned(), Node { heard: now, is_known: true, asked: None, is_missing: false });
        }
    }

    /// The nodes in the records about which to ask the API server now. Forgets silent nodes that
    /// are in no record.
    pub fn due<'a>(&mut self, nodes: impl Iterator<Item = &'a str>, now: Duration) -> Vec<String> {
        let nodes: HashSet<&str> = nodes.collect();
        self.0.retain(|node, known| nodes.contains(&**node) || now.saturating_sub(known.heard) < SILENT);
        let mut due = Vec::new();
        for node in nodes {
            if !self.0.contains_key(node) && self.0.len() < MOST {
                let seen = Node { heard: now, is_known: false, asked: None, is_missing: false };
                self.0.insert(node.to_owned(), seen);
            }
            let Some(known) = self.0.get_mut(node) else { continue };
            let last = known.asked.unwrap_or(known.heard);
            if due.len() < AT_ONCE && now.saturating_sub(last.max(known.heard)) >= SILENT {
                known.asked = Some(now);
                due.push(node.to_owned());
            }
        }
        due
    }

    /// The API server does not have this node. Returns whether it is still silent.
    pub fn is_missing(&mut self, node: &str, now: Duration) -> bool {
        let known = self.0.get_mut(node).filter(|known| now.saturating_sub(known.heard) >= SILENT);
        known.map(|known| known.is_missing = true).is_some()
    }

    /// Whether the API server lacked this node, and it has been silent since.
    pub fn is_gone(&self, node: &str, now: Duration) -> bool {
        self.0.get(node).is_some_and(|known| known.is_missing && now.saturating_sub(known.heard) >= SILENT)
    }

    /// Whether a node was not heard recently.
    pub fn is_silent(&self, node: &str, now: Duration) -> bool {
        self.0.get(node).is_none_or(|known| !known.is_known || now.saturating_sub(known.heard) >= LIVE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_node_is_asked_for_after_a_minute_of_silence_and_each_minute_after() {
        let mut nodes = Nodes::default();
        let mut due = |heard: bool, seconds: u64| {
            if heard {
                nodes.heard("a", at(seconds));
            }
            nodes.due(["a"].into_iter(), at(seconds)).len()
        };
        // It first appears in a record at 100.
        assert_eq!(
            [due(false, 100), due(false, 159), due(false, 160), due(false, 219), due(false, 220)],
            [0, 0, 1, 0, 1]
        );
        assert_eq!([due(true, 230), due(false, 289), due(false, 290)], [0, 0, 1]);
    }

    #[test]
    fn a_node_that_is_heard_again_is_not_gone() {
        let mut nodes = Nodes::default();
        nodes.heard("a", at(0));
        assert_eq!((nodes.is_missing("a", at(59)), nodes.is_gone("a", at(100))), (false, false), "it is not silent");
        assert_eq!((nodes.is_missing("a", at(60)), nodes.is_gone("a", at(60))), (true, true));
        assert!(!nodes.is_missing("b", at(60)), "nobody has asked for it");
        nodes.heard("a", at(61));
        assert!(!nodes.is_gone("a", at(61)) && !nodes.is_gone("a", at(200)), "it is there");
    }

    #[test]
    fn asks_for_few_nodes_at_a_time_and_forgets_those_without_a_record() {
        let mut nodes = Nodes::default();
        let names: Vec<String> = (0..25).map(|nth| nth.to_string()).collect();
        let mut due = |seconds| nodes.due(names.iter().map(String::as_str), at(seconds)).len();
        assert_eq!([due(0), due(60), due(65), due(70), due(75)], [0, 10, 10, 5, 0]);
        nodes.heard("alone", at(100));
        assert!(!nodes.is_silent("alone", at(109)) && nodes.is_silent("alone", at(110)) && nodes.is_silent("1", at(0)));
        nodes.due(std::iter::empty(), at(160));
        assert!(nodes.0.is_empty());
    }
}
