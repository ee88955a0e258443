//! Latencies of services, and the edges of the call graph, added up from the reports.
//!
//! Like the events, each request is counted by exactly one replica: the one that answered the poll
//! that reported it. With several replicas, sum the metrics; the page shows this replica's part.
//!
//! Who called is what the certificate says. A report cannot name another caller, and a proxy
//! reports only calls to services that it asks for.
//!
//! | file | what |
//! |---|---|
//! | `windowed` | counts and histograms: in all, and of the last minute |
//! | `edges` | the calls from one workload to one service; the heaviest have names in the metrics |
//! | `latencies` | all services and edges |
//! | `view` | what operators see |
//!
//! Bounds: [`Loads`](crate::load::MAX_SERVICES)' 1,000 services, and [`MAX_EDGES`] edges, of which
//! [`MAX_NAMED`] have a series of their own. Cost: a few look-ups for each reported service.

mod edges;
mod latencies;
mod view;
mod windowed;

pub use edges::{Edge, EdgeTotals, MAX_EDGES, MAX_NAMED};
pub use latencies::{Latencies, LatencyReport, ServiceTotals};
pub use view::{CallRates, EdgeView, LatencyView, Quantiles};
