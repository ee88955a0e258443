//! What each answer does to its server: one row each.

use super::Answer;

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
