//! Why an attempt may go to a server, how it is answered, and what each answer does: one row each.

use crate::wire::load_report::LoadReport;

/// Why an attempt may go to an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permit {
    /// A chip was spent.
    Chip,
    /// Its reset interval has passed: a probe.
    Probe,
    /// No server qualified, and this one's interval ends first.
    Forced,
}

/// How an attempt ended, as far as the endpoint is concerned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Answer {
    /// The application answered, with this report.
    Served(LoadReport),
    /// The server rejected the request, with this report.
    Rejected(LoadReport),
    /// The server bounced the request because it would take longer than the bid, with this report.
    Bounced(LoadReport),
    /// The application answered, and the server sends no report: counts as a chip.
    Unreported,
    /// The application answered, and the server sends only [ORCA](crate::wire::orca) reports:
    /// counts as a chip, and its numbers count.
    Orca(LoadReport),
    /// The server rejected the request because it would miss its deadline, with this report.
    RejectedForDeadline(LoadReport),
    /// The application answered with an error, with this report if the server sends BLOC reports.
    Erred(Option<LoadReport>),
    /// The application answered with another error than those of a server (4xx, or another status
    /// over gRPC), with this report if the server sends BLOC reports.
    ClientError(Option<LoadReport>),
    /// There was no connection, the server reset it, or the answer took too long.
    Failed,
    /// The caller no longer wanted the answer.
    GivenUp,
}

impl Answer {
    /// The report that came with it.
    pub fn report(&self) -> Option<&LoadReport> {
        match self {
            Self::Served(report)
            | Self::Orca(report)
            | Self::Bounced(report)
            | Self::RejectedForDeadline(report)
            | Self::Rejected(report) => Some(report),
            Self::Erred(report) | Self::ClientError(report) => report.as_ref(),
            Self::Unreported | Self::Failed | Self::GivenUp => None,
        }
    }
}

/// Who has been heard by an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    Nobody,
    /// Its sidecar, which answers while the application hangs.
    Sidecar,
    Application,
}

/// What becomes of chips.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chips {
    /// One more, if the report says so or there is none; and one of those that are owed.
    Earned,
    /// The same, but none that is owed.
    Granted,
    /// What the attempt has spent comes back: the server has room, but not for this request.
    Returned,
    /// The same; it is owed if it cannot come back.
    ReturnedOrOwed,
    /// Nothing comes back.
    Kept,
    /// Nothing comes back, but what was spent is owed.
    Owed,
    /// All are gone.
    Lost,
}

/// When a shut server is open again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reopens {
    No,
    /// If the attempt was to find that out.
    Probed,
    /// The same, and if the answer grants a chip.
    ProbedOrGranted,
}

/// Whether the server is left alone from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaves {
    No,
    /// For a reset interval.
    Shut,
    /// For longer, if it fails again and again.
    Fails,
    /// For longer, the more attempts it owes an answer.
    Hangs,
    /// If errors count against it, which is still to be found out.
    Errs,
}

/// The effect of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Effect {
    pub heard: Heard,
    pub chips: Chips,
    pub reopens: Reopens,
    /// Whether the failures before it are no row any more.
    pub serves: bool,
    pub leaves: Leaves,
}

impl Effect {
    /// `against`: the answer is a failure that counts against its server, as others fail less; or,
    /// where the caller gave up, the server hangs.
    pub(super) fn of(answer: &Answer, against: bool) -> Self {
        let row = |heard, chips, reopens, serves, leaves| Self { heard, chips, reopens, serves, leaves };
        let (application, sidecar) = (Heard::Application, Heard::Sidecar);
        match (answer, against) {
            (Answer::Served(_) | Answer::Orca(_) | Answer::Unreported, _) => {
                row(application, Chips::Earned, Reopens::ProbedOrGranted, true, Leaves::No)
            }
            (Answer::Erred(_), _) => row(application, Chips::Granted, Reopens::No, false, Leaves::Errs),
            (Answer::ClientError(_), false) => row(application, Chips::Granted, Reopens::Probed, true, Leaves::No),
            (Answer::ClientError(_), true) => row(application, Chips::Kept, Reopens::No, false, Leaves::Shut),
            (Answer::Bounced(_) | Answer::RejectedForDeadline(_), _) => {
                row(sidecar, Chips::Returned, Reopens::Probed, false, Leaves::No)
            }
            (Answer::Rejected(_), _) => row(sidecar, Chips::Lost, Reopens::No, false, Leaves::Shut),
            (Answer::Failed, false) => row(sidecar, Chips::ReturnedOrOwed, Reopens::Probed, false, Leaves::No),
            (Answer::Failed, true) => row(sidecar, Chips::Owed, Reopens::No, false, Leaves::Fails),
            (Answer::GivenUp, false) => row(Heard::Nobody, Chips::ReturnedOrOwed, Reopens::No, false, Leaves::No),
            (Answer::GivenUp, true) => row(Heard::Nobody, Chips::Owed, Reopens::No, false, Leaves::Hangs),
        }
    }
}
