//! Metrics: what Envoy's `/stats` and `/stats/prometheus` show of us.
//!
//! A metric is named `bloc.<side>.<service>.<name>`; Envoy puts `wasmcustom.` in front. Gauges are written through, since they are shared
//! state as well. Counters are summed up in the VM, which saves a host call for each event, and handed to the host about once a second by a request of a thread that has traffic,
//! or else on the next tick; so `/stats` is late by a second with traffic, and by five after it.

use crate::host;
use bloc_policy::count::{Gauges, Side};
use proxy_wasm::types::MetricType;

/// Counters of one service, summed up until they are handed over.
pub struct Counters<const N: usize> {
    ids: [Option<u32>; N],
    since_flush: [u32; N],
}

impl<const N: usize> Counters<N> {
    /// Defines the counters `bloc.<side>.<service>.<name>`.
    pub fn define(side: &str, service: &str, names: [&str; N]) -> Self {
        let ids = names.map(|name| host::define_metric(MetricType::Counter, &format!("bloc.{side}.{service}.{name}")));
        Self { ids, since_flush: [0; N] }
    }

    /// Counts one event.
    pub fn count(&mut self, which: usize) {
        if let Some(counter) = self.since_flush.get_mut(which) {
            *counter = counter.saturating_add(1);
        }
    }

    /// What all threads of this Envoy have handed to the host.
    pub fn total(&self, which: usize) -> u64 {
        self.ids.get(which).copied().flatten().map_or(0, host::metric)
    }

    /// Whether something was counted since the last tick.
    pub fn any(&self) -> bool {
        self.since_flush.iter().any(|sum| *sum > 0)
    }

    /// Hands the sums to the host; whether there were any.
    pub fn flush(&mut self) -> bool {
        let mut any = false;
        for (id, sum) in self.ids.iter().zip(&mut self.since_flush) {
            if let (Some(id), 1..) = (id, *sum) {
                host::increment_metric(*id, i64::from(*sum));
                *sum = 0;
                any = true;
            }
        }
        any
    }
}

/// A gauge `bloc.<side>.<service>.<name>`, the same for all threads of this Envoy.
#[derive(Clone, Copy)]
pub struct Gauge(Option<u32>);

impl Gauge {
    /// Defines the gauge, or finds it.
    pub fn define(side: &str, service: &str, name: &str) -> Self {
        Self(host::define_metric(MetricType::Gauge, &format!("bloc.{side}.{service}.{name}")))
    }

    /// Adds `offset`; atomic.
    pub fn add(self, offset: i64) {
        if let Some(id) = self.0 {
            host::increment_metric(id, offset);
        }
    }

    /// Sets the value.
    pub fn set(self, value: u64) {
        if let Some(id) = self.0 {
            host::record_metric(id, value);
        }
    }

    /// The value.
    pub fn get(self) -> u64 {
        self.0.map_or(0, host::metric)
    }
}

/// The two gauges of requests in flight, the same for all threads of this Envoy: see [`bloc_policy::count`].
#[derive(Clone, Copy)]
pub struct InFlight([Gauge; 2]);

impl InFlight {
    /// The gauge that shows them, and the one to which they move while they are counted anew.
    pub fn new(first: Gauge, second: Gauge) -> Self {
        Self([first, second])
    }

    fn of(&self, side: Side) -> Gauge {
        let [first, second] = self.0;
        match side {
            Side::First => first,
            Side::Second => second,
        }
    }
}

impl Gauges for InFlight {
    fn add(&self, side: Side, offset: i64) {
        self.of(side).add(offset);
    }

    /// What is below zero wraps around in the host.
    fn get(&self, side: Side) -> i64 {
        self.of(side).get().cast_signed()
    }

    fn clear(&self, side: Side) {
        self.of(side).set(0);
    }
}

/// A counter `bloc.<side>.<service>.<name>` that is written through, because all threads of this Envoy read it.
#[derive(Clone, Copy)]
pub struct Total(Option<u32>);

impl Total {
    /// Defines the counter, or finds it.
    pub fn define(side: &str, service: &str, name: &str) -> Self {
        Self(host::define_metric(MetricType::Counter, &format!("bloc.{side}.{service}.{name}")))
    }

    /// Adds `offset`; atomic.
    pub fn add(self, offset: u32) {
        if let Some(id) = self.0 {
            host::increment_metric(id, i64::from(offset));
        }
    }

    /// The value.
    pub fn get(self) -> u64 {
        self.0.map_or(0, host::metric)
    }
}

/// The gauge `bloc.guest.vm.memory_pages`: the linear memory of the largest VM that this Envoy has had, in pages of 64 KiB. It should stay flat.
#[derive(Default)]
pub struct MemoryGauge {
    gauge: Option<Gauge>,
    shown: u64,
}

impl MemoryGauge {
    /// Shows this VM's memory, if it has grown.
    pub fn show(&mut self) {
        let pages = pages();
        if pages > self.shown {
            self.shown = pages;
            let gauge = *self.gauge.get_or_insert_with(|| Gauge::define("guest", "vm", "memory_pages"));
            gauge.set(pages.max(gauge.get()));
        }
    }
}

#[cfg(target_arch = "wasm32")]
fn pages() -> u64 {
    core::arch::wasm32::memory_size::<0>() as u64
}

#[cfg(not(target_arch = "wasm32"))]
fn pages() -> u64 {
    0
}
