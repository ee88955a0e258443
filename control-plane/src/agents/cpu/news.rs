//! When to tell a proxy the CPU of its pod, and when that CPU becomes unknown.

use std::time::Duration;
use tokio::time::Instant;

/// The shortest time between two answers about CPU to a proxy: five a second.
pub const GAP: Duration = Duration::from_millis(200);

/// Reports older than this no longer hold. An agent sends everything every 5 s.
pub const SILENT_AFTER: Duration = Duration::from_secs(15);

/// Whether the last report is too old to hold.
pub fn is_silent(heard: Instant, now: Instant) -> bool {
    now.saturating_duration_since(heard) >= SILENT_AFTER
}

/// The pod of this proxy, `POD.NAMESPACE`, from Istio's id of a sidecar:
/// `sidecar~IP~POD.NAMESPACE~DOMAIN`. Other ids have no pod.
pub fn pod_of(proxy: &str) -> Option<&str> {
    let mut parts = proxy.split('~');
    let (kind, _, pod, _) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    (kind == "sidecar" && parts.next().is_none()).then_some(pod)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sidecars_of_pods_have_a_pod() {
        assert_eq!(pod_of("sidecar~10.0.0.1~checkout-0.a.shop~shop.svc.cluster.local"), Some("checkout-0.a.shop"));
        for other in ["", "checkout-0.shop", "router~1.1.1.1~a.b~c", "sidecar~1.1.1.1~a.b", "sidecar~1.1.1.1~a.b~c~d"] {
            assert_eq!(pod_of(other), None, "{other}");
        }
    }
}
