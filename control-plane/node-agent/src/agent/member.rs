//! A container of an application.

use super::status::ContainerStatus;
use super::timing::STEP;
use crate::cgroup::{Bandwidth, Counters, Group, GroupError};
use crate::cores::Cores;
use crate::cpu::Interval;
use crate::pods::{Container, Pod};
use std::path::PathBuf;
use std::time::Duration;

/// A container: the uid of its pod, and the runtime's id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Id {
    pub(super) uid: String,
    pub(super) id: String,
}

impl Id {
    pub(super) fn new(pod: &Pod, container: &Container) -> Self {
        Self { uid: pod.uid.clone(), id: container.id.clone() }
    }
}

/// A container that belongs to an application.
pub(super) struct Wanted<'a> {
    pub(super) pod: &'a Pod,
    pub(super) container: &'a Container,
    pub(super) least: Cores,
}

/// Where a container is on its way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Phase {
    /// It is observed: so many steps, with this use in sum.
    Joining { steps: u32, used: Cores },
    /// It is under the limit.
    Managed,
    /// Somebody else has changed its quota.
    Paused { until: Duration },
}

impl Phase {
    pub(super) const JOINING: Self = Self::Joining { steps: 0, used: Cores::ZERO };
}

/// When and what was counted.
#[derive(Clone, Copy, Debug)]
struct Reading {
    at: Duration,
    counters: Counters,
}

impl Reading {
    /// What happened since `before`; none if no time has passed.
    fn since(self, before: Self) -> Option<Interval> {
        let time = self.at.checked_sub(before.at).filter(|time| !time.is_zero())?;
        let used = self.counters.used.saturating_sub(before.counters.used);
        let periods = self.counters.periods.saturating_sub(before.counters.periods);
        let throttled = self.counters.throttled.saturating_sub(before.counters.throttled);
        let throttled = if periods == 0 { 0.0 } else { (throttled as f64 / periods as f64).min(1.0) };
        Some(Interval { used: Cores::new(used.as_secs_f64() / time.as_secs_f64()), throttled })
    }
}

/// A container with its group.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) pod: String,
    pub(super) container: String,
    pub(super) group: Group,
    /// Below the tree.
    pub(super) path: PathBuf,
    pub(super) original: Bandwidth,
    /// What is in the file, as far as we know.
    pub(super) written: Bandwidth,
    pub(super) least: Cores,
    pub(super) phase: Phase,
    /// Its use in the last step.
    pub(super) used: Cores,
    /// Steps in a row in which its counters could not be read.
    pub(super) unread: u32,
    /// Whether somebody else has written the quota that it has.
    pub(super) theirs: bool,
    /// Whether an earlier agent has changed it.
    pub(super) known: bool,
    /// Whether its quota could not be written.
    pub(super) stuck: bool,
    /// How often somebody else has.
    pub(super) foreign: u64,
    last: Option<Reading>,
    shown: Option<Reading>,
}

impl Member {
    /// A container that has just come; `written` is what it has.
    pub(super) fn new(new: &Wanted<'_>, group: Group, path: PathBuf, original: Bandwidth, written: Bandwidth) -> Self {
        Self {
            pod: new.pod.name.clone(),
            container: new.container.name.clone(),
            group,
            path,
            original,
            written,
            least: new.least,
            phase: Phase::JOINING,
            used: Cores::ZERO,
            unread: 0,
            theirs: false,
            known: false,
            stuck: false,
            foreign: 0,
            last: None,
            shown: None,
        }
    }

    /// What happened since the last reading.
    pub(super) fn read(&mut self, now: Duration) -> Result<Option<Interval>, GroupError> {
        self.unread += 1;
        let reading = Reading { at: now, counters: self.group.counters()? };
        self.unread = 0;
        self.shown.get_or_insert(reading);
        let Some(last) = self.last else {
            self.last = Some(reading);
            return Ok(None);
        };
        // In a shorter time the kernel may not have counted yet.
        let interval = reading.since(last).filter(|_| now.saturating_sub(last.at) >= STEP / 2);
        if let Some(interval) = interval {
            (self.last, self.used) = (Some(reading), interval.used);
        }
        Ok(interval)
    }

    /// Takes a quota that somebody else has written.
    pub(super) const fn adopt(&mut self, quota: Bandwidth) {
        (self.original, self.written, self.theirs) = (quota, quota, true);
    }

    /// What the metrics show, since the last call. `quota` is what it would have.
    pub(super) fn status(&mut self, quota: Option<Cores>) -> ContainerStatus {
        let interval = self.last.zip(self.shown).and_then(|(last, shown)| last.since(shown));
        self.shown = self.last;
        ContainerStatus {
            pod: self.pod.clone(),
            container: self.container.clone(),
            quota: quota.or_else(|| self.written.cores()),
            used: interval.map_or(Cores::ZERO, |interval| interval.used),
            throttled: interval.map_or(0.0, |interval| interval.throttled),
            managed: self.phase == Phase::Managed,
            foreign: self.foreign,
        }
    }
}
