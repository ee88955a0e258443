//! The CPU of an application on this node: its containers come and go.

use super::groups::Groups;
use super::member::{Id, Member, Phase, Wanted};
use super::node::Node;
use super::pod_group::More;
use super::reading::Readings;
use super::resource::Resource;
use super::tally;
use super::timing::{JOIN_STEPS, UNREAD_STEPS, WAIT};
use crate::cgroup::{Bandwidth, GroupError, locate};
use crate::config::{AppConfig, AppName, CpuConfig};
use crate::cores::Cores;
use crate::cpu::{App, Interval, LEAST_CHANGE, Refused, Start, WANTED, Window};
use crate::setting::Setting;
use bloc_leases::Lease;
use std::collections::BTreeMap;
use std::time::Duration;

/// By how much sums of quotas may differ, because the kernel counts in microseconds.
const ROUNDING: Cores = Cores::new(1e-4);

/// What is known of a container's CPU.
#[derive(Debug)]
pub(super) struct Use {
    /// What it keeps at least.
    pub(super) least: Cores,
    pub(super) readings: Readings,
}

/// A container.
pub(super) type CpuMember = Member<Bandwidth, Use>;

/// The CPU of an application.
#[derive(Debug)]
pub(super) struct CpuApp {
    pub(super) config: CpuConfig,
    pub(super) cpu: App<Id>,
    pub(super) groups: Groups<Bandwidth, Use>,
    /// Why containers are not under the limit, or why a new limit is not in force.
    pub(super) refused: Option<Refused>,
    /// What this node holds of a limit over nodes, in this step; none: it has a limit of its own.
    pub(super) lease: Option<Lease>,
    /// What the containers could use, in the last half second.
    pub(super) wanted: Window,
    /// Why the limit is not as low as what this node holds, in this step.
    pub(super) short: Option<Refused>,
    /// How often containers have waited for more of a limit over nodes.
    pub(super) waited: u32,
}

impl More<Bandwidth> for Use {}

impl Resource for CpuApp {
    type Setting = Bandwidth;
    type More = Use;
    type Config = CpuConfig;

    fn config_of(app: &AppConfig) -> Option<&CpuConfig> {
        app.cpu.as_ref()
    }

    fn new(name: &AppName, config: &CpuConfig, _: Duration) -> Self {
        Self {
            config: config.clone(),
            cpu: App::new(config.rule, config.limit),
            groups: Groups::new(name.to_string(), "quota"),
            refused: None,
            lease: None,
            short: None,
            wanted: Window::new(WANTED),
            waited: 0,
        }
    }

    /// The limit is in force with the next [`Self::check`] at which it leaves room for what the
    /// containers keep.
    fn configure(&mut self, config: &CpuConfig) {
        if *config != self.config {
            self.cpu.set_rule(config.rule);
            self.config = config.clone();
            self.refused = None;
        }
    }

    fn groups(&self) -> &Groups<Bandwidth, Use> {
        &self.groups
    }

    fn groups_mut(&mut self) -> &mut Groups<Bandwidth, Use> {
        &mut self.groups
    }

    fn find(&mut self, node: &mut Node, id: &Id, new: &Wanted<'_>) -> Result<bool, GroupError> {
        let Some(located) = locate(&node.tree, &id.uid, &id.id) else { return Ok(false) };
        for path in [&located.pod, &located.container] {
            if node.tree.group(path).has_burst()? {
                node.tally.error(tally::BURST, &path.display());
                return Ok(false);
            }
        }
        let least = self.least(node, new);
        self.groups.find(node, id, new, &located, Use { least, readings: Readings::default() })?;
        Ok(true)
    }

    fn renew(&mut self, node: &Node, id: &Id, new: &Wanted<'_>) {
        let least = self.least(node, new);
        if let Some(member) = self.groups.members.get_mut(id).filter(|member| member.more.least != least) {
            member.more.least = least;
            // It comes anew, with what it has to keep now.
            member.phase = if member.is_managed() { Phase::Joining } else { member.phase };
            member.more.readings.observed = Default::default();
        }
    }

    fn detach(&mut self, _: &mut Node, id: &Id) {
        self.cpu.detach(id);
    }

    fn end(&mut self, node: &mut Node, now: Duration) {
        self.check(node, now);
    }
}

impl CpuApp {
    /// What a container keeps at least.
    fn least(&self, node: &Node, new: &Wanted<'_>) -> Cores {
        self.config.floor.max(new.container.requests).min(node.capacity.cores)
    }

    /// Reads the counters, decides, and writes.
    pub(super) fn step(&mut self, node: &mut Node, now: Duration) {
        self.hold(node, now);
        let intervals = self.read(node, now);
        // The changes are what differs from the files.
        self.cpu.step(&intervals);
        self.want(node);
        self.admit(node, now);
        self.apply(node, now);
    }

    /// What was counted of the containers under the limit.
    fn read(&mut self, node: &mut Node, now: Duration) -> BTreeMap<Id, Interval> {
        let mut intervals = BTreeMap::new();
        let (mut gone, mut unread) = (Vec::new(), Vec::new());
        for (id, member) in &mut self.groups.members {
            member.unread += 1;
            match member.more.readings.read(&member.group, now) {
                Ok(interval) => {
                    member.unread = 0;
                    let Some(interval) = interval else { continue };
                    match member.phase {
                        Phase::Managed => {
                            let quota = self.cpu.quota(id).unwrap_or_default();
                            intervals
                                .insert(id.clone(), if node.enforcing { interval } else { would(interval, quota) });
                        }
                        Phase::Joining => member.more.readings.observe(interval),
                        Phase::Paused { until } if until <= now => {
                            member.phase = Phase::Joining;
                            member.more.readings.observed = Default::default();
                        }
                        Phase::Paused { .. } => {}
                    }
                }
                Err(error) if error.is_gone() => gone.push(id.clone()),
                Err(error) => {
                    node.tally.error(tally::READ, &error);
                    if member.unread == UNREAD_STEPS {
                        unread.push(id.clone());
                    }
                }
            }
        }
        for id in &gone {
            self.lose(node, now, id);
        }
        // Nobody knows what it needs.
        for id in &unread {
            self.groups.pause(node, now, id);
        }
        intervals
    }

    /// Brings containers under the limit that were observed for long enough.
    fn admit(&mut self, node: &mut Node, now: Duration) {
        let ready: Vec<(Id, Start)> = self
            .groups
            .members
            .iter()
            .filter(|(_, member)| member.phase == Phase::Joining)
            .filter_map(|(id, member)| {
                let used = member.more.readings.mean_after(JOIN_STEPS)?;
                // It did not use more than it had.
                let used = member.written.cores().map_or(used, |quota| used.min(quota));
                Some((id.clone(), Start { used, least: member.more.least, most: node.capacity.cores }))
            })
            .collect();
        if ready.is_empty() || self.holds_nothing(node, now, &ready) {
            return;
        }
        let (mut ready, mut refused) = (ready, Vec::new());
        let mut outcome = self.attach(node, &ready);
        // Those that must keep most keep the others out no longer.
        while matches!(outcome, Err(Refused::BelowFloors { .. }))
            && let Some(largest) = self.largest(&ready)
        {
            refused.push(ready.remove(largest));
            outcome = if ready.is_empty() { Ok(true) } else { self.attach(node, &ready) };
        }
        let is_refused = outcome.is_err();
        let admitted = match outcome {
            Ok(admitted) => admitted,
            Err(Refused::BelowUse { .. }) if self.waits() => false,
            Err(why) => {
                self.refuse(node, why);
                false
            }
        };
        if admitted && refused.is_empty() {
            self.refused = None;
        }
        self.waited = if admitted { 0 } else { self.waited };
        for (id, _) in &refused {
            let limit = self.cpu.limit();
            tracing::debug!(app = self.groups.app(), id = id.id, %limit, "must keep more than there is room for");
            node.tally.error(
                tally::LIMIT,
                &format!("{}: {} must keep more than {limit} has room for", self.groups.app(), id.id),
            );
        }
        for (id, _) in &ready {
            if let Some(member) = self.groups.members.get_mut(id) {
                member.more.readings.observed = Default::default();
                if admitted {
                    member.manage();
                }
            }
            if !admitted {
                self.leave_out(node, now, id, is_refused);
            }
        }
        for (id, _) in &refused {
            self.leave_out(node, now, id, true);
        }
    }

    /// Which of these must keep most, and more than the floor.
    fn largest(&self, ready: &[(Id, Start)]) -> Option<usize> {
        let above = ready.iter().enumerate().filter(|(_, (_, start))| start.least > self.config.floor);
        above.max_by(|(_, (_, a)), (_, (_, b))| a.least.get().total_cmp(&b.least.get())).map(|(index, _)| index)
    }

    /// Whether the originals could be kept, which must be so before the first change.
    fn attach(&mut self, node: &mut Node, ready: &[(Id, Start)]) -> Result<bool, Refused> {
        let is_new = |id: &Id| ready.iter().any(|(new, _)| new == id);
        let limit = self.limit(node, |id| is_new(id) || self.cpu.quota(id).is_some());
        let mut cpu = self.cpu.clone();
        for (id, start) in ready {
            cpu.set_least(id, start.least);
        }
        // What an earlier agent has released may use more than the limit.
        let known = ready.iter().any(|(id, _)| self.groups.members.get(id).is_some_and(|member| member.known));
        let over = known || (self.lease.is_some() && self.waited >= WAIT);
        cpu.set_limit(limit)?;
        if over {
            cpu.take_over(ready)?
        } else {
            cpu.attach(ready)?
        };
        if node.enforcing && !self.groups.remember(node, ready.iter().map(|(id, _)| id)) {
            return Ok(false);
        }
        self.cpu = cpu;
        Ok(true)
    }

    pub(super) fn refuse(&mut self, node: &mut Node, refused: Refused) {
        if self.refused.is_none() {
            tracing::warn!(app = self.groups.app(), %refused, "the limit leaves no room");
        }
        self.refused = Some(refused);
        node.tally.error(tally::LIMIT, &format!("{}: {refused}", self.groups.app()));
    }

    /// The limit for these containers: what this node holds, or at most the sum of what their pods
    /// had themselves.
    fn limit(&self, node: &Node, of: impl Fn(&Id) -> bool) -> Cores {
        if let Some(lease) = self.lease {
            return self.leased(lease);
        }
        if node.override_limits {
            return self.config.limit;
        }
        let own = self.groups.own(Bandwidth::cores, of);
        own.map_or(self.config.limit, |own| own.min(self.config.limit))
    }

    /// Compares all quotas with what was written, and the limit in force with what it should be.
    pub(super) fn check(&mut self, node: &mut Node, now: Duration) {
        self.groups.check(node, now);
        // Each step goes by what this node holds then.
        if self.lease.is_some() {
            return self.count_lease(node);
        }
        let limit = self.limit(node, |id| self.cpu.quota(id).is_some());
        let managed = self.groups.members.keys().any(|id| self.cpu.quota(id).is_some());
        if managed && limit != self.cpu.limit() {
            match self.cpu.set_limit(limit) {
                Ok(_) => self.refused = None,
                Err(refused) => self.refuse(node, refused),
            }
        }
    }

    /// Writes the quotas that differ from what is in the files: those that fall first, and those
    /// that rise only as far as the limit allows with what is in force. A quota that could not be
    /// lowered has to be, before others rise.
    fn apply(&mut self, node: &mut Node, time: Duration) {
        if !node.enforcing {
            return;
        }
        let (mut fall, mut rise) = (Vec::new(), Vec::new());
        for (id, member) in self.groups.members.iter().filter(|(_, member)| member.is_managed()) {
            let Some(quota) = self.cpu.quota(id) else { continue };
            let to = Bandwidth::of(quota, member.written.period);
            match (member.written.is_above(to), to.is_above(member.written)) {
                (true, _) => fall.push((id.clone(), to)),
                (_, true) => rise.push((id.clone(), to)),
                _ => {}
            }
        }
        for (id, to) in &fall {
            self.change(node, time, id, *to);
        }
        for (id, to) in &rise {
            let left = (self.cpu.limit() + ROUNDING) - self.in_force();
            let Some(member) = self.groups.members.get(id) else { continue };
            let (Some(now), Some(wanted)) = (member.written.cores(), to.cores()) else { continue };
            if now + left >= wanted {
                self.change(node, time, id, *to);
            } else if left > now * LEAST_CHANGE {
                let to = Bandwidth::of(now + left, member.written.period);
                self.change(node, time, id, to);
            }
        }
    }

    fn change(&mut self, node: &mut Node, now: Duration, id: &Id, to: Bandwidth) {
        if self.groups.change(node, now, id, to) {
            self.lose(node, now, id);
        }
    }

    /// What counts against the limit: what is in the files. A container that is not managed counts
    /// with what it had before, unless it has more than its own quota or could not be written.
    pub(super) fn in_force(&self) -> Cores {
        let of = |(id, member): (&Id, &Member<Bandwidth, Use>)| {
            let reserved = self.cpu.quota(id)?;
            let is_above = !member.theirs && member.written.is_above(member.original);
            let counts = member.is_managed() || member.stuck || is_above;
            Some(if counts { member.written.cores().unwrap_or(reserved) } else { reserved })
        };
        self.groups.members.iter().filter_map(of).sum()
    }
}

/// What a container would meet with this quota, which is not in force.
fn would(interval: Interval, quota: Cores) -> Interval {
    Interval { throttled: if interval.used > quota { 1.0 } else { interval.throttled }, ..interval }
}
