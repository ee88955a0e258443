//! Metrics: what the filters show in Envoy's `/stats` and `/stats/prometheus`.
//!
//! A metric is named `bloc.<side>.<service>.<name>`; Envoy puts `wasmcustom.` in front. Gauges are
//! written through, because they are also shared state. Counters are summed up in the thread, which
//! saves a host call for each event. About once a second a request of a thread with traffic hands
//! the sums to the host; without traffic, the next tick does. So `/stats` is late by a second with
//! traffic, and by five after it.

use crate::host::{Host, MetricKind};
use bloc_policy::server::count::{Gauges, Side};
use std::marker::PhantomData;

/// The kinds of events that are counted together, such as those of an inbound service.
pub trait Event<const N: usize>: Copy {
    /// The names of their counters, in the order of [`Self::index`].
    const NAMES: [&'static str; N];
    /// Its index in `NAMES`.
    fn index(self) -> usize;
}

/// Declares an enum of events with the names of their counters.
macro_rules! events {
    ($(#[$doc:meta])* $name:ident: $count:literal { $($(#[$event_doc:meta])* $event:ident = $text:literal,)* }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name {
            $($(#[$event_doc])* $event,)*
        }

        impl $crate::metrics::Event<$count> for $name {
            const NAMES: [&'static str; $count] = [$($text),*];

            fn index(self) -> usize {
                self as usize
            }
        }
    };
}
pub(crate) use events;

fn name_of(side: &str, service: &str, name: &str) -> String {
    format!("bloc.{side}.{service}.{name}")
}

/// Counters of one service, summed up until they are handed over.
pub struct Counters<H: Host, E, const N: usize> {
    host: H,
    ids: [Option<H::Metric>; N],
    since_flush: [u32; N],
    events: PhantomData<E>,
}

impl<H: Host, E: Event<N>, const N: usize> Counters<H, E, N> {
    /// Defines the counters `bloc.<side>.<service>.<name>`.
    pub fn define(host: &H, side: &str, service: &str) -> Self {
        let define = |name| host.define_metric(MetricKind::Counter, &name_of(side, service, name));
        Self { host: host.clone(), ids: E::NAMES.map(define), since_flush: [0; N], events: PhantomData }
    }

    /// Counts one event.
    pub fn count(&mut self, event: E) {
        if let Some(counter) = self.since_flush.get_mut(event.index()) {
            *counter = counter.saturating_add(1);
        }
    }

    /// What all threads of this proxy have handed to the host.
    pub fn total(&self, event: E) -> u64 {
        self.ids.get(event.index()).copied().flatten().map_or(0, |id| self.host.metric(id))
    }

    /// Whether there are sums to hand over.
    pub fn any(&self) -> bool {
        self.since_flush.iter().any(|sum| *sum > 0)
    }

    /// Hands the sums to the host; returns whether there were any.
    pub fn flush(&mut self) -> bool {
        let mut any = false;
        for (id, sum) in self.ids.iter().zip(&mut self.since_flush) {
            if let (Some(id), 1..) = (id, *sum) {
                self.host.add_to_metric(*id, i64::from(*sum));
                *sum = 0;
                any = true;
            }
        }
        any
    }
}

/// A gauge `bloc.<side>.<service>.<name>`, the same for all threads of this proxy.
#[derive(Clone)]
pub struct Gauge<H: Host> {
    host: H,
    id: Option<H::Metric>,
}

impl<H: Host> Gauge<H> {
    /// Defines the gauge, or finds it.
    pub fn define(host: &H, side: &str, service: &str, name: &str) -> Self {
        let id = host.define_metric(MetricKind::Gauge, &name_of(side, service, name));
        Self { host: host.clone(), id }
    }

    /// Adds `offset`; atomic.
    pub fn add(&self, offset: i64) {
        if let Some(id) = self.id {
            self.host.add_to_metric(id, offset);
        }
    }

    /// Sets the value.
    pub fn set(&self, value: u64) {
        if let Some(id) = self.id {
            self.host.set_metric(id, value);
        }
    }

    /// The value.
    pub fn get(&self) -> u64 {
        self.id.map_or(0, |id| self.host.metric(id))
    }
}

/// The two gauges of requests in flight, the same for all threads of this proxy: see
/// [`bloc_policy::server::count`].
#[derive(Clone)]
pub struct InFlight<H: Host>([Gauge<H>; 2]);

impl<H: Host> InFlight<H> {
    /// The gauge that shows them, and the one to which they move while they are recounted.
    pub fn new(first: Gauge<H>, second: Gauge<H>) -> Self {
        Self([first, second])
    }

    fn of(&self, side: Side) -> &Gauge<H> {
        let [first, second] = &self.0;
        match side {
            Side::First => first,
            Side::Second => second,
        }
    }
}

impl<H: Host> Gauges for InFlight<H> {
    fn add(&self, side: Side, offset: i64) {
        self.of(side).add(offset);
    }

    /// Values below zero wrap around in the host.
    fn get(&self, side: Side) -> i64 {
        self.of(side).get().cast_signed()
    }

    fn clear(&self, side: Side) {
        self.of(side).set(0);
    }
}

/// A counter `bloc.<side>.<service>.<name>` that is written through, because all threads of this
/// proxy read it.
pub struct Total<H: Host> {
    host: H,
    id: Option<H::Metric>,
}

impl<H: Host> Total<H> {
    /// Defines the counter, or finds it.
    pub fn define(host: &H, side: &str, service: &str, name: &str) -> Self {
        let id = host.define_metric(MetricKind::Counter, &name_of(side, service, name));
        Self { host: host.clone(), id }
    }

    /// Adds `offset`; atomic.
    pub fn add(&self, offset: u32) {
        if let Some(id) = self.id {
            self.host.add_to_metric(id, i64::from(offset));
        }
    }

    /// The value.
    pub fn get(&self) -> u64 {
        self.id.map_or(0, |id| self.host.metric(id))
    }
}

/// The gauge `bloc.guest.vm.memory_pages`: the linear memory of the largest VM that this proxy has
/// had, in pages of 64 KiB. It should stay flat.
pub struct MemoryGauge<H: Host> {
    host: H,
    gauge: Option<Gauge<H>>,
    shown: u64,
}

impl<H: Host> MemoryGauge<H> {
    /// Not shown yet.
    pub fn new(host: &H) -> Self {
        Self { host: host.clone(), gauge: None, shown: 0 }
    }

    /// Shows this thread's memory, if it has grown.
    pub fn show(&mut self) {
        let pages = self.host.memory_pages();
        if pages > self.shown {
            self.shown = pages;
            let gauge = self.gauge.get_or_insert_with(|| Gauge::define(&self.host, "guest", "vm", "memory_pages"));
            gauge.set(pages.max(gauge.get()));
        }
    }
}
