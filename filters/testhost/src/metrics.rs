//! Metrics: one value per name and kind for the process; each VM has its own ids for them.

use crate::status::Refusal;
use crate::status::Status;
use std::collections::BTreeMap;

/// The kind of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

impl Kind {
    pub(crate) fn read(kind: u32) -> Option<Self> {
        [Self::Counter, Self::Gauge, Self::Histogram].get(kind as usize).copied()
    }
}

/// The metrics of a process.
#[derive(Default)]
pub(crate) struct Metrics {
    values: BTreeMap<(Vec<u8>, Kind), u64>,
}

impl Metrics {
    pub(crate) fn define(&mut self, name: &[u8], kind: Kind) {
        self.values.entry((name.to_vec(), kind)).or_default();
    }

    /// The counter or gauge of that name.
    pub(crate) fn named(&self, name: &str) -> Option<u64> {
        let found =
            [Kind::Counter, Kind::Gauge].map(|kind| self.values.get(&(name.as_bytes().to_vec(), kind)).copied());
        found.into_iter().flatten().next()
    }

    fn value(&mut self, metric: &(Vec<u8>, Kind)) -> Result<&mut u64, Refusal> {
        self.values.get_mut(metric).ok_or(Refusal::Fault(Status::NotFound, "a metric that is not defined".into()))
    }

    pub(crate) fn increment(&mut self, metric: &(Vec<u8>, Kind), offset: i64) -> Result<(), Refusal> {
        match metric.1 {
            Kind::Histogram => return Err(Refusal::bad("a histogram cannot be incremented")),
            Kind::Counter if offset <= 0 => return Err(Refusal::bad(format!("a counter cannot grow by {offset}"))),
            Kind::Counter | Kind::Gauge => {}
        }
        let value = self.value(metric)?;
        *value = value.wrapping_add_signed(offset);
        Ok(())
    }

    pub(crate) fn record(&mut self, metric: &(Vec<u8>, Kind), new: u64) -> Result<(), Refusal> {
        let value = self.value(metric)?;
        match metric.1 {
            Kind::Counter => *value = value.wrapping_add(new),
            Kind::Gauge | Kind::Histogram => *value = new,
        }
        Ok(())
    }

    pub(crate) fn get(&mut self, metric: &(Vec<u8>, Kind)) -> Result<u64, Refusal> {
        match metric.1 {
            Kind::Histogram => Err(Refusal::bad("a histogram has no value")),
            Kind::Counter | Kind::Gauge => self.value(metric).copied(),
        }
    }
}
