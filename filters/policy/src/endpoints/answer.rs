//! Why an attempt may go to a server, how it was answered, and the effect of each answer.

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

/// How an attempt ended, as far as its endpoint is concerned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Answer {
    /// The application answered, with this report.
    Served(LoadReport),
    /// The server rejected the request, with this report.
    Rejected(LoadReport),
    /// The server bounced the request because it would have exceeded its bid, with this report.
    Bounced(LoadReport),
    /// The application answered, and the server sends no reports. Counts as a chip.
    Unreported,
    /// The application answered, and the server sends only [ORCA](crate::wire::orca) reports.
    /// Counts as a chip, and the report is used.
    Orca(LoadReport),
    /// The server rejected the request because it would have missed its deadline, with this report.
    RejectedForDeadline(LoadReport),
    /// The application answered with an error, with this report if the server sends BLOC reports.
    Erred(Option<LoadReport>),
    /// The application answered with an error of the client (4xx, or another gRPC status), with
    /// this report if the server sends BLOC reports.
    ClientError(Option<LoadReport>),
    /// No connection, a reset by the server, or a timeout.
    Failed,
    /// The caller gave up.
    GivenUp,
}

impl Answer {
    /// The report in the answer.
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

/// Who gave a sign of life by answering.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    Nobody,
    /// Its sidecar, which also answers while the application hangs.
    Sidecar,
    Application,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Chips {
    /// One more, if the report grants it or there is none, and one of those owed.
    Earned,
    /// The same, without those owed.
    Granted,
    /// The spent chip comes back: the server has room, but not for this request.
    Returned,
    /// The same, or it becomes owed if it cannot come back.
    ReturnedOrOwed,
    /// The spent chip is gone.
    Kept,
    /// The spent chip becomes owed.
    Owed,
    /// All are gone.
    Lost,
}

/// When an answer reopens a shut server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reopens {
    No,
    /// If the attempt was a probe.
    Probed,
    /// If the attempt was a probe, or the answer grants a chip.
    ProbedOrGranted,
}

/// Whether the server is left alone from now on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Leaves {
    No,
    /// For a reset interval.
    Shut,
    /// Longer, if it fails repeatedly.
    Fails,
    /// Longer, the more attempts are unanswered.
    Hangs,
    /// If errors count against it, which is decided later.
    Errs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Effect {
    pub heard: Heard,
    pub chips: Chips,
    pub reopens: Reopens,
    /// Whether it ends a series of failures.
    pub serves: bool,
    pub leaves: Leaves,
}

impl Effect {
    /// `against`: the failure counts against its server; or, after the caller gave up, the server
    /// hangs.
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
