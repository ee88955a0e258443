//! The last changes and refusals, for people.
//!
//! Changes of parameters, changes of endpoints only, and refusals are kept apart, each up to a
//! bound, so that the churn of pods does not push out the edit that somebody looks for. An event
//! describes at most [`MAX_NAMED`] services. Times are wall-clock times.

use crate::clock::rfc3339;
use crate::snapshot::{Service, Snapshot};
use bloc_policy::config::ServiceSpec;
use serde::Serialize;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet, HashSet, VecDeque};
use std::sync::Arc;
use std::time::SystemTime;

/// The changes of parameters kept, and the refusals.
const MAX_EVENTS: usize = 100;
/// The changes of endpoints only that are kept.
const MAX_ENDPOINT_EVENTS: usize = 50;
/// Services that one event describes.
const MAX_NAMED: usize = 5;
/// The most sources whose refusals in force are remembered.
const MAX_REFUSED: usize = 100;
/// The longest text of a refusal or a value that is kept, in characters.
const MAX_TEXT: usize = 500;

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum EventKind {
    /// Services were added, removed, or got other parameters.
    Change,
    /// Only endpoints were added or removed.
    Endpoints,
    /// Content of the source was refused.
    Refusal,
}

/// An event in the history of the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Event {
    /// Its number; grows.
    pub number: u64,
    /// When it happened, or last repeated (RFC 3339).
    pub at: String,
    /// Its kind.
    pub kind: EventKind,
    /// Where it came from, such as `file:services.yaml`.
    pub source: String,
    /// A refusal: path, value and allowed range.
    pub message: Option<String>,
    /// A refusal: how often in a row, at least 1.
    pub times: u32,
    /// A refusal: whether good content has come from the same place since.
    pub resolved: bool,
    /// A change: the first version with it.
    pub version: Option<String>,
    /// A change: how many services changed.
    pub changed: usize,
    /// A change: the first few of these services, with their differences.
    pub services: Vec<Difference>,
}

/// The differences in one service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The service.
    pub name: String,
    /// Such as `added`, `retries: 3 → 5` or `endpoints: +2 −1`.
    pub what: Vec<String>,
}

/// The events that are remembered.
#[derive(Debug, Default)]
pub struct History {
    number: u64,
    changes: VecDeque<Event>,
    endpoints: VecDeque<Event>,
    refusals: VecDeque<Event>,
    /// The numbers of the refusals in force, by source.
    in_force: BTreeMap<String, u64>,
}

/// A change that is not yet in force.
#[derive(Debug)]
pub struct Coming {
    kind: EventKind,
    changed: usize,
    services: Vec<Difference>,
}

impl Coming {
    /// What `snapshot` would change; `None`: nothing.
    pub fn compare<'a>(
        in_force: impl Iterator<Item = (&'a String, &'a Arc<Service>)>,
        snapshot: &Snapshot,
    ) -> Option<Self> {
        let before: BTreeMap<&String, &Arc<Service>> = in_force.collect();
        let after = snapshot.services();
        let gone = before.keys().copied().filter(|name| !after.contains_key(*name));
        let new = after.iter().filter(|(name, s)| before.get(name).is_none_or(|b| !b.means_the_same_as(s)));
        let names: BTreeSet<&String> = gone.chain(new.map(|(name, _)| name)).collect();
        let difference = |name: &&String| {
            let of = |service: &Arc<Service>| service.in_force();
            let (before, after) = (before.get(*name).copied().map(of), after.get(*name).map(of));
            Difference { name: (*name).clone(), what: differences(before.as_ref(), after.as_ref()) }
        };
        let services: Vec<Difference> = names.iter().take(MAX_NAMED).map(difference).collect();
        let only_endpoints = services.iter().flat_map(|s| &s.what).all(|what| what.starts_with("endpoints: "));
        let kind = if only_endpoints { EventKind::Endpoints } else { EventKind::Change };
        (!names.is_empty()).then_some(Self { kind, changed: names.len(), services })
    }
}

impl History {
    /// Grows with every event.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Records a change that is in force as `version`.
    pub fn changed(&mut self, source: &str, coming: Coming, version: String, at: SystemTime) {
        let Coming { kind, changed, services } = coming;
        let event = Event { version: Some(version), changed, services, ..self.event(kind, source, at) };
        match kind {
            EventKind::Endpoints => push(&mut self.endpoints, event, MAX_ENDPOINT_EVENTS),
            EventKind::Change | EventKind::Refusal => push(&mut self.changes, event, MAX_EVENTS),
        }
    }

    /// Records that content of `source` was refused; a repetition is only counted.
    pub fn refused(&mut self, source: &str, message: &str, at: SystemTime) {
        let message: String = message.chars().take(MAX_TEXT).collect();
        let event = self.event(EventKind::Refusal, source, at);
        if let Some(number) = self.in_force.get(source).copied()
            && let Some(before) = self.refusals.iter_mut().find(|event| event.number == number)
        {
            if before.message.as_ref() == Some(&message) {
                (before.times, before.at) = (before.times.saturating_add(1), event.at);
                return;
            }
            before.resolved = true;
        }
        if self.in_force.len() < MAX_REFUSED || self.in_force.contains_key(source) {
            self.in_force.insert(source.to_owned(), event.number);
        }
        // A refusal in force stays, however often others are refused and fixed.
        if self.refusals.len() >= MAX_EVENTS {
            let oldest = self.refusals.iter().position(|event| event.resolved).unwrap_or(0);
            self.refusals.remove(oldest);
        }
        self.refusals.push_back(Event { message: Some(message), ..event });
    }

    /// Records that good content has come from `source`.
    pub fn resolved(&mut self, source: &str) {
        let Some(number) = self.in_force.remove(source) else { return };
        self.number += 1;
        if let Some(event) = self.refusals.iter_mut().find(|event| event.number == number) {
            event.resolved = true;
        }
    }

    /// The refusals in force, the latest first.
    pub fn refusals_in_force(&self) -> Vec<Event> {
        let numbers: HashSet<u64> = self.in_force.values().copied().collect();
        self.refusals.iter().rev().filter(|event| numbers.contains(&event.number)).cloned().collect()
    }

    /// All events, the latest first.
    pub fn events(&self) -> Vec<Event> {
        let mut events: Vec<Event> =
            self.changes.iter().chain(&self.endpoints).chain(&self.refusals).cloned().collect();
        events.sort_by(|a, b| (&b.at, b.number).cmp(&(&a.at, a.number)));
        events
    }

    fn event(&mut self, kind: EventKind, source: &str, at: SystemTime) -> Event {
        self.number += 1;
        Event {
            number: self.number,
            at: rfc3339(at),
            kind,
            source: source.to_owned(),
            message: None,
            times: 1,
            resolved: false,
            version: None,
            changed: 0,
            services: Vec::new(),
        }
    }
}

fn push(events: &mut VecDeque<Event>, event: Event, most: usize) {
    if events.len() >= most {
        events.pop_front();
    }
    events.push_back(event);
}

/// The differences, field by field as written.
fn differences(before: Option<&ServiceSpec>, after: Option<&ServiceSpec>) -> Vec<String> {
    let (before, after) = match (before, after) {
        (None, _) => return vec!["added".to_owned()],
        (_, None) => return vec!["removed".to_owned()],
        (Some(before), Some(after)) => (before, after),
    };
    let mut what = fields(before, after);
    if (&before.endpoints, &before.endpoints_by_port) != (&after.endpoints, &after.endpoints_by_port) {
        // Each address, with the port of the service that it is for, if any.
        let set = |spec: &ServiceSpec| {
            let by_port =
                spec.endpoints_by_port.iter().flat_map(|(port, list)| list.iter().map(|at| (Some(*port), at.clone())));
            spec.endpoints.iter().flatten().map(|at| (None, at.clone())).chain(by_port).collect::<HashSet<_>>()
        };
        let (old, new) = (set(before), set(after));
        let (come, gone) = (new.difference(&old).count(), old.difference(&new).count());
        what.push(match &after.endpoints {
            None if after.endpoints_by_port.is_empty() => "endpoints: now learned from responses".to_owned(),
            _ => format!("endpoints: +{come} −{gone}, {} now", new.len()),
        });
    }
    what
}

fn fields(before: &ServiceSpec, after: &ServiceSpec) -> Vec<String> {
    let object = |spec: &ServiceSpec| match serde_json::to_value(spec) {
        Ok(Value::Object(fields)) => fields,
        _ => serde_json::Map::new(),
    };
    let (before, after) = (object(before), object(after));
    let names: BTreeSet<&String> =
        before.keys().chain(after.keys()).filter(|name| !name.starts_with("endpoints")).collect();
    let differ = names.into_iter().filter(|name| before.get(*name) != after.get(*name));
    differ.map(|name| format!("{name}: {} → {}", written(before.get(name)), written(after.get(name)))).collect()
}

/// A value without JSON's punctuation: `{"estimator":"static","limit":10}` becomes `static 10`.
fn written(value: Option<&Value>) -> String {
    let text = match value {
        None => "default".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Object(fields)) => fields.values().map(|v| written(Some(v))).collect::<Vec<_>>().join(" "),
        Some(other) => other.to_string(),
    };
    text.chars().take(MAX_TEXT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    /// The change from `before` to `after`.
    fn coming(before: &str, after: &str) -> Option<Coming> {
        let before = Snapshot::from_yaml(before).unwrap();
        Coming::compare(before.services().iter(), &Snapshot::from_yaml(after).unwrap())
    }

    #[test]
    fn a_change_lists_what_differs_in_each_service() {
        let before = "services: {gone: {}, a: {retries: 3, capacity: {estimator: static, limit: 10}}, same: {}}";
        let after = "services: {new: {}, a: {capacity: {estimator: slo, slo: 2s}, endpoints: ['1.1.1.1:1']}, same: {}}";
        let coming = coming(before, after).unwrap();
        assert_eq!((coming.kind, coming.changed), (EventKind::Change, 3));
        let what = |name: &str| coming.services.iter().find(|s| s.name == name).unwrap().what.clone();
        assert_eq!((what("gone"), what("new")), (vec!["removed".to_owned()], vec!["added".to_owned()]));
        let expected = ["capacity: static 10 → slo 2s", "retries: 3 → default", "endpoints: +1 −0, 1 now"];
        assert_eq!(what("a"), expected);
        let mut history = History::default();
        history.changed("file:x", coming, "its version".into(), at(0));
        let event = history.events().remove(0);
        assert_eq!((event.version.as_deref(), event.changed, event.services.len()), (Some("its version"), 3, 3));
    }

    #[test]
    fn tells_that_endpoints_are_not_written_any_more() {
        let coming = coming("services: {a: {endpoints: ['1.1.1.1:1']}}", "services: {a: {}}").unwrap();
        assert_eq!(coming.services[0].what, ["endpoints: now learned from responses"]);
    }

    #[test]
    fn endpoint_changes_do_not_push_out_a_parameter_change() {
        let mut history = History::default();
        history.changed("file:x", coming("services: {}", "services: {a: {}}").unwrap(), "1".into(), at(0));
        for i in 0..1_000_u64 {
            let [before, after] =
                [i, i + 1].map(|i| format!("services: {{a: {{endpoints: ['127.0.0.1:{}']}}}}", 1 + i % 9));
            history.changed("file:x", coming(&before, &after).unwrap(), i.to_string(), at(i + 1));
        }
        let events = history.events();
        assert_eq!(events.len(), MAX_ENDPOINT_EVENTS + 1);
        assert_eq!((events[0].kind, &*events[0].at), (EventKind::Endpoints, "1970-01-01T00:16:40.000Z"));
        assert_eq!(events.last().unwrap().services[0].what, ["added"]);
        assert!(
            coming("services: {a: {}}", "services: {a: {retries: 3}}").is_none(),
            "writing the default changes nothing"
        );
        let by_port = |ip| format!("services: {{a: {{endpointsByPort: {{80: ['{ip}:8080']}}}}}}");
        let moved = coming(&by_port("1.1.1.1"), &by_port("2.2.2.2")).unwrap();
        assert_eq!((moved.kind, &*moved.services[0].what[0]), (EventKind::Endpoints, "endpoints: +1 −1, 1 now"));
    }

    #[test]
    fn a_refusal_stays_in_force_until_its_source_is_valid_again() {
        let mut history = History::default();
        history.refused("x", "bad", at(1));
        history.refused("x", "bad", at(2));
        history.refused("y", "worse", at(3));
        let messages =
            |events: Vec<Event>| events.into_iter().map(|e| (e.message.unwrap(), e.times)).collect::<Vec<_>>();
        assert_eq!(messages(history.refusals_in_force()), [("worse".to_owned(), 1), ("bad".to_owned(), 2)]);
        let number = history.number();
        history.resolved("x");
        assert!(history.number() > number, "the page is told");
        assert_eq!(messages(history.refusals_in_force()), [("worse".to_owned(), 1)]);
        history.refused("y", "other", at(4));
        assert_eq!(messages(history.refusals_in_force()), [("other".to_owned(), 1)], "it replaces the one before");
        let resolved: Vec<bool> = history.events().iter().map(|event| event.resolved).collect();
        assert_eq!(resolved, [false, true, true]);
    }

    #[test]
    fn a_refusal_in_force_is_not_pushed_out_by_others_that_are_mended() {
        let mut history = History::default();
        history.refused("mine", "bad", at(0));
        for i in 0..1_000 {
            history.refused("theirs", "worse", at(i));
            history.resolved("theirs");
        }
        assert_eq!(history.refusals_in_force().len(), 1);
        assert_eq!(history.events().len(), MAX_EVENTS);
    }

    #[test]
    fn bounds_the_events_that_it_keeps() {
        let mut history = History::default();
        for i in 0..3 * MAX_EVENTS {
            history.refused(&format!("source {i}"), &"x".repeat(10_000), at(0));
        }
        assert_eq!((history.events().len(), history.in_force.len()), (MAX_EVENTS, MAX_REFUSED));
        assert_eq!(history.events()[0].message.as_ref().map(String::len), Some(MAX_TEXT));
        let many: String = (0..1_000).map(|i| format!("s{i}: {{}}, ")).collect();
        let coming = coming("services: {}", &format!("services: {{{many}}}")).unwrap();
        assert_eq!((coming.changed, coming.services.len()), (1_000, MAX_NAMED));
    }
}
