//! Whether a sender has the servers of a service to itself.
//!
//! A report says how many requests are in the server besides the one answered. Those that this
//! sender does not have there are other callers', with these filters or without. A sender is
//! *alone* while the mean of theirs is at most a tenth of the mean of its own. The weight of the
//! newest report is 2%.
//!
//! Who is alone knows all queues: what it has pending is what is in the servers. An equal second
//! sender ends that within some six reports, and when it leaves, the first one is alone again after
//! some hundred. Cold start: as if somebody else had a request. It takes 63 reports to say the
//! contrary where four own requests are in the server besides the one answered, and 119 where one
//! is. Where none ever is, because the sender has one request at a time, it is never alone. A few
//! callers beside much own traffic do not matter.
//!
//! Cost: a few additions an answer. Not in the papers.

/// The weight of the newest report.
const WEIGHT: f64 = 0.02;
/// Up to this share of its own requests, those of others do not matter.
const SHARE: f64 = 0.1;

/// What the reports say of other callers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Company {
    /// Smoothed means of what was in a server when it reported, in requests.
    own: f64,
    others: f64,
}

impl Default for Company {
    fn default() -> Self {
        Self { own: 0.0, others: 1.0 }
    }
}

impl Company {
    /// A server has `queue` requests, and this sender knows of `own` there.
    pub fn hear(&mut self, queue: u32, own: u32) {
        self.own += WEIGHT * (f64::from(own) - self.own);
        self.others += WEIGHT * (f64::from(queue.saturating_sub(own)) - self.others);
    }

    /// Whether this sender is alone, or nearly so.
    pub fn is_none(&self) -> bool {
        self.others <= SHARE * self.own
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After so many reports of this queue, `own` of which is this sender's.
    fn after(mut company: Company, reports: usize, queue: u32, own: u32) -> Company {
        (0..reports).for_each(|_| company.hear(queue, own));
        company
    }

    /// How many such reports it takes until a sender is alone, or not any more.
    fn takes(company: Company, queue: u32, own: u32) -> Option<usize> {
        (0..10_000).find(|reports| after(company, *reports, queue, own).is_none() != company.is_none())
    }

    #[test]
    fn a_sender_is_alone_when_some_reports_knew_of_nobody_else() {
        assert!(!Company::default().is_none());
        assert_eq!(takes(Company::default(), 4, 4), Some(63));
        assert_eq!(takes(Company::default(), 3, 4), Some(63), "an answer is on its way");
        assert_eq!(takes(Company::default(), 1, 1), Some(119));
        assert_eq!(takes(Company::default(), 0, 0), None, "one request at a time says nothing");
    }

    #[test]
    fn an_equal_second_sender_ends_that_at_once_and_its_end_is_noticed() {
        let alone = after(Company::default(), 1_000, 4, 4);
        assert_eq!(takes(alone, 8, 4), Some(6));
        assert_eq!(takes(after(alone, 1_000, 8, 4), 4, 4), Some(114));
    }

    #[test]
    fn a_tenth_of_its_own_does_not_matter() {
        let nearly = after(Company::default(), 1_000, 11, 10);
        assert!((nearly.others - 1.0).abs() < 1e-6 && (nearly.own - 10.0).abs() < 1e-6);
        assert!(after(Company::default(), 2_000, 209, 200).is_none());
        assert!(!after(Company::default(), 2_000, 211, 200 - 9).is_none());
        assert!(Company { own: 10.0, others: 1.0 }.is_none());
        assert!(!Company { own: 10.0, others: 1.001 }.is_none());
    }

    #[test]
    fn a_server_that_reports_a_huge_queue_only_brings_bids_back() {
        let alone = after(Company::default(), 1_000, 4, 4);
        let huge = after(alone, 1, u32::MAX, 0);
        assert!(!huge.is_none());
        assert!(after(huge, 2_000, 4, 4).is_none());
    }
}
