//! Metrics: a Prometheus outside of the mesh finds them, the alerts fire, and autoscalers get their
//! numbers.

mod alerts;
mod autoscalers;
mod scrape;
mod stand;

pub use alerts::{
    an_overload_fires_its_alert_and_autoscalers_get_their_numbers, what_the_control_plane_lacks_fires_its_alerts,
    who_rejects_fires_its_alerts,
};
pub use scrape::a_prometheus_outside_of_the_mesh_finds_everything;
