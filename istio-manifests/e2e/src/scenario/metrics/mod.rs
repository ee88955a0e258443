//! Metrics: a Prometheus outside of the mesh finds them, the alerts fire, and autoscalers get their
//! numbers.
//!
//! The start and the configuration of Prometheus are not here but in `prometheus`.

mod alerts;
mod autoscalers;
mod scrape;
mod testbed;

pub use alerts::{
    a_refused_or_stale_configuration_or_lost_replicas_fire_alerts,
    an_overload_fires_its_alert_and_autoscalers_get_their_numbers, rejections_and_exhausted_retries_fire_their_alerts,
};
pub use scrape::a_prometheus_outside_the_mesh_scrapes_all_proxies_and_replicas;
