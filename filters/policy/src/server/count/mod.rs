//! The count of requests in flight over all threads of one proxy, and its correction.
//!
//! The threads count in a gauge of the host, which outlives a thread's VM. When a VM traps, nobody
//! knows how much of the gauge it added. So the living VMs recount while traffic goes on. This also
//! corrects any other error within [`PERIOD`]. Not in the paper. Reasons and costs:
//! `filters/adr/0008-the-count-is-made-anew.md`.

use crate::proxy::shared::Shared;
use crate::proxy::stall::StallDetector;
use crate::server::limiter::WORKER_TIMEOUT;
use crate::units::{Concurrency, Timestamp};
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// A thread that does not look again within this time causes a recount.
pub const LOOK_DEADLINE: Duration = Duration::from_secs(7);
/// Time between recounts without another reason.
pub const PERIOD: Duration = Duration::from_secs(60);
/// Time between a thread's looks while the count is settled.
const LOOK: Duration = Duration::from_secs(3);
/// Shortest time between a thread's own looks during a recount. It also looks when it is told to.
const LOOK_WHILE_COUNTING: Duration = Duration::from_millis(50);
/// Shortest time between a recount and one for a gauge below a thread's own count.
const PAUSE: Duration = Duration::from_secs(5);
/// Attempts at a step. Each failure means that another thread has made progress.
const TRIES: usize = 1000;
const MAX_MEMBERS: usize = 1000;
const HEAD_BYTES: usize = 13;
const MEMBER_BYTES: usize = 20;

/// One of the two gauges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Side {
    /// In use while the count is settled.
    #[default]
    First,
    /// In use by those who have moved during a recount.
    Second,
}

impl Side {
    fn other(self) -> Self {
        match self {
            Self::First => Self::Second,
            Self::Second => Self::First,
        }
    }
}

/// Two gauges that all threads share. Each call is atomic.
pub trait Gauges {
    /// Adds a number of requests.
    fn add(&self, side: Side, offset: i64);
    /// The value.
    fn get(&self, side: Side) -> i64;
    /// Sets it to zero.
    fn clear(&self, side: Side);
}

/// What this thread has added to one of the gauges, for crash recovery.
#[derive(Clone, Debug, Default)]
pub struct Own(Rc<Cell<(i64, Side)>>);

impl Own {
    /// Subtracts it from that gauge.
    pub fn take_back(&self, gauges: &impl Gauges) {
        let (own, side) = self.0.get();
        gauges.add(side, -own);
        self.0.set((0, side));
    }
}

/// The stage of a recount, modulo 4. The first member goes on once all have reached a stage.
///
/// | stage | adds to | reads | once all have reached it |
/// |---|---|---|---|
/// | settled | first gauge | first gauge | |
/// | both | first gauge | both gauges | clears the second one |
/// | moved | second gauge, with its own requests | both | clears the first one: only dead VMs' requests are left |
/// | back | first gauge, with its own requests | both | clears the second one |
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Stage(u32);

impl Stage {
    fn is_settled(self) -> bool {
        self.0.is_multiple_of(4)
    }

    fn side(self) -> Side {
        if self.0 % 4 == 2 { Side::Second } else { Side::First }
    }

    fn next(self) -> Self {
        Self(self.0.wrapping_add(1))
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Member {
    id: u64,
    stage: Stage,
    seen: Timestamp,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Table {
    stage: Stage,
    since: Timestamp,
    /// Whether another recount must follow.
    again: bool,
    members: Vec<Member>,
}

impl Table {
    fn decode(bytes: &[u8]) -> Self {
        let parse = || {
            let (head, members) = bytes.split_at_checked(HEAD_BYTES)?;
            let (members, []) = members.as_chunks::<MEMBER_BYTES>() else { return None };
            let member = |member: &[u8; MEMBER_BYTES]| {
                Some(Member {
                    id: u64::from_le_bytes(member.get(..8)?.try_into().ok()?),
                    stage: Stage(u32::from_le_bytes(member.get(8..12)?.try_into().ok()?)),
                    seen: Timestamp::from_nanos(u64::from_le_bytes(member.get(12..)?.try_into().ok()?)),
                })
            };
            Some(Self {
                stage: Stage(u32::from_le_bytes(head.get(..4)?.try_into().ok()?)),
                since: Timestamp::from_nanos(u64::from_le_bytes(head.get(4..12)?.try_into().ok()?)),
                again: *head.last()? != 0,
                members: members.iter().map(member).collect::<Option<_>>()?,
            })
        };
        parse().unwrap_or_default()
    }

    fn encode(&self, into: &mut Vec<u8>) {
        into.clear();
        into.extend(self.stage.0.to_le_bytes());
        into.extend(self.since.as_nanos().to_le_bytes());
        into.push(u8::from(self.again));
        for member in &self.members {
            into.extend(member.id.to_le_bytes());
            into.extend(member.stage.0.to_le_bytes());
            into.extend(member.seen.as_nanos().to_le_bytes());
        }
    }

    fn all_are_here(&self) -> bool {
        self.members.iter().all(|member| member.stage == self.stage)
    }

    fn go_to(&mut self, stage: Stage, now: Timestamp) {
        (self.stage, self.since) = (stage, now);
    }

    /// During a recount, drops members that have not looked for [`WORKER_TIMEOUT`], from
    /// `running_since` on.
    fn drop_the_dead(&mut self, vm: u64, running_since: Timestamp, now: Timestamp) {
        if self.stage.is_settled() {
            return;
        }
        let (before, from) = (self.members.len(), self.since.max(running_since));
        self.members.retain(|member| member.id == vm || now.since(member.seen.max(from)) <= WORKER_TIMEOUT);
        // In stage "both" no requests have moved, so this recount already clears those of the dead.
        self.again |= self.members.len() != before && self.stage.0 % 4 != 1;
    }
}

fn key(service: &str) -> String {
    format!("bloc/count/{service}")
}

/// Removes a VM that has [taken back](Own::take_back) its requests.
pub fn resign(shared: &impl Shared, service: &str, vm: u64) {
    let (key, mut new) = (key(service), Vec::new());
    for _ in 0..TRIES {
        let (Some(bytes), cas) = shared.get(&key) else { return };
        let mut table = Table::decode(&bytes);
        table.members.retain(|member| member.id != vm);
        table.encode(&mut new);
        if shared.set(&key, &new, cas) {
            return;
        }
    }
}

/// Requests of a service in flight over all threads, for a thread outside the count.
pub fn in_flight(shared: &impl Shared, service: &str, gauges: &impl Gauges) -> Concurrency {
    let table = shared.get(&key(service)).0.map_or_else(Table::default, |bytes| Table::decode(&bytes));
    read(gauges, table.stage)
}

fn read(gauges: &impl Gauges, stage: Stage) -> Concurrency {
    let mut sum = gauges.get(Side::First);
    if !stage.is_settled() {
        // The first gauge is read again, because another thread may move requests back to it in
        // between. Requests that come and go between the calls may be missed.
        let second = gauges.get(Side::Second);
        sum = sum.max(gauges.get(Side::First)).saturating_add(second);
    }
    Concurrency::new(u32::try_from(sum.max(0)).unwrap_or(u32::MAX))
}

/// One thread's view of the count of one service.
pub struct Count {
    key: String,
    vm: u64,
    own: Own,
    stage: Stage,
    stalls: StallDetector,
    next: Timestamp,
    joined: bool,
    /// Until then it looks often, because a dropped member may come back. Otherwise, threads that
    /// no message reaches would drop each other in turn.
    attentive: Timestamp,
    bytes: Vec<u8>,
}

impl Count {
    /// The count of a service, as seen by the VM with this number.
    pub fn new(service: &str, vm: u64) -> Self {
        Self {
            key: key(service),
            vm,
            own: Own::default(),
            stage: Stage::default(),
            stalls: StallDetector::default(),
            next: Timestamp::ZERO,
            joined: false,
            attentive: Timestamp::ZERO,
            bytes: Vec::new(),
        }
    }

    /// What this thread has added to the gauges.
    pub fn own(&self) -> Own {
        self.own.clone()
    }

    /// A request has come (1) or gone (-1).
    pub fn add(&self, gauges: &impl Gauges, offset: i64) {
        let (own, side) = self.own.0.get();
        self.own.0.set((own.saturating_add(offset), side));
        gauges.add(side, offset);
    }

    /// Requests in flight over all threads.
    pub fn get(&self, gauges: &impl Gauges) -> Concurrency {
        read(gauges, self.stage)
    }

    /// Whether a recount requires this thread to look a few times a second.
    pub fn needs_looks(&self, now: Timestamp) -> bool {
        !self.stage.is_settled() || now < self.attentive
    }

    /// [Looks](Self::look) if it is time.
    pub fn tick(&mut self, shared: &impl Shared, gauges: &impl Gauges, now: Timestamp) -> Vec<u64> {
        if now < self.next { Vec::new() } else { self.look(shared, gauges, now) }
    }

    /// Gives a sign of life and takes the steps of the stage. Returns the VMs that must look.
    pub fn look(&mut self, shared: &impl Shared, gauges: &impl Gauges, now: Timestamp) -> Vec<u64> {
        let mut others = self.steps(shared, gauges, now);
        self.next = now.after(if self.needs_looks(now) { LOOK_WHILE_COUNTING } else { LOOK });
        others.sort_unstable();
        others.dedup();
        others
    }

    fn steps(&mut self, shared: &impl Shared, gauges: &impl Gauges, now: Timestamp) -> Vec<u64> {
        let running_since = self.stalls.look(now);
        let mut others = Vec::new();
        for _ in 0..TRIES {
            let (bytes, cas) = shared.get(&self.key);
            let before = bytes.map_or_else(Table::default, |bytes| Table::decode(&bytes));
            let mut table = before.clone();
            // The shared bytes may be corrupt: nothing may wait for a time far in the future.
            table.since = table.since.min(now);
            table.members.iter_mut().for_each(|member| member.seen = member.seen.min(now));
            if !self.take_part(&mut table, gauges, now) {
                return others;
            }
            self.begin(&mut table, gauges, now);
            table.drop_the_dead(self.vm, running_since, now);
            let first = table.members.first().is_some_and(|first| first.id == self.vm);
            if !table.stage.is_settled() && first && table.all_are_here() {
                // Harmless to repeat: the others wait for this thread.
                gauges.clear(table.stage.side().other());
                table.go_to(table.stage.next(), now);
            }
            table.encode(&mut self.bytes);
            if !shared.set(&self.key, &self.bytes, cas) {
                continue;
            }
            let known = before.members.iter().any(|member| member.id == self.vm);
            let kept = |member: &Member| table.members.iter().any(|kept| kept.id == member.id);
            let dropped = !before.members.iter().all(kept);
            if dropped || self.joined && !known {
                self.attentive = now.after(LOOK_DEADLINE);
            }
            self.joined = true;
            if table.stage != before.stage || dropped {
                // Dropped members too: one that was only stopped must join again.
                others.extend(before.members.iter().map(|member| member.id).filter(|id| *id != self.vm));
            }
            if table.stage == self.stage {
                if !table.stage.is_settled() && table.all_are_here() {
                    // This thread was the last to reach the stage, so the first member can go on.
                    others.extend(table.members.first().map(|first| first.id).filter(|id| *id != self.vm));
                }
                return others;
            }
        }
        others
    }

    /// Joins if necessary, and goes to the table's stage; false if the table is full.
    fn take_part(&mut self, table: &mut Table, gauges: &impl Gauges, now: Timestamp) -> bool {
        if !table.members.iter().any(|member| member.id == self.vm) {
            if table.members.len() >= MAX_MEMBERS {
                return false;
            }
            table.members.push(Member { id: self.vm, stage: table.stage, seen: now });
            // It may replace a dead VM, or have been dropped itself.
            table.again = true;
        }
        // Before the others see it: then they may clear the gauge that held its requests.
        self.move_to(table.stage, gauges);
        if let Some(own) = table.members.iter_mut().find(|member| member.id == self.vm) {
            (own.stage, own.seen) = (table.stage, now);
        }
        true
    }

    fn move_to(&mut self, stage: Stage, gauges: &impl Gauges) {
        let (own, from) = self.own.0.get();
        let to = stage.side();
        if from != to {
            // For a moment the requests count twice rather than not at all.
            gauges.add(to, own);
            gauges.add(from, -own);
            self.own.0.set((own, to));
        }
        self.stage = stage;
    }

    fn begin(&self, table: &mut Table, gauges: &impl Gauges, now: Timestamp) {
        if !table.stage.is_settled() {
            return;
        }
        let overdue = table.members.iter().any(|member| now.since(member.seen) > LOOK_DEADLINE);
        let (own, all) = (self.own.0.get().0, gauges.get(Side::First));
        let wrong = all < own && now.since(table.since) > PAUSE;
        if table.again || overdue || wrong || now.since(table.since) > PERIOD {
            table.again = false;
            let nothing = own == 0 && all == 0 && !overdue;
            let stage = if nothing { table.stage } else { table.stage.next() };
            table.go_to(stage, now);
            // No requests move on entering this stage, so this thread has already reached it.
            if let Some(own) = table.members.iter_mut().find(|member| member.id == self.vm) {
                own.stage = stage;
            }
        }
    }
}

#[cfg(test)]
mod tests;
