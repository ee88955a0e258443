//! An attempt that its server has not finished.

use crate::cluster::{Cluster, Sent};
use crate::clusters::Shared;
use crate::crash;
use crate::host::Host;
use crate::streams::AnswerId;
use crate::vm::Vm;
use bloc_policy::endpoints::{Answer, EndpointId};
use bloc_policy::sender;
use bloc_policy::units::Timestamp;
use bloc_policy::wire::reason::Reason;
use std::rc::Rc;

/// An attempt that its server has not finished. Dropping it ends it; without an answer it has
/// failed.
pub struct UnderWay<H: Host> {
    pub vm: Rc<Vm<H>>,
    pub cluster: Shared<H>,
    pub attempt: sender::Attempt,
    pub answered: bool,
    /// Nobody waits for its answer any longer.
    pub given_up: bool,
    /// Whether its answer is an error, according to its headers.
    pub erred: bool,
    /// Its entry among the answers that have begun.
    pub answer: Option<AnswerId>,
}

/// Counts how an attempt was answered.
pub fn count<H: Host>(cluster: &mut Cluster<H>, answer: &Answer) {
    let counted = match answer {
        Answer::Rejected(_) | Answer::RejectedForDeadline(_) => Sent::Rejections,
        Answer::Bounced(_) => Sent::Bounces,
        Answer::Failed => Sent::Failures,
        Answer::GivenUp => Sent::GivenUp,
        Answer::Erred(_) => Sent::Errors,
        Answer::Served(_) | Answer::Orca(_) | Answer::Unreported | Answer::ClientError(_) => return,
    };
    cluster.counters.count(counted);
}

impl<H: Host> UnderWay<H> {
    /// Records its answer, or that there is none. `why`: the reason of a rejection.
    pub fn answer(&mut self, answer: Answer, why: Option<Reason>, now: Timestamp) {
        self.answered = true;
        let mut cluster = self.cluster.borrow_mut();
        count(&mut cluster, &answer);
        self.erred |= matches!(answer, Answer::Erred(_));
        cluster.sender.answer(&self.attempt, answer, now);
        if why == Some(Reason::Capacity) {
            cluster.sender.refused_as_full();
        }
    }
}

impl<H: Host> Drop for UnderWay<H> {
    fn drop(&mut self) {
        crash::point(&self.vm.host, "attempt.done");
        if !self.answered {
            let now = self.vm.host.now();
            self.answer(if self.given_up { Answer::GivenUp } else { Answer::Failed }, None, now);
        }
        if self.answer.is_none_or(|answer| self.vm.streams.end(answer)) {
            self.cluster.borrow_mut().sender.end(&self.attempt);
        }
    }
}

/// Whether this server has this address.
pub fn is_at<H: Host>(cluster: &Shared<H>, server: EndpointId, address: &[u8]) -> bool {
    let cluster = cluster.borrow();
    cluster.sender.endpoints().get(server).is_some_and(|server| server.address().as_bytes() == address)
}
