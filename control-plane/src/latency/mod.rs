//! Latencies of services, and the edges of the call graph, added up from the reports.
//!
//! Like the events, each request is counted by exactly one replica: the one that answered the poll
//! reporting it. With several replicas, sum the metrics; the page shows this replica's part.
//!
//! The certificate determines the caller. A report cannot name another caller, and a proxy reports
//! only calls to services that it asks for.
//!
//! | file | what |
//! |---|---|
//! | `windowed` | counts and histograms: since the start, and over the last minute |
//! | `edges` | calls from one workload to one service; the heaviest have names in the metrics |
//! | `latencies` | all services and edges |
//! | `view` | what operators see |
//!
//! Bounds: the 1,000 services of [`Loads`](crate::load::MAX_SERVICES), and [`MAX_EDGES`] edges.
//! [`MAX_NAMED`] of these have their own series. Cost: a few look-ups for each reported service.

mod edges;
mod latencies;
mod view;
mod windowed;

pub use edges::{Edge, EdgeTotals, MAX_EDGES, MAX_NAMED};
pub use latencies::{Latencies, LatencyReport, ServiceTotals};
pub use view::{CallRates, EdgeView, LatencyView, Quantiles};
