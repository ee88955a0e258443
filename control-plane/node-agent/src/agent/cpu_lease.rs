//! The CPU of an application with a cluster-wide limit: what this node holds of it.
//!
//! The limit in force is `min(part, max(goal, sum of the minimums))` of the application's. A node
//! that holds nothing gives its containers their original quotas.
//!
//! After a restart, containers have the quotas of an earlier agent until they are admitted, a
//! second later. These count as in use, so no quota in force is given away.
//!
//! Containers that use more than a new part keep their own quotas for [`WAIT`] seconds, because
//! other nodes may give. Then they get what is available, because containers elsewhere are limited,
//! too.

use super::cpu_app::{CpuApp, CpuMember};
use super::member::{Id, Phase};
use super::node::Node;
use super::resource::Resource;
use super::tally;
use super::timing::WAIT;
use crate::cgroup::Bandwidth;
use crate::config::Over;
use crate::cores::Cores;
use crate::cpu::{Refused, Start};
use crate::lease::Use;
use crate::setting::Setting;
use bloc_leases::{Lease, Part};
use std::collections::BTreeMap;
use std::time::Duration;

impl CpuApp {
    /// Applies the lease for this step. Quotas above it fall at once.
    pub(super) fn hold(&mut self, node: &mut Node, now: Duration) {
        let (before, was_short) = (self.lease.take(), self.short.take().is_some());
        if node.enforcing && self.config.over == Over::Cluster {
            let held = node.leases.as_ref().map(|leases| leases.lease(self.groups.app()));
            self.lease = Some(held.unwrap_or_default());
        }
        let Some(lease) = self.lease else { return };
        let holds = |lease: Lease| lease.part > Part::ZERO;
        if holds(lease) != before.is_some_and(holds) {
            self.waited = 0;
        }
        if !holds(lease) && self.groups.members.keys().any(|id| self.cpu.quota(id).is_some()) {
            let app = self.groups.app();
            tracing::info!(app, "this node holds no part of the limit; its containers get their original quotas");
            self.keep(node, now, &BTreeMap::new());
            node.unplaced = true;
        }
        let limit = self.leased(lease);
        if limit == self.cpu.limit() {
            self.groups.refused &= !was_short;
            return;
        }
        match self.cpu.set_limit(limit) {
            Ok(()) => self.groups.refused = false,
            Err(refused @ Refused::BelowFloors { floors, .. }) => {
                // As low as the minimums allow; a part never falls below what is in force.
                if floors < self.cpu.limit() {
                    let _ = self.cpu.set_limit(floors);
                }
                if !self.groups.refused {
                    self.groups.refuse(node, refused);
                }
                self.short = Some(refused);
            }
            Err(refused) => self.groups.refuse(node, refused),
        }
    }

    /// Counts a failure, once a second, if this node exceeds its limit.
    pub(super) fn count_lease(&mut self, node: &mut Node) {
        if let Some(refused) = self.short {
            self.groups.refuse(node, refused);
        }
        if self.groups.members.is_empty() {
            self.waited = 0;
        }
        if self.waited > WAIT && self.lease.is_some_and(|lease| lease.part == Part::ZERO) {
            let app = self.groups.app();
            node.tally.error(tally::LIMIT, &format!("{app}: this node holds no part of the limit, and none is free"));
        }
    }

    /// The quotas of containers that an earlier agent changed and that are not admitted yet. A
    /// refused container has its own quota.
    fn taken_over(&self, node: &Node) -> Cores {
        let of = |(id, member): (&Id, &CpuMember)| {
            let comes = member.phase == Phase::Joining || !member.theirs && member.written.is_above(member.original);
            let counts = member.known && comes && self.cpu.quota(id).is_none();
            counts.then(|| member.written.cores().unwrap_or(node.capacity.cores))
        };
        self.groups.members.iter().filter_map(of).sum()
    }

    /// Leaves out a container for now.
    pub(super) fn leave_out(&mut self, node: &mut Node, now: Duration, id: &Id, is_refused: bool) {
        let Some(member) = self.groups.members.get_mut(id) else { return };
        member.more.readings.observed = Default::default();
        if is_refused && member.known && self.lease.is_some() {
            // The quota from an earlier agent would count as long as it is in force.
            self.lose(node, now, id);
        } else {
            // It may have a quota from an earlier agent, or from before a pause.
            self.groups.raise(node, id);
        }
    }

    /// The limit in force.
    pub(super) fn leased(&self, lease: Lease) -> Cores {
        let of = |part: Part| Cores::new(part.times(self.config.limit.get()));
        of(lease.part).min(of(lease.goal).max(self.least_of_all()))
    }

    /// The sum of the minimums of the containers that are admitted or joining.
    fn least_of_all(&self) -> Cores {
        self.counted().into_iter().map(|(_, member)| member.more.least).sum()
    }

    /// The containers that need a part: admitted ones, and joining ones as far as the whole limit
    /// has room for their minimums.
    fn counted(&self) -> Vec<(&Id, &CpuMember)> {
        let is_in = |(id, _): &(&Id, &CpuMember)| self.cpu.quota(id).is_some();
        let (mut counted, mut others): (Vec<_>, Vec<_>) = self.groups.members.iter().partition(is_in);
        others.retain(|(_, member)| member.phase == Phase::Joining);
        others.sort_by(|(_, a), (_, b)| a.more.least.get().total_cmp(&b.more.least.get()));
        let mut sum: Cores = counted.iter().map(|(_, member)| member.more.least).sum();
        for (id, member) in others {
            sum += member.more.least;
            if sum <= self.config.limit {
                counted.push((id, member));
            }
        }
        counted
    }

    /// Records what the containers could use after this step.
    pub(super) fn want(&mut self, node: &Node) {
        if self.lease.is_none() {
            return;
        }
        let most = node.capacity.cores;
        let counted = self.counted();
        let coming = counted.iter().filter(|(id, _)| self.cpu.quota(id).is_none());
        let wants = coming.map(|(_, member)| {
            let used = member.more.readings.mean_after(1).map(|used| used + self.config.rule.slack);
            used.unwrap_or_default().min(most).max(member.more.least)
        });
        let wants = self.cpu.wants() + wants.sum();
        self.wanted.push(wants.get());
    }

    /// What this node uses and wants of the limit, if anything.
    pub(super) fn lease_use(&self, node: &Node) -> Option<Use> {
        let under = self.lease?;
        if self.groups.members.is_empty() {
            return None;
        }
        let part = |cores: Cores| Part::of(cores.get(), self.config.limit.get());
        let counted = self.counted();
        let counts = |id: &Id| counted.iter().any(|(other, _)| *other == id);
        let own = self.groups.own(Bandwidth::cores, counts).filter(|_| !node.override_limits);
        let least = self.least_of_all();
        let wants = if counted.is_empty() { Cores::ZERO } else { Cores::new(self.wanted.mean()).max(least) };
        let held = part(self.cpu.limit().max(self.in_force() + self.taken_over(node)));
        Some(Use { wants: part(wants), least: part(least), own: own.map(part), held, under })
    }

    /// Whether containers cannot be admitted because this node holds nothing of the limit. After a
    /// while, they lose what an earlier agent gave them.
    pub(super) fn holds_nothing(&mut self, node: &mut Node, now: Duration, ready: &[(Id, Start)]) -> bool {
        if self.lease.is_none_or(|lease| lease.part > Part::ZERO) {
            return false;
        }
        self.waited = self.waited.saturating_add(1);
        for (id, _) in ready {
            self.leave_out(node, now, id, self.waited > WAIT);
        }
        true
    }

    /// Whether containers that use more than this node holds wait for more.
    pub(super) fn waits(&mut self) -> bool {
        let leased = self.lease.is_some();
        self.waited = self.waited.saturating_add(leased.into());
        leased
    }
}
