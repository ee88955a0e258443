//! The calls from one workload to one service.
//!
//! The heaviest [`MAX_NAMED`] have their own series in the metrics; the rest is `other`. Each slot
//! decides anew which these are. An edge keeps its series until another has twice its calls, so
//! that series do not come and go. A series starts at 0 when its edge gets it, and ends when the
//! edge loses it. Calls of edges without a series go to `other`. So each series only grows.

use super::windowed::Recent;
use bloc_policy::sync::latency::{Calls, Growth};
use std::collections::BTreeMap;
use std::sync::Arc;

/// The most edges that are kept. Calls of others count only among all others.
pub const MAX_EDGES: usize = 2_000;
/// The most edges of one caller; leaves some for others.
const MAX_OF_ONE: usize = 200;
/// The most edges with their own series.
pub const MAX_NAMED: usize = 200;

/// An edge: the caller, and the service that it calls.
pub type Edge = (Arc<str>, Arc<str>);

/// What has happened on an edge.
#[derive(Debug, Default)]
struct State {
    recent: Recent,
    series: Option<Calls>,
}

/// All edges.
#[derive(Debug, Default)]
pub struct Edges {
    all: BTreeMap<Edge, State>,
    other: Calls,
    /// The last slot that decided which edges have series.
    decided: u64,
}

/// The series of the edges.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EdgeTotals {
    /// Those with names.
    pub named: Vec<(Edge, Calls)>,
    /// All others together.
    pub other: Calls,
}

impl Edges {
    /// Adds calls.
    pub fn add(&mut self, edge: Edge, growth: &Growth, slot: u64) {
        if slot > self.decided {
            self.decide(slot);
        }
        let calls = Calls::of(&growth.numbers);
        let is_known = self.all.contains_key(&edge);
        let from = (Arc::clone(&edge.0), Arc::from(""));
        let of_caller = || self.all.range(from..).take_while(|((of, _), _)| *of == edge.0).take(MAX_OF_ONE).count();
        if !is_known && (self.all.len() >= MAX_EDGES || of_caller() >= MAX_OF_ONE) {
            self.other.add(calls);
            return;
        }
        let has_room = || self.all.values().filter(|state| state.series.is_some()).count() < MAX_NAMED;
        let series = if is_known || !has_room() { None } else { Some(Calls::default()) };
        let state = self.all.entry(edge).or_insert_with(|| State { series, ..State::default() });
        state.recent.add(growth, slot);
        match &mut state.series {
            Some(series) => series.add(calls),
            None => self.other.add(calls),
        }
    }

    /// Decides which edges have series; if full, forgets those without recent calls.
    fn decide(&mut self, slot: u64) {
        self.decided = slot;
        let recent = |state: &State| Calls::of(&state.recent.at(slot).numbers).requests;
        if self.all.len() >= MAX_EDGES {
            self.all.retain(|_, state| recent(state) > 0);
        }
        if self.all.len() <= MAX_NAMED {
            self.all.values_mut().for_each(|state| state.series = Some(state.series.unwrap_or_default()));
            return;
        }
        let weight = |state: &State| recent(state).saturating_mul(if state.series.is_some() { 2 } else { 1 });
        let mut states: Vec<(u64, &mut State)> = self.all.values_mut().map(|state| (weight(state), state)).collect();
        states.sort_by_key(|(weight, state)| (std::cmp::Reverse(*weight), state.series.is_none()));
        for (rank, (_, state)) in states.into_iter().enumerate() {
            state.series = (rank < MAX_NAMED).then(|| state.series.unwrap_or_default());
        }
    }

    /// The series.
    pub fn totals(&self) -> EdgeTotals {
        let named = self.all.iter().filter_map(|(edge, state)| Some((edge.clone(), state.series?)));
        EdgeTotals { named: named.collect(), other: self.other }
    }

    /// What has happened on each edge in the last minute before the end of this slot.
    pub fn recent(&self, slot: u64) -> impl Iterator<Item = (&Edge, Growth)> {
        self.all.iter().map(move |(edge, state)| (edge, state.recent.at(slot)))
    }

    /// Forgets the edges to services that are no longer in force.
    pub fn retain(&mut self, in_force: impl Fn(&str) -> bool) {
        self.all.retain(|(_, service), _| in_force(service));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(nth: usize) -> Edge {
        (format!("caller-{nth:05}").into(), "s".into())
    }

    fn calls(requests: u64) -> Growth {
        Growth { numbers: Calls { requests, ..Calls::default() }.numbers().to_vec(), histograms: Vec::new() }
    }

    fn series(edges: &Edges, nth: usize) -> Option<u64> {
        edges.totals().named.iter().find(|(of, _)| *of == edge(nth)).map(|(_, calls)| calls.requests)
    }

    #[test]
    fn the_first_edges_have_names_and_the_rest_is_other() {
        let mut edges = Edges::default();
        for nth in 0..MAX_NAMED + 50 {
            edges.add(edge(nth), &calls(3), 10);
        }
        let totals = edges.totals();
        assert_eq!((totals.named.len(), totals.other.requests), (MAX_NAMED, 150));
        assert!(totals.named.iter().all(|(_, calls)| calls.requests == 3));
    }

    #[test]
    fn one_caller_leaves_edges_for_others() {
        let mut edges = Edges::default();
        for nth in 0..MAX_OF_ONE + 5 {
            edges.add(("greedy".into(), format!("s{nth}").into()), &calls(1), 10);
        }
        assert_eq!((edges.all.len(), edges.totals().other.requests), (MAX_OF_ONE, 5));
        edges.add(edge(1), &calls(1), 10);
        edges.add(("greedy".into(), "s7".into()), &calls(1), 10);
        assert_eq!((edges.all.len(), edges.totals().other.requests), (MAX_OF_ONE + 1, 6), "no room for a series");
    }

    #[test]
    fn an_edge_takes_over_a_series_when_it_has_twice_the_calls() {
        let mut edges = Edges::default();
        for nth in 0..=MAX_NAMED {
            edges.add(edge(nth), &calls(10 + nth as u64), 10);
        }
        assert_eq!((series(&edges, 0), series(&edges, MAX_NAMED)), (Some(10), None));
        let other = edges.totals().other.requests;
        // 210 calls, more than twice 10.
        edges.add(edge(MAX_NAMED), &calls(1), 11);
        assert_eq!((series(&edges, 0), series(&edges, MAX_NAMED)), (None, Some(1)));
        assert_eq!(edges.totals().other.requests, other, "what was counted as other stays there");
        edges.add(edge(0), &calls(2), 11);
        assert_eq!(edges.totals().other.requests, other + 2);
        // 12 recent calls, less than twice 11.
        edges.add(edge(0), &calls(1), 12);
        assert_eq!((series(&edges, 0), series(&edges, 1)), (None, Some(11)));
    }

    #[test]
    fn edges_beyond_the_limit_are_other_until_silent_ones_are_forgotten() {
        let mut edges = Edges::default();
        for nth in 0..MAX_EDGES {
            edges.add(edge(nth), &calls(1), 10);
        }
        let other = edges.totals().other.requests;
        edges.add(edge(MAX_EDGES), &calls(7), 11);
        assert_eq!((edges.all.len(), edges.totals().other.requests), (MAX_EDGES, other + 7));
        edges.add(edge(MAX_EDGES), &calls(7), 20);
        assert_eq!((edges.all.len(), series(&edges, MAX_EDGES)), (1, Some(7)));
        edges.retain(|service| service != "s");
        assert_eq!(edges.totals().named, []);
    }
}
