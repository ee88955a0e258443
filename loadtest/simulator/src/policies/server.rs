//! What stands in front of a server.

use super::{ServerModel, Verdict};
use bloc_policy::admission::Admission;
use bloc_policy::capacity::Capacity;
use bloc_policy::config::ServiceParameters;
use bloc_policy::load_report::LoadReport;
use bloc_policy::units::{Concurrency, Ratio, Timestamp};
use std::time::Duration;

/// Nothing: everything is admitted, nothing is said.
#[derive(Clone, Copy, Debug, Default)]
pub struct Plain;

impl ServerModel for Plain {
    fn arrive(&mut self, _: u32, _: Option<Duration>, _: Timestamp, _: &mut fastrand::Rng) -> Verdict {
        Verdict::Admitted
    }

    fn answer(&mut self, _: u32, _: Timestamp, _: &mut fastrand::Rng) -> Option<LoadReport> {
        None
    }
}

/// The inbound filter: the calls that it makes to `bloc_policy`, in the same order.
#[derive(Clone, Debug)]
pub struct Inbound {
    in_flight: u32,
    capacity: Capacity,
    headroom: Ratio,
}

impl Inbound {
    /// An idle server with these parameters.
    pub fn new(parameters: &ServiceParameters) -> Self {
        Self { in_flight: 0, capacity: Capacity::new(parameters.capacity()), headroom: parameters.headroom() }
    }

    fn admission(&self) -> Admission {
        Admission::new(self.capacity.get(), self.headroom)
    }

    #[allow(clippy::needless_update, reason = "what else a report holds is none of this model's business")]
    fn report(&self, chip: bool, others: u32) -> LoadReport {
        LoadReport {
            chip,
            queue: Some(others),
            capacity: self.capacity.get().map(Concurrency::get),
            ..LoadReport::default()
        }
    }
}

impl ServerModel for Inbound {
    fn arrive(&mut self, _: u32, _bid: Option<Duration>, now: Timestamp, _: &mut fastrand::Rng) -> Verdict {
        let others = self.in_flight;
        let admitted = self.admission().admits(Concurrency::new(others));
        self.capacity.observe(Concurrency::new(others + u32::from(admitted)), now);
        if !admitted {
            return Verdict::Rejected(self.report(false, others));
        }
        self.in_flight += 1;
        Verdict::Admitted
    }

    fn answer(&mut self, _: u32, _: Timestamp, rng: &mut fastrand::Rng) -> Option<LoadReport> {
        self.in_flight -= 1;
        let chip = self.admission().grants_chip(Concurrency::new(self.in_flight), rng);
        Some(self.report(chip, self.in_flight))
    }
}

/// A server that calls itself empty, whatever is in it: admits everything, grants every chip, answers probes with zero.
#[derive(Clone, Debug)]
pub struct Lying {
    report: LoadReport,
}

impl Lying {
    /// A liar with these parameters.
    #[allow(clippy::needless_update, reason = "what else a report holds, a liar leaves out")]
    pub fn new(parameters: &ServiceParameters) -> Self {
        let capacity = Capacity::new(parameters.capacity()).get().map(Concurrency::get);
        Self { report: LoadReport { chip: true, queue: Some(0), capacity, ..LoadReport::default() } }
    }
}

impl ServerModel for Lying {
    fn arrive(&mut self, _: u32, _: Option<Duration>, _: Timestamp, _: &mut fastrand::Rng) -> Verdict {
        Verdict::Admitted
    }

    fn answer(&mut self, _: u32, _: Timestamp, _: &mut fastrand::Rng) -> Option<LoadReport> {
        Some(self.report)
    }

    fn lies(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bloc_policy::config::{CapacitySpec, ServiceSpec};

    #[test]
    fn beyond_its_capacity_the_inbound_filter_rejects_with_a_report() {
        let spec = ServiceSpec { capacity: Some(CapacitySpec::Static { limit: 2 }), ..ServiceSpec::default() };
        let mut inbound = Inbound::new(&spec.validate().unwrap());
        let mut rng = fastrand::Rng::with_seed(1);
        let now = Timestamp::ZERO;
        assert_eq!(inbound.arrive(0, None, now, &mut rng), Verdict::Admitted);
        assert_eq!(inbound.arrive(1, None, now, &mut rng), Verdict::Admitted);
        let report = LoadReport { queue: Some(2), capacity: Some(2), ..LoadReport::default() };
        assert_eq!(inbound.arrive(2, None, now, &mut rng), Verdict::Rejected(report));
        assert_eq!(inbound.answer(0, now, &mut rng).and_then(|report| report.queue), Some(1));
        assert_eq!(inbound.arrive(3, None, now, &mut rng), Verdict::Admitted);
    }

    #[test]
    fn a_liar_calls_itself_empty() {
        let spec = ServiceSpec { capacity: Some(CapacitySpec::Static { limit: 1 }), ..ServiceSpec::default() };
        let mut liar = Lying::new(&spec.validate().unwrap());
        let mut rng = fastrand::Rng::with_seed(1);
        for request in 0..3 {
            assert_eq!(liar.arrive(request, None, Timestamp::ZERO, &mut rng), Verdict::Admitted);
        }
        let report = liar.answer(0, Timestamp::ZERO, &mut rng).unwrap();
        assert!(report.chip && report.queue == Some(0) && report.capacity == Some(1), "{report:?}");
    }
}
