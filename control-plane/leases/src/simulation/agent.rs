//! A node and its agent, wired like the real agent.

use crate::{Asks, Holder, Part, Tolds};
use fastrand::Rng;
use std::collections::BTreeMap;
use std::time::Duration;

pub const APP: &str = "shop/checkout";

/// What is on disk as of the last fsync.
#[derive(Clone, Default)]
struct Disk {
    life: u64,
    parts: BTreeMap<String, Part>,
}

pub struct Node {
    pub name: String,
    pub exists: bool,
    pub deleted_at: Duration,
    /// None: the agent is down.
    pub holder: Option<Holder>,
    pub starts_at: Duration,
    pub asks_at: Duration,
    disk: Disk,
    /// What reaches the disk too late.
    unsaved: Disk,
    /// The error of the clock in milliseconds.
    clock: i64,
    /// What the containers may use: the quotas, which stay when the agent is down.
    pub uses: Part,
    /// None: the node has no container of the application.
    pub need: Option<(Part, Part)>,
    /// The chance, in percent, that the containers do not give up what they should.
    pub clings: u8,
}

impl Node {
    pub fn new(number: usize) -> Self {
        Self {
            name: format!("n{number}"),
            exists: true,
            deleted_at: Duration::ZERO,
            holder: None,
            starts_at: Duration::ZERO,
            asks_at: Duration::ZERO,
            disk: Disk::default(),
            unsaved: Disk::default(),
            clock: 0,
            uses: Part::ZERO,
            need: None,
            clings: 0,
        }
    }

    /// Its minimum, and what it wants.
    pub fn needs(&self) -> (Part, Part) {
        self.need.unwrap_or_default()
    }

    pub fn start(&mut self, now: Duration) {
        let clock = (1_000_000 + now.as_millis() as i64 + self.clock) as u64;
        self.disk.life = clock.max(self.disk.life + 1);
        self.holder = Some(Holder::new(self.disk.life, self.disk.parts.clone()));
    }

    pub fn crash(&mut self, now: Duration, rng: &mut Rng) {
        self.holder = None;
        self.starts_at = now + Duration::from_millis(rng.u64(100..8_000));
        if rng.u8(0..3) == 0 {
            self.clock -= rng.i64(0..20_000);
        }
        if rng.u8(0..3) == 0 {
            (self.disk, self.unsaved) = (Disk::default(), Disk::default());
            // Replacing a disk takes longer than any request.
            self.starts_at = now + Duration::from_millis(rng.u64(6_000..12_000));
        }
    }

    /// Called every 100 ms.
    pub fn step(&mut self, rng: &mut Rng, says_before: bool) {
        let least = self.needs().0;
        let Some(holder) = &mut self.holder else { return };
        let lease = holder.lease(APP);
        let allowed = match self.need {
            // The node left the application: the containers are gone.
            None => Part::ZERO,
            // After losing its disk, the agent leaves quotas alone until it hears what it holds.
            Some(_) if lease.part == Part::ZERO => self.uses,
            Some(_) => lease.part.min(lease.goal.max(least)),
        };
        if allowed >= self.uses {
            self.uses = allowed;
        } else if self.need.is_none() || rng.u8(0..100) >= self.clings {
            self.uses = Part::millionths(rng.u32(allowed.get()..=self.uses.get().min(allowed.get() + 50_000)));
        }
        if says_before && allowed < lease.part {
            holder.lower(APP, allowed);
        } else if self.uses < lease.part {
            holder.lower(APP, self.uses);
        }
    }

    /// Saves before it asks.
    pub fn ask(&mut self, saves: bool) -> Option<Asks> {
        let (least, wants) = self.needs();
        let holder = self.holder.as_ref()?;
        let disk = Disk { life: holder.life(), parts: holder.parts() };
        self.disk = if saves { disk } else { std::mem::replace(&mut self.unsaved, disk) };
        let apps = vec![holder.ask(APP, wants, least, None)];
        Some(Asks { node: self.name.clone(), life: holder.life(), apps })
    }

    pub fn receive(&mut self, tolds: &Tolds) {
        if let Some(holder) = &mut self.holder {
            tolds.apps.iter().for_each(|told| holder.receive(told));
        }
    }
}
