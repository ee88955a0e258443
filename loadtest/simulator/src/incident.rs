//! Incidents during a simulation.

use bloc_policy::units::Timestamp;
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

/// An incident. Times count from the start of the simulation, warm-up included; servers are
/// numbered from 0, and `3` may be `3-7`.
///
/// | text | meaning |
/// |---|---|
/// | `down:3@10s-20s` | dies at 10 s: its requests fail, connections are refused; at 20 s it is back, empty and without memory |
/// | `join:3@10s` | joins at 10 s; then all senders know it |
/// | `leave:3@10s` | all senders forget it at 10 s; it finishes its requests |
/// | `slow:3@10s-20s=0.5` | works at half of its speed from 10 s to 20 s |
/// | `cold:3@10s=0.025` | the next ten requests that it begins run at 0.025 of its speed |
/// | `load@10s-20s=0.5` | an open load brings half as many requests |
/// | `partition@10s-20s` | the first half of the senders cannot reach the first half of the servers: attempts fail after the connect timeout |
/// | `failing:3@10s-20s=0.5` | fails half of the requests that it admits, within a millisecond |
/// | `refusing:3@10s-20s=0.5` | answers half of the requests that it admits with a client's error, within a millisecond |
/// | `rejecting:3@10s-20s` | rejects everything, and reports itself idle |
/// | `lying:3` | admits everything, reports no queue, and grants chips, whatever is in it; slow it down to make it answer late |
/// | `silent:3` | sends none of our headers, and admits everything |
///
/// Without an end such as `-20s`, it lasts for ever.
#[derive(Clone, Debug, PartialEq)]
pub struct Incident {
    kind: Kind,
    servers: RangeInclusive<u32>,
    from: Duration,
    until: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Down,
    Join,
    Leave,
    Slow(f64),
    Cold(f64),
    Failing(f64),
    Refusing(f64),
    Rejecting,
    Load(f64),
    Partition,
    Lying,
    Silent,
}

/// A change at a moment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Change {
    /// The server is alive or dead.
    Up(u32, bool),
    /// The senders know the server or not.
    Member(u32, bool),
    /// The factor on the server's own speed.
    Slow(u32, f64),
    /// The factor on the speed of the next requests that the server begins.
    Cold(u32, f64),
    /// The share of its admitted requests that the server fails.
    Failing(u32, f64),
    /// The share of its admitted requests that the server answers with a client's error.
    Refusing(u32, f64),
    /// Whether the server rejects everything.
    Rejecting(u32, bool),
    /// The factor on an open load.
    Load(f64),
    /// Whether the network is partitioned.
    Parted(bool),
}

/// The text is not an incident.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "an incident is down:3@10s-20s, join:3@10s, leave:3@10s, slow:3@10s-20s=0.5, cold:3@10s=0.5 or load@10s-20s=0.5 (factor above 0, at most 100), failing:3@10s-20s=0.5 or refusing:3@10s-20s=0.5 (share above 0, at most 1), rejecting:3@10s-20s, partition@10s-20s, lying:3 or silent:3, where 3 may be 3-7"
)]
pub struct NoIncident;

impl Incident {
    /// The changes that it consists of.
    pub fn changes(&self) -> Vec<(Timestamp, Change)> {
        let at = |time: Duration| Timestamp::ZERO.after(time);
        let mut changes = Vec::new();
        let mut both = |first: Change, second: Change| {
            changes.push((at(self.from), first));
            changes.extend(self.until.map(|until| (at(until), second)));
        };
        match self.kind {
            Kind::Load(factor) => both(Change::Load(factor), Change::Load(1.0)),
            Kind::Partition => both(Change::Parted(true), Change::Parted(false)),
            Kind::Down => self.servers.clone().for_each(|s| both(Change::Up(s, false), Change::Up(s, true))),
            Kind::Join => self.servers.clone().for_each(|s| both(Change::Member(s, true), Change::Member(s, false))),
            Kind::Leave => self.servers.clone().for_each(|s| both(Change::Member(s, false), Change::Member(s, true))),
            Kind::Slow(factor) => {
                self.servers.clone().for_each(|s| both(Change::Slow(s, factor), Change::Slow(s, 1.0)))
            }
            Kind::Cold(factor) => {
                changes.extend(self.servers.clone().map(|s| (at(self.from), Change::Cold(s, factor))));
            }
            Kind::Failing(share) => {
                self.servers.clone().for_each(|s| both(Change::Failing(s, share), Change::Failing(s, 0.0)));
            }
            Kind::Refusing(share) => {
                self.servers.clone().for_each(|s| both(Change::Refusing(s, share), Change::Refusing(s, 0.0)));
            }
            Kind::Rejecting => {
                self.servers.clone().for_each(|s| both(Change::Rejecting(s, true), Change::Rejecting(s, false)));
            }
            Kind::Lying | Kind::Silent => {}
        }
        changes
    }

    /// The highest server that it affects.
    pub fn last_server(&self) -> u32 {
        *self.servers.end()
    }

    /// Whether `server` is absent at the start.
    pub fn joins_later(&self, server: u32) -> bool {
        self.kind == Kind::Join && self.servers.contains(&server)
    }

    /// Whether `server` lies.
    pub fn lies(&self, server: u32) -> bool {
        self.kind == Kind::Lying && self.servers.contains(&server)
    }

    /// Whether `server` sends none of our headers.
    pub fn silences(&self, server: u32) -> bool {
        self.kind == Kind::Silent && self.servers.contains(&server)
    }
}

impl FromStr for Incident {
    type Err = NoIncident;

    fn from_str(text: &str) -> Result<Self, NoIncident> {
        let (head, when) = text.split_once('@').map_or((text, None), |(head, when)| (head, Some(when)));
        let (name, servers) = head.split_once(':').map_or((head, None), |(name, servers)| (name, Some(servers)));
        let (when, factor) = match when.and_then(|when| when.split_once('=')) {
            Some((when, factor)) => (Some(when), Some(factor)),
            None => (when, None),
        };
        let kind = match (name, factor) {
            ("down", None) => Kind::Down,
            ("join", None) => Kind::Join,
            ("leave", None) => Kind::Leave,
            ("partition", None) => Kind::Partition,
            ("lying", None) => Kind::Lying,
            ("silent", None) => Kind::Silent,
            ("rejecting", None) => Kind::Rejecting,
            ("failing" | "refusing", Some(share)) => {
                let share = share.parse().ok().filter(|&share: &f64| share > 0.0 && share <= 1.0);
                let share = share.ok_or(NoIncident)?;
                if name == "failing" { Kind::Failing(share) } else { Kind::Refusing(share) }
            }
            ("slow" | "cold" | "load", Some(factor)) => {
                let factor = factor.parse().ok().filter(|&f: &f64| f > 0.0 && f <= 100.0).ok_or(NoIncident)?;
                match name {
                    "slow" => Kind::Slow(factor),
                    "cold" => Kind::Cold(factor),
                    _ => Kind::Load(factor),
                }
            }
            _ => return Err(NoIncident),
        };
        let servers = match (kind, servers) {
            (Kind::Partition | Kind::Load(_), None) => 0..=0,
            (Kind::Partition | Kind::Load(_), Some(_)) | (_, None) => return Err(NoIncident),
            (_, Some(text)) => {
                let (first, last) = text.split_once('-').unwrap_or((text, text));
                let number = |text: &str| text.parse::<u32>().map_err(|_| NoIncident);
                number(first)?..=number(last)?
            }
        };
        let (from, until) = match (kind, when) {
            (Kind::Lying | Kind::Silent, None) => (Duration::ZERO, None),
            (Kind::Lying | Kind::Silent, Some(_)) | (_, None) => return Err(NoIncident),
            (_, Some(when)) => {
                let time = |text: &str| humantime::parse_duration(text).map_err(|_| NoIncident);
                match when.split_once('-') {
                    Some(_) if matches!(kind, Kind::Cold(_)) => return Err(NoIncident),
                    Some((from, until)) => (time(from)?, Some(time(until)?)),
                    None => (time(when)?, None),
                }
            }
        };
        if servers.is_empty() || until.is_some_and(|until| until <= from) {
            return Err(NoIncident);
        }
        Ok(Self { kind, servers, from, until })
    }
}

impl fmt::Display for Incident {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.kind {
            Kind::Down => "down",
            Kind::Join => "join",
            Kind::Leave => "leave",
            Kind::Slow(_) => "slow",
            Kind::Cold(_) => "cold",
            Kind::Failing(_) => "failing",
            Kind::Refusing(_) => "refusing",
            Kind::Rejecting => "rejecting",
            Kind::Load(_) => "load",
            Kind::Partition => "partition",
            Kind::Lying => "lying",
            Kind::Silent => "silent",
        };
        f.write_str(name)?;
        if !matches!(self.kind, Kind::Partition | Kind::Load(_)) {
            write!(f, ":{}", self.servers.start())?;
            if self.servers.start() != self.servers.end() {
                write!(f, "-{}", self.servers.end())?;
            }
        }
        let shown = |time: Duration| humantime::format_duration(time).to_string().replace(' ', "");
        if !matches!(self.kind, Kind::Lying | Kind::Silent) {
            write!(f, "@{}", shown(self.from))?;
            if let Some(until) = self.until {
                write!(f, "-{}", shown(until))?;
            }
        }
        if let Kind::Slow(factor)
        | Kind::Cold(factor)
        | Kind::Failing(factor)
        | Kind::Refusing(factor)
        | Kind::Load(factor) = self.kind
        {
            write!(f, "={factor}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_and_prints_each_kind_of_incident() {
        for text in [
            "down:3@10s-20s",
            "down:3-7@10s",
            "join:0@1m",
            "leave:4@5s",
            "slow:2@10s-20s=0.5",
            "slow:2@0s=0.25",
            "cold:2@0s=0.025",
            "partition@10s-20s",
            "load@10s-20s=0.25",
            "failing:2@10s-20s=0.5",
            "refusing:2@10s-20s=0.5",
            "rejecting:2@10s",
            "lying:3",
            "silent:0-4",
        ] {
            assert_eq!(text.parse::<Incident>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn refuses_an_invalid_incident() {
        for text in [
            "down:3",
            "down@1s",
            "down:3@20s-10s",
            "slow:3@1s",
            "cold:3@1s",
            "cold:3@1s-2s=0.1",
            "slow:3@1s=0",
            "down:3@1s=2",
            "partition:1@1s",
            "load:1@1s=2",
            "load@1s",
            "failing:1@1s",
            "refusing:1@1s",
            "refusing:1@1s=1.5",
            "failing:1@1s=1.5",
            "rejecting:1@1s=0.5",
            "lying:3@1s",
            "down:7-3@1s",
            "fire:1@1s",
        ] {
            assert_eq!(text.parse::<Incident>(), Err(NoIncident), "{text}");
        }
    }

    #[test]
    fn an_incident_with_an_end_is_undone_there() {
        let at = |seconds| Timestamp::ZERO.after(Duration::from_secs(seconds));
        let slow: Incident = "slow:2-3@10s-20s=0.5".parse().unwrap();
        let expected = [
            (at(10), Change::Slow(2, 0.5)),
            (at(20), Change::Slow(2, 1.0)),
            (at(10), Change::Slow(3, 0.5)),
            (at(20), Change::Slow(3, 1.0)),
        ];
        assert_eq!(slow.changes(), expected);
        let load: Incident = "load@10s-20s=0.5".parse().unwrap();
        assert_eq!(load.changes(), [(at(10), Change::Load(0.5)), (at(20), Change::Load(1.0))]);
        assert_eq!("down:1@5s".parse::<Incident>().unwrap().changes(), [(at(5), Change::Up(1, false))]);
    }
}
