//! One server, as a sender sees it.

use crate::bid::Promises;
use crate::estimate::Estimate;
use crate::failures::Failures;
use crate::units::Timestamp;
use crate::wire::load_report::LoadReport;
use slotmap::new_key_type;

new_key_type! {
    /// Names an endpoint of one [`Endpoints`] for as long as it is there; never used again for
    /// another.
    pub struct EndpointId;
}

/// One server as this sender sees it.
#[derive(Clone, Debug)]
pub struct Endpoint {
    pub(super) address: Box<str>,
    pub(super) chips: u32,
    pub(super) clock: Timestamp,
    pub(super) pending: u32,
    /// Attempts that have begun since it was heard last, and when the first of them did.
    pub(super) unheard: u32,
    pub(super) owes_since: Timestamp,
    /// When it was met last, as [`Endpoints::meet`] was told.
    pub(super) met: u64,
    pub(super) report: LoadReport,
    pub(super) estimate: Estimate,
    pub(super) promises: Promises,
    pub(super) failures: Failures,
    /// None: it is not shut.
    pub(super) shut: Option<Shut>,
    /// Where it stands in `Endpoints::all`.
    pub(super) place: usize,
    /// Where it stands in `Endpoints::qualified`, if it does.
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

    /// Attempts of this sender that it has not finished.
    pub fn pending(&self) -> u32 {
        self.pending
    }

    /// What this sender believes about its queue and service rate.
    pub fn estimate(&self) -> &Estimate {
        &self.estimate
    }

    /// Whether its taking a request for a bid means anything.
    pub fn promises(&self) -> &Promises {
        &self.promises
    }

    /// Whether it rejected or failed when it was asked last, as far as that counts.
    pub fn is_shut(&self) -> bool {
        self.shut.is_some()
    }

    /// What it said last; empty if it has not spoken yet.
    pub fn report(&self) -> &LoadReport {
        &self.report
    }
}

/// That a server is shut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shut {
    /// Until when it is left out.
    pub(super) until: Timestamp,
    /// Whether an attempt probes it.
    pub(super) is_probed: bool,
}
