//! Signals for scaling: what the proxies of a service report, added up per service.
//!
//! This module only computes: no I/O. The store decides which proxies count.
//!
//! A proxy that serves something sends its counters with each poll, and its polls are held for at
//! most a [`ReportInterval`]. [`Loads`] keeps the last report of each proxy and computes, per
//! service (`i` runs over the servers that count at this replica, see `store/window.rs`; rates in
//! requests per second):
//!
//! ```text
//! demand         sum of inFlight_i                                       requests
//! arrival rate   sum of (arrivals at i in a span / that span)            what the servers took in; see below
//! service rate   servers * mean of serviceRate_i over those that know    a server without a rate of its own counts as the mean
//! utilisation    arrival rate / service rate                             ratio, above 1 while queues grow
//! prediction     the arrival rate HORIZON ahead                          Holt's method, see `Holt`
//! ```
//!
//! The counter `arrived` has the requests since the proxy's last report that a replica counted, not
//! since its start. Each server has a span of its own, see `rates`.
//!
//! An unknown value is absent, never 0, NaN or infinite: an autoscaler must then hold still instead
//! of scaling to nothing. A new server counts with 0 arrivals until it is measured, but at once
//! with the mean service rate, so utilisation falls when it joins. A service without reports, above
//! all after a restart of the control plane, has no arrival rate for an interval. The rate stays
//! absent until every server was measured once, or for [`KEEP_INTERVALS`] intervals: a partial sum
//! would look like a collapse, and its completion like a surge. Afterwards a replica that counts no
//! server for a while reports 0 as its part. One that has heard no server for a minute reports
//! nothing.
//!
//! With several replicas, sum these values over the replicas, and take ratios of the sums. The
//! prediction is linear in the arrival rates, and all replicas observe them at the same moments
//! ([`ReportInterval::next`]), so the predictions add up to the prediction of the sum. When a
//! replica ends, its part moves to the others as a step.
//!
//! Limits: rejected requests are neither in flight nor answered. Under overload with a capacity
//! limit, the arrival rate is therefore that of admitted requests. A server that died without
//! closing its connection counts until its poll is over and 6 s more, although others have taken
//! over its requests.
//!
//! Cost: a report takes some look-ups; one pass per interval and service covers its servers.
//! Bounds: only services in force are kept, at most [`MAX_SERVICES`]. Reports of others are counted
//! and dropped, because names come from outside.
//!
//! Reference: Mu, section 4.3.1 and Table 4.1 (`C_cur`, `IR_cur`, `IR_pre`, `Cap_e`).
//! Deviations: 1. arrivals are counted at the servers, not at one ingress, so that sidecars and
//! several gateways are covered as well; 2. the predictor, see [`Holt`].

mod events;
mod holt;
mod interval;
mod loads;
mod rates;
mod report;
mod service;
mod signals;
#[cfg(test)]
mod tests;
mod ticks;
mod totals;

pub use events::EventRates;
pub use holt::Holt;
pub use interval::ReportInterval;
pub use loads::{Loads, MAX_SERVICES};
pub use report::Report;
pub use service::{HORIZON, KEEP_INTERVALS, ServerLoad};
pub use signals::{Signals, Spread};
pub use totals::Totals;
