//! When a proxy is told of the CPU of its pod.

use std::time::Duration;

/// A proxy is told when its pod has this share more or less than the proxy has.
const STEP: f64 = 0.05;
/// The shortest time between two answers about CPU to a proxy: five a second.
pub const GAP: Duration = Duration::from_millis(200);

/// The pod that this proxy is of, `POD.NAMESPACE`: from Istio's id of a sidecar,
/// `sidecar~IP~POD.NAMESPACE~DOMAIN`. Other ids are of no pod.
pub fn pod_of(proxy: &str) -> Option<&str> {
    let mut parts = proxy.split('~');
    let (kind, _, pod, _) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    (kind == "sidecar" && parts.next().is_none()).then_some(pod)
}

/// Whether a proxy that has so many cores is told that there are so many.
pub fn differs(has: Option<f64>, is: Option<f64>) -> bool {
    match (has, is) {
        (Some(has), Some(is)) => (is - has).abs() >= STEP * has,
        (has, is) => has != is,
    }
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

    #[test]
    fn five_percent_is_a_difference() {
        assert!(differs(Some(20.0), Some(21.0)) && differs(Some(20.0), Some(19.0)));
        assert!(!differs(Some(20.0), Some(20.9)) && !differs(Some(20.0), Some(19.1)));
        assert!(differs(None, Some(1.0)) && differs(Some(1.0), None) && !differs(None, None));
    }
}
