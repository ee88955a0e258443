//! One server, as a sender sees it.

use super::answer::Chips;
use super::{Answer, Permit};
use crate::endpoints::failures::{Failures, Peers};
use crate::units::Timestamp;
use crate::wire::load_report::LoadReport;
use slotmap::new_key_type;

/// The weight of the newest answer without a report.
pub(super) const TOOK_WEIGHT: f64 = 0.1;
/// At most this many requests explore one server at a time.
const MOST_EXPLORING: u32 = 4;

new_key_type! {
    /// Identifies an endpoint of one [`Endpoints`]; never reused.
    pub struct EndpointId;
}

/// One server as this sender sees it.
#[derive(Clone, Debug)]
pub struct Endpoint {
    pub(super) address: Box<str>,
    pub(super) chips: u32,
    /// Chips that failures cost it, or that it lacks as a newcomer. It earns them twice as fast.
    pub(super) owed: u32,
    pub(super) last_event: Timestamp,
    pub(super) pending: u32,
    /// Attempts begun since the server was last heard from, and when the first of them began.
    pub(super) unheard: u32,
    pub(super) unheard_since: Timestamp,
    /// When the application last answered.
    pub(super) heard: Timestamp,
    /// Consecutive failures that count since it last served, and the time of the last one.
    pub(super) strikes: u32,
    /// `strikes` when it last served.
    pub(super) struck_before: u32,
    pub(super) struck: Timestamp,
    /// `explored` at the last [`super::Endpoints::meet`].
    pub(super) seen: u64,
    /// The number of the last list that it was first in.
    pub(super) chosen: u64,
    /// The smoothed time of its answers without a report, in seconds.
    pub(super) took: Option<f64>,
    pub(super) report: LoadReport,
    pub(super) reported: Timestamp,
    /// Until then it counts as having just bounced.
    pub(super) bounced_until: Timestamp,
    pub(super) failures: Failures,
    pub(super) client_errors: Failures,
    /// None: not shut.
    pub(super) shut: Option<Shut>,
    pub(super) has_changed: bool,
    /// Its index in `Endpoints::all`.
    pub(super) place: usize,
    /// Its index in `Endpoints::qualified`.
    pub(super) qualified: Option<usize>,
}

impl Endpoint {
    /// Its address, `ip:port`.
    pub fn address(&self) -> &str {
        &self.address
    }

    /// This sender's chips for it.
    pub fn chips(&self) -> u32 {
        self.chips
    }

    /// Takes up to this many chips from it, which become owed.
    pub(super) fn lose(&mut self, chips: u32) {
        let lost = chips.min(self.chips);
        self.chips -= lost;
        self.owed += lost;
    }

    /// Records an answer in its failure statistics. Returns whether it counts against the server.
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

    /// Updates its chips after an attempt with this `permit`. `granted`: whether the answer grants
    /// a chip; `most`: the maximum of chips.
    pub(super) fn settle_chips(&mut self, chips: Chips, permit: Permit, granted: bool, most: u32) {
        let spent = permit == Permit::Chip;
        // A server that was shut meanwhile gets no chip back.
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

    /// Whether it bounced an attempt of this sender within one of its execution times.
    pub fn has_just_bounced(&self, now: Timestamp) -> bool {
        now < self.bounced_until
    }

    /// Attempts of this sender under way there.
    pub fn pending(&self) -> u32 {
        self.pending
    }

    /// Its execution time in seconds, from its report, or else the time of its answers.
    pub fn answers_after(&self) -> Option<f64> {
        self.report.execution.map(|execution| execution.as_secs_f64()).or(self.took)
    }

    /// Whether it was not first in any of the last `long` of `lists` lists, although it is open and
    /// has few requests of this sender.
    pub fn is_starved(&self, lists: u64, long: u64) -> bool {
        self.shut.is_none() && self.pending < MOST_EXPLORING && lists.saturating_sub(self.chosen) > long
    }

    /// Its place among the endpoints, which a draw may change.
    pub(crate) fn place(&self) -> usize {
        self.place
    }

    /// Until when it is shut, if it is.
    pub(crate) fn shut_until(&self) -> Option<Timestamp> {
        self.shut.map(|shut| shut.until)
    }

    /// Whether it is left out, after a rejection or a failure that counted.
    pub fn is_shut(&self) -> bool {
        self.shut.is_some()
    }

    /// Its last report; empty before the first.
    pub fn report(&self) -> &LoadReport {
        &self.report
    }
}

/// What each server is compared with.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Compared {
    pub(super) failures: Peers,
    pub(super) client_errors: Peers,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shut {
    pub(super) until: Timestamp,
    pub(super) is_probed: bool,
}
