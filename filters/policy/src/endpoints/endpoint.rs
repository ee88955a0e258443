//! One server, as a sender sees it.

use super::answer::Chips;
use super::{Answer, Permit};
use crate::endpoints::failures::{Failures, Peers};
use crate::units::Timestamp;
use crate::wire::load_report::LoadReport;
use slotmap::new_key_type;

/// The weight of the newest answer without a report.
pub(super) const TOOK_WEIGHT: f64 = 0.1;
/// So many requests explore one server at a time.
const MOST_EXPLORING: u32 = 4;

new_key_type! {
    /// Identifies an endpoint of one [`Endpoints`] as long as it exists; never reused for another.
    pub struct EndpointId;
}

/// One server as this sender sees it.
#[derive(Clone, Debug)]
pub struct Endpoint {
    pub(super) address: Box<str>,
    pub(super) chips: u32,
    /// Chips that failures have cost it, or that it lacks as a newcomer: it earns them twice as
    /// fast.
    pub(super) owed: u32,
    pub(super) last_event: Timestamp,
    pub(super) pending: u32,
    /// Attempts that have begun since the server was last heard, and when the first of them did.
    pub(super) unheard: u32,
    pub(super) unheard_since: Timestamp,
    /// When its application last answered.
    pub(super) heard: Timestamp,
    /// Failures that count, one after the other, since it served last, and when the last one was.
    pub(super) strikes: u32,
    /// How many these were when it served last.
    pub(super) struck_before: u32,
    pub(super) struck: Timestamp,
    /// `explored` at the last [`super::Endpoints::meet`].
    pub(super) met: u64,
    /// The number of the last list in which it was the first.
    pub(super) chosen: u64,
    /// How long its answers without a report took, smoothed, in seconds.
    pub(super) took: Option<f64>,
    pub(super) report: LoadReport,
    pub(super) reported: Timestamp,
    /// Until when it counts as one that has just bounced.
    pub(super) bounced_until: Timestamp,
    pub(super) failures: Failures,
    /// Errors of clients.
    pub(super) client_errors: Failures,
    /// None: it is not shut.
    pub(super) shut: Option<Shut>,
    /// Whether it is in `Endpoints::changed`.
    pub(super) has_changed: bool,
    /// Its index in `Endpoints::all`.
    pub(super) place: usize,
    /// Its index in `Endpoints::qualified`, if it qualifies.
    pub(super) qualified: Option<usize>,
}

impl Endpoint {
    /// Its address, `ip:port`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// Chips that this sender holds for it.
    pub fn chips(&self) -> u32 {
        self.chips
    }

    /// Takes up to so many chips from it, which it can earn back soon.
    pub(super) fn lose(&mut self, chips: u32) {
        let lost = chips.min(self.chips);
        self.chips -= lost;
        self.owed += lost;
    }

    /// Counts an answer among its failures. Returns whether it counts against it.
    pub(super) fn tally(&mut self, answer: &Answer, peers: &mut Compared) -> bool {
        match answer {
            Answer::Failed => self.failures.failed(&mut peers.failures),
            Answer::ClientError(_) => {
                self.failures.served(&mut peers.failures);
                self.client_errors.mostly_failed(&mut peers.client_errors)
            }
            Answer::Served(_) | Answer::Orca(_) | Answer::Unreported => {
                self.failures.served(&mut peers.failures);
                self.client_errors.served(&mut peers.client_errors);
                false
            }
            _ => false,
        }
    }

    /// What becomes of its chips after an attempt by this `permit`, at most `most` of which count.
    /// `granted`: whether the answer grants one.
    pub(super) fn settle_chips(&mut self, chips: Chips, permit: Permit, granted: bool, most: u32) {
        let spent = permit == Permit::Chip;
        // A server that has been shut since gets no chip back.
        let returned = spent && self.shut.is_none();
        let (gained, paid, lost) = match chips {
            Chips::Earned if granted => (1 + self.owed.min(1), self.owed.min(1), false),
            Chips::Granted if granted => (1, 0, false),
            Chips::Returned if returned => (1, 0, false),
            Chips::ReturnedOrOwed if returned => (1, 0, false),
            Chips::ReturnedOrOwed | Chips::Owed => (0, 0, spent),
            Chips::Earned | Chips::Granted | Chips::Returned | Chips::Kept => (0, 0, false),
            Chips::Lost => {
                (self.chips, self.owed) = (0, 0);
                (0, 0, false)
            }
        };
        self.owed = (self.owed + u32::from(lost) - paid).min(most);
        self.chips = (self.chips + gained).min(most);
    }

    /// Whether it bounced an attempt of this sender less than one of its execution times ago.
    pub fn has_just_bounced(&self, now: Timestamp) -> bool {
        now < self.bounced_until
    }

    /// Attempts of this sender that are still under way there.
    pub fn pending(&self) -> u32 {
        self.pending
    }

    /// How long it takes for a request, in seconds, by its report, or, without one, by its answers.
    pub fn answers_after(&self) -> Option<f64> {
        self.report.execution.map(|execution| execution.as_secs_f64()).or(self.took)
    }

    /// Whether it was not first in the last `long` of so many lists, although it is not shut, and
    /// has few requests of this sender.
    pub fn is_starved(&self, lists: u64, long: u64) -> bool {
        self.shut.is_none() && self.pending < MOST_EXPLORING && lists.saturating_sub(self.chosen) > long
    }

    /// Its place among the endpoints. A draw may change it.
    pub(crate) fn place(&self) -> usize {
        self.place
    }

    /// Until when it is shut, if it is.
    pub(crate) fn shut_until(&self) -> Option<Timestamp> {
        self.shut.map(|shut| shut.until)
    }

    /// Whether it rejected or failed when it was asked last, as far as that counts.
    pub fn is_shut(&self) -> bool {
        self.shut.is_some()
    }

    /// Its last report; empty before the first.
    pub fn report(&self) -> &LoadReport {
        &self.report
    }
}

/// What the servers are compared with.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Compared {
    pub(super) failures: Peers,
    pub(super) client_errors: Peers,
}

/// The state of a shut server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shut {
    /// Until when it is left out.
    pub(super) until: Timestamp,
    /// Whether an attempt probes it.
    pub(super) is_probed: bool,
}
