//! Signals for scaling: what the proxies of a service report, added up per service.
//!
//! A proxy that serves something sends its counters with each poll, and such polls are held for a
//! [`ReportInterval`] at most. [`Loads`] keeps the last report of each and computes, per service
//! (`i` over the servers that count at this replica, see `store/window.rs`; rates in requests per
//! second):
//!
//! ```text
//! demand         sum of inFlight_i                                       requests
//! arrival rate   sum of growth of arrived_i / time                       what the servers took in; see `arrivals`, `growth`
//! service rate   servers * mean of serviceRate_i over those that know    a server without a rate of its own counts as the mean
//! utilisation    arrival rate / service rate                             ratio, above 1 while queues grow
//! prediction     the arrival rate HORIZON ahead                          Holt's method, see `Holt`
//! ```
//!
//! What is not known is absent, never 0, NaN or infinite: an autoscaler must hold still then, and
//! not scale to nothing. A new server counts with 0 arrivals until it was measured and at once with
//! the mean service rate, so that utilisation falls when it joins, as it should. For a service that
//! nobody has reported yet (above all after a restart of the control plane) there is no arrival
//! rate for an interval, and then until every server was measured once, or for [`KEEP_INTERVALS`]
//! intervals: half a sum would read as a collapse, and its growth to the whole as a surge.
//! Afterwards a replica that counts no server for a while says 0, which is its part; one that has
//! heard of none for a minute says nothing.
//!
//! Over several replicas these are sums of what each of them counts; ratios are those of the sums.
//! The prediction is linear in the arrival rates and observes them at the same moments everywhere
//! ([`ReportInterval::next`]), so that the sum of the predictions is the prediction of the sum.
//! What a replica counted that ended is a step for the others.
//!
//! What it does not see: requests that a server rejects are neither in flight nor answered, so
//! under overload with a capacity limit the arrival rate is that of the admitted ones. Of older
//! proxies, requests whose client left before the answer are no arrivals. A server that died
//! without ending its connection counts until its poll is over, and 6 s more, while others have
//! taken over its requests.
//!
//! Cost: a report costs some look-ups; once per interval and service, one pass over its servers.
//! Bounds: only services in force are kept, at most [`MAX_SERVICES`]; reports of others are counted
//! and dropped, since names come from outside.
//!
//! Reference: Mu, section 4.3.1 and Table 4.1 (`C_cur`, `IR_cur`, `IR_pre`, `Cap_e`).
//! Deviations: 1. arrivals are counted at the servers, not at one ingress, so that sidecars and
//! several gateways are covered too; 2. the predictor, see [`Holt`].

mod arrivals;
mod events;
mod growth;
mod holt;
mod interval;
mod loads;
mod report;
mod service;
mod signals;
#[cfg(test)]
mod tests;
mod ticks;
mod totals;

pub use events::EventRates;
pub use holt::Holt;
pub use interval::{NotAReportInterval, ReportInterval};
pub use loads::{Loads, MAX_SERVICES};
pub use report::{Report, Since};
pub use service::{HORIZON, KEEP_INTERVALS, ServerLoad};
pub use signals::{Signals, Spread};
pub use totals::Totals;
