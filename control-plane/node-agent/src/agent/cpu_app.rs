//! The CPU of an application on this node.

use super::groups::Groups;
use super::member::{Id, Member, More, Phase, Wanted};
use super::node::Node;
use super::reading::Readings;
use super::resource::{Resource, groups};
use super::status::{AppCpu, AppLease, ContainerCpu, Which};
use super::tally;
use super::timing::{JOIN_STEPS, UNREAD_STEPS, WAIT};
use crate::cgroup::{Bandwidth, GroupError, locate};
use crate::config::{AppConfig, AppName, CpuConfig};
use crate::cores::Cores;
use crate::cpu::{App, Interval, LEAST_CHANGE, Refused, Start, WANTED, Window};
use crate::setting::Setting;
use bloc_daemon::cpu::PodCpu;
use bloc_leases::Lease;
use std::collections::BTreeMap;
use std::time::Duration;

/// By how much sums of quotas may differ, because the kernel counts in microseconds.
const ROUNDING: Cores = Cores::new(1e-4);

#[derive(Debug)]
pub(super) struct Use {
    /// The guaranteed minimum.
    pub(super) least: Cores,
    pub(super) readings: Readings,
}

pub(super) type CpuMember = Member<Bandwidth, Use>;

#[derive(Debug)]
pub(super) struct CpuApp {
    pub(super) config: CpuConfig,
    pub(super) cpu: App<Id>,
    pub(super) groups: Groups<Bandwidth, Use>,
    /// What this node holds of a cluster-wide limit, in this step.
    pub(super) lease: Option<Lease>,
    /// What the containers could use, over the last half second.
    pub(super) wanted: Window,
    /// Why the limit is not as low as the lease, in this step.
    pub(super) short: Option<Refused>,
    /// How many seconds containers have waited for more of a cluster-wide limit.
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
            lease: None,
            short: None,
            wanted: Window::new(WANTED),
            waited: 0,
        }
    }

    /// The limit applies from the next [`Self::check`] at which it has room for all minimums.
    fn configure(&mut self, config: &CpuConfig) {
        if *config != self.config {
            self.cpu.set_rule(config.rule);
            self.config = config.clone();
            self.groups.refused = false;
        }
    }

    groups!();

    fn find(&mut self, node: &mut Node, id: &Id, new: &Wanted<'_>) -> Result<bool, GroupError> {
        let Some(located) = locate(&node.tree, &id.uid, &id.id) else { return Ok(false) };
        for path in [&located.pod, &located.container] {
            if node.tree.group(path).burst()? > 0 {
                node.tally.error(tally::BURST, &path.display());
                return Ok(false);
            }
        }
        let least = self.least(node, new, node.tree.group(&located.container).bandwidth()?.period);
        self.groups.find(node, id, new, &located, Use { least, readings: Readings::default() })?;
        Ok(true)
    }

    fn renew(&mut self, node: &Node, id: &Id, new: &Wanted<'_>) {
        let Some(period) = self.groups.members.get(id).map(|member| member.written.period) else { return };
        let least = self.least(node, new, period);
        if let Some(member) = self.groups.members.get_mut(id).filter(|member| member.more.least != least) {
            member.more.least = least;
            member.join_again();
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
    /// The minimum of a container, also by the kernel: 0.1 cores in a period of 10 ms.
    fn least(&self, node: &Node, new: &Wanted<'_>, period: u64) -> Cores {
        let kernel = Bandwidth::least(period).unwrap_or_default();
        self.config.floor.max(new.container.requests).max(kernel).min(node.capacity.cores)
    }

    pub(super) fn step(&mut self, node: &mut Node, now: Duration) {
        self.hold(node, now);
        let intervals = self.read(node, now);
        self.cpu.step(&intervals);
        self.want(node);
        self.admit(node, now);
        self.apply(node, now);
    }

    /// Reads the counters. Returns the intervals of the managed containers.
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
                        Phase::Paused { .. } => {
                            if member.resume(now) {
                                member.more.readings.observed = Default::default();
                            }
                        }
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
        for id in &unread {
            self.groups.pause(node, now, id);
        }
        intervals
    }

    fn admit(&mut self, node: &mut Node, now: Duration) {
        let ready: Vec<(Id, Start)> = self
            .groups
            .members
            .iter()
            .filter(|(_, member)| member.phase == Phase::Joining)
            .filter_map(|(id, member)| {
                let used = member.more.readings.mean_after(JOIN_STEPS)?;
                // The mean may exceed the quota because of rounding.
                let used = member.written.cores().map_or(used, |quota| used.min(quota));
                Some((id.clone(), Start { used, least: member.more.least, most: node.capacity.cores }))
            })
            .collect();
        if ready.is_empty() || self.holds_nothing(node, now, &ready) {
            return;
        }
        let (mut ready, mut refused) = (ready, Vec::new());
        ready.sort_by(|(_, a), (_, b)| a.least.get().total_cmp(&b.least.get()));
        let mut outcome = self.attach(node, &ready);
        // A container whose minimum is too large must not keep the others out.
        while matches!(outcome, Err(Refused::BelowFloors { .. }))
            && let Some(largest) = ready.pop_if(|(_, start)| start.least > self.config.floor)
        {
            refused.push(largest);
            outcome = if ready.is_empty() { Ok(true) } else { self.attach(node, &ready) };
        }
        let is_refused = outcome.is_err();
        let admitted = match outcome {
            Ok(admitted) => admitted,
            Err(Refused::BelowUse { .. }) if self.waits() => false,
            Err(why) => {
                self.groups.refuse(node, why);
                false
            }
        };
        if admitted && refused.is_empty() {
            self.groups.refused = false;
        }
        self.waited = if admitted { 0 } else { self.waited };
        for (id, _) in &ready {
            if !admitted {
                self.leave_out(node, now, id, is_refused);
            } else if let Some(member) = self.groups.members.get_mut(id) {
                member.more.readings.observed = Default::default();
                member.manage();
            }
        }
        for (id, _) in &refused {
            let (app, limit) = (self.groups.app(), self.cpu.limit());
            node.tally.error(tally::LIMIT, &format!("{app}: {limit} has no room for the minimum of {}", id.id));
            self.leave_out(node, now, id, true);
        }
    }

    /// Returns whether the originals could be saved, which must precede the first change.
    fn attach(&mut self, node: &mut Node, ready: &[(Id, Start)]) -> Result<bool, Refused> {
        let is_new = |id: &Id| ready.iter().any(|(new, _)| new == id);
        let limit = self.limit(node, |id| is_new(id) || self.cpu.quota(id).is_some());
        let mut cpu = self.cpu.clone();
        for (id, start) in ready {
            cpu.set_least(id, start.least);
        }
        // After a release by an earlier agent the use may exceed the limit.
        let over = self.groups.has_known(ready) || (self.lease.is_some() && self.waited >= WAIT);
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

    /// The limit for these containers: the lease, or at most the sum of what their pods had
    /// originally.
    fn limit(&self, node: &Node, of: impl Fn(&Id) -> bool) -> Cores {
        if let Some(lease) = self.lease {
            return self.leased(lease);
        }
        self.groups.limit(node, self.config.limit, Bandwidth::cores, of)
    }

    /// Looks for foreign writes and bursts, and applies a limit that has changed.
    pub(super) fn check(&mut self, node: &mut Node, now: Duration) {
        self.groups.check(node, now);
        // A container with a burst is never throttled, so it would keep all that it was granted.
        // The kernel also refuses quotas below the burst.
        let burst: Vec<Id> = self.groups.members.keys().filter(|id| self.groups.has_burst(id)).cloned().collect();
        for id in &burst {
            if let Some(member) = self.groups.members.get(id) {
                node.tally.error(tally::BURST, &member.path.display());
            }
            self.lose(node, now, id);
        }
        // With a lease, each step applies the limit.
        if self.lease.is_some() {
            return self.count_lease(node);
        }
        let limit = self.limit(node, |id| self.cpu.quota(id).is_some());
        let managed = self.groups.members.keys().any(|id| self.cpu.quota(id).is_some());
        if managed && limit != self.cpu.limit() {
            match self.cpu.set_limit(limit) {
                Ok(()) => self.groups.refused = false,
                Err(why) => self.groups.refuse(node, why),
            }
        }
    }

    /// Writes the quotas that differ from the files: falling ones first, then rising ones as far as
    /// the limit has room beside what is in force. A quota that could not be lowered keeps others
    /// from rising.
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

    /// What counts against the limit: the quotas in the files. A container that is not managed
    /// counts with what is reserved for it, unless it has more than its original or could not be
    /// written.
    pub(super) fn in_force(&self) -> Cores {
        let of = |(id, member): (&Id, &Member<Bandwidth, Use>)| {
            let reserved = self.cpu.quota(id)?;
            let is_above = !member.theirs && member.written.is_above(member.original);
            let counts = member.is_managed() || member.stuck || is_above;
            Some(if counts { member.written.cores().unwrap_or(reserved) } else { reserved })
        };
        self.groups.members.iter().filter_map(of).sum()
    }

    /// The CPU of its pods, except for those with an unlimited container.
    pub(super) fn pods(&self, node: &Node) -> impl Iterator<Item = PodCpu> + use<> {
        let namespace = self.groups.app().split('/').next().unwrap_or_default();
        let mut pods: BTreeMap<&str, PodCpu> = BTreeMap::new();
        for (id, member) in &self.groups.members {
            let pod = pods.entry(&id.uid).or_insert_with(|| PodCpu {
                namespace: namespace.to_owned(),
                name: member.pod.clone(),
                cores: Some(0.0),
                used_seconds: 0.0,
            });
            // While observing, the quotas in the files are not the agent's.
            let written = member.written.cores().filter(|_| node.enforcing);
            pod.cores = pod.cores.zip(written).map(|(cores, more)| cores + more.get());
            pod.used_seconds += member.more.readings.used().as_secs_f64();
        }
        pods.into_values().filter(|pod| pod.cores.is_some()).collect::<Vec<_>>().into_iter()
    }

    pub(super) fn status(&mut self, node: &Node) -> AppCpu {
        let containers = self.groups.members.iter_mut().map(|(id, member)| {
            let interval = member.more.readings.show();
            ContainerCpu {
                quota: self.cpu.quota(id).filter(|_| !node.enforcing).or_else(|| member.written.cores()),
                used: interval.used,
                throttled: interval.throttled,
                which: Which::of(member),
            }
        });
        let containers = containers.collect();
        let lease = self.lease_use(node).map(|of| AppLease {
            part: of.under.part,
            goal: of.under.goal,
            held: of.held,
            age: node.leases.as_ref().map(|leases| leases.age(self.groups.app())).unwrap_or_default(),
        });
        AppCpu { containers, limit: self.cpu.limit(), free: self.cpu.free(), lease }
    }
}

/// The interval as it would be with this quota, which is not in force.
fn would(interval: Interval, quota: Cores) -> Interval {
    Interval { throttled: if interval.used > quota { 1.0 } else { interval.throttled }, ..interval }
}
