//! Why an attempt may go to a server, and how it ends.

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
