//! The configuration that operators write.

use bloc_policy::config::{CapacityParameters, PluginConfig, ServiceParameters};
use std::collections::BTreeSet;
use std::ops::RangeInclusive;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);
const TIMES: RangeInclusive<Duration> = Duration::from_millis(1)..=HOUR;

/// The plugin configuration.
pub fn plugin(data: &[u8]) {
    let config = match PluginConfig::from_json(data) {
        Ok(config) => config,
        Err(error) => return assert!(!error.to_string().is_empty()),
    };
    assert!(config.service().is_none_or(|service| !service.is_empty()));
    if let Some(control_plane) = config.control_plane() {
        assert!(!control_plane.cluster().is_empty());
        assert!((Duration::from_secs(1)..=Duration::from_secs(60)).contains(&control_plane.wait()));
    }
    config.services().values().for_each(check);
}

/// Checks that every parameter is within the range that its accessor documents.
pub(crate) fn check(service: &ServiceParameters) {
    assert!(service.retries() <= 10, "{service:?}");
    assert!(service.route_retries() <= 100, "{service:?}");
    assert!(service.named_retries().all(|(_, retries)| retries <= 100), "{service:?}");
    assert!(TIMES.contains(&service.reset_interval()), "{service:?}");
    assert!(service.headroom() > 0.0 && service.headroom() <= 1.0, "{service:?}");
    assert!(service.concurrency().is_none_or(|places| (1..=100_000).contains(&places)), "{service:?}");
    assert!(!service.hold() || service.concurrency().is_some(), "{service:?}");
    assert!(TIMES.contains(&service.max_queue_wait()), "{service:?}");
    assert!((1 << 10..=1 << 30).contains(&service.body_limit()), "{service:?}");
    assert!((Duration::from_millis(100)..=HOUR).contains(&service.stream_idle()), "{service:?}");
    assert!(service.slo().is_none_or(|slo| TIMES.contains(&slo)), "{service:?}");
    match service.capacity() {
        CapacityParameters::Unlimited => {}
        CapacityParameters::Static(limit) => assert!((1..=1_000_000).contains(&limit.get()), "{service:?}"),
        CapacityParameters::PerCore { per_core, limit } => {
            assert!(per_core > 0.0 && per_core <= 1e5, "{service:?}");
            assert!(limit.is_none_or(|limit| (1..=1_000_000).contains(&limit.get())), "{service:?}");
        }
        CapacityParameters::Average(interval) => {
            assert!((Duration::from_secs(1)..=HOUR).contains(&interval), "{service:?}");
        }
        CapacityParameters::Slo(slo) => assert!(TIMES.contains(&slo), "{service:?}"),
    }
    for port in [None, Some(80), Some(443)] {
        let at_port = service.at_port(port);
        let endpoints = at_port.endpoints().unwrap_or_default();
        assert_eq!(endpoints.iter().collect::<BTreeSet<_>>().len(), endpoints.len(), "each once: {endpoints:?}");
        assert!(endpoints.iter().all(|endpoint| endpoint.port() > 0), "{endpoints:?}");
    }
}
