//! The life of an attempt at a server.

use super::answer::{Effect, Heard, Leaves, Reopens};
use super::endpoint::Shut;
use super::shut::silence;
use super::{Answer, EndpointId, Endpoints, Permit};
use crate::units::Timestamp;
use std::time::Duration;

/// A failure is a timeout if the server was silent for this fraction of a reset interval.
const SILENT: u32 = 4;
/// Chips of one server that a sender keeps at most.
pub(super) const MAX_CHIPS: u32 = 10;

impl Endpoints {
    /// Begins an attempt to this server, which counts as pending. Spends a chip, or else sets the
    /// last event to now.
    pub fn begin(&mut self, id: EndpointId, now: Timestamp) -> Option<Permit> {
        self.requalify(now);
        let endpoint = self.table.get_mut(id)?;
        endpoint.pending += 1;
        if endpoint.unheard == 0 {
            endpoint.unheard_since = now;
        }
        endpoint.unheard = endpoint.unheard.saturating_add(1);
        let asked = now.after(silence(endpoint.unheard, self.reset_interval));
        if let Some(shut) = &mut endpoint.shut {
            *shut = Shut { until: asked.after(self.reset_interval), is_probed: true };
        }
        self.note(id);
        let endpoint = self.table.get_mut(id)?;
        let permit = if endpoint.chips > 0 {
            endpoint.chips -= 1;
            Permit::Chip
        } else {
            let permit = if endpoint.qualified.is_some() { Permit::Probe } else { Permit::Forced };
            self.restart(id, asked);
            permit
        };
        self.settle(id, now);
        Some(permit)
    }

    /// The attempt ended, so it no longer counts as pending.
    pub fn end(&mut self, id: EndpointId) {
        if let Some(endpoint) = self.table.get_mut(id) {
            endpoint.pending = endpoint.pending.saturating_sub(1);
            self.note(id);
        }
    }

    /// An attempt that had ended counts as pending again.
    pub fn resume(&mut self, id: EndpointId) {
        if let Some(endpoint) = self.table.get_mut(id) {
            endpoint.pending += 1;
            self.note(id);
        }
    }

    /// Counts no attempt as pending: those under way belong to another sender.
    pub fn none_pending(&mut self) {
        for place in 0..self.all.len() {
            let Some(id) = self.at(place) else { return };
            if let Some(endpoint) = self.table.get_mut(id) {
                endpoint.pending = 0;
            }
            self.note(id);
        }
    }

    /// Records the answer to an attempt with this `permit`. Its [`end`](Self::end) is a separate
    /// event, because the body of the answer is still to come.
    pub fn answer(&mut self, id: EndpointId, permit: Permit, answer: Answer, now: Timestamp) {
        self.answer_after(id, permit, answer, Duration::MAX, now);
    }

    /// The same for an attempt that `took` this long. One that fails at once has not timed out,
    /// however long the server was silent. [`Effect`] has the table of effects.
    pub fn answer_after(&mut self, id: EndpointId, permit: Permit, answer: Answer, took: Duration, now: Timestamp) {
        let Some(endpoint) = self.table.get_mut(id) else { return };
        // The server has been silent since its pending attempts began, or since its last answer if
        // one of them began before it. A caller that gives up within a reset interval, or while a
        // stream is open, proves nothing; a timeout does.
        let no_others = endpoint.unheard >= endpoint.pending;
        let silent = now.since(if no_others { endpoint.unheard_since } else { endpoint.heard });
        let hangs = answer == Answer::GivenUp && no_others && silent >= self.reset_interval;
        let times_out = answer == Answer::Failed && silent.min(took) >= self.reset_interval / SILENT;
        let effect = Effect::of(&answer, hangs || endpoint.tally(&answer, &mut self.peers));
        if effect.heard == Heard::Application {
            endpoint.heard = now;
        }
        if effect.heard != Heard::Nobody {
            endpoint.unheard = 0;
            self.restart(id, now);
        }
        let granted = self.keep_report(id, &answer, now);
        let Some(endpoint) = self.table.get(id) else { return };
        let is_probed = endpoint.shut.is_some_and(|shut| shut.is_probed);
        let reopens = match effect.reopens {
            Reopens::No => false,
            Reopens::Probed => is_probed,
            Reopens::ProbedOrGranted => is_probed || granted,
        };
        if reopens {
            self.reopen(id);
        }
        let Some(endpoint) = self.table.get_mut(id) else { return };
        if effect.serves {
            (endpoint.struck_before, endpoint.strikes) = (endpoint.strikes, 0);
        }
        endpoint.settle_chips(effect.chips, permit, granted, MAX_CHIPS);
        match effect.leaves {
            Leaves::No => {}
            Leaves::Shut => self.shut(id, now),
            Leaves::Fails => self.fails(id, times_out, now),
            Leaves::Hangs => self.hangs(id, now),
            Leaves::Errs => return self.erred(id, false, now),
        }
        self.note(id);
        self.settle(id, now);
    }

    /// Stores the report in an answer. Returns whether the answer grants a chip, as one without a
    /// report does.
    pub(super) fn keep_report(&mut self, id: EndpointId, answer: &Answer, now: Timestamp) -> bool {
        let longest = self.reset_interval;
        let Some(endpoint) = self.table.get_mut(id) else { return false };
        if let Some(report) = answer.report() {
            (endpoint.report, endpoint.reported) = (*report, now);
        }
        if let Answer::Bounced(report) | Answer::RejectedForDeadline(report) = answer {
            endpoint.bounced_until = now.after(report.execution.unwrap_or_default().min(longest));
        }
        if matches!(answer, Answer::Unreported | Answer::Erred(None) | Answer::ClientError(None)) {
            // A server that was rolled back cannot read a bid that states the fleet's execution
            // time.
            endpoint.report.fleet = false;
        }
        answer.report().is_none_or(|report| report.chip)
    }
}
