//! What the name of an Envoy cluster says: its service, and which of the service's endpoints it
//! has.

use crate::config::ServiceParameters;

/// The service of a cluster: the host of an Istio cluster (`outbound|8080|subset|host`), else the
/// cluster's own name.
pub fn service_of(cluster: &str) -> &str {
    match cluster.split_once('|') {
        Some(("outbound" | "inbound", rest)) => {
            rest.rsplit('|').next().filter(|host| !host.is_empty()).unwrap_or(cluster)
        }
        _ => cluster,
    }
}

/// The parameters for one cluster of the service, with the endpoints of the port in the cluster's
/// name. A subset has an unknown part of the endpoints, so its senders learn them.
pub fn parameters_of(cluster: &str, service: &ServiceParameters) -> ServiceParameters {
    let mut parts = cluster.split('|');
    let (direction, port, subset) = (parts.next(), parts.next(), parts.next());
    match (direction, port, subset) {
        (Some("outbound"), Some(port), Some("")) => service.at_port(port.parse().ok()),
        (Some("outbound"), Some(_), Some(_)) => service.without_endpoints(),
        _ => service.at_port(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{ConfigError, ServiceSpec};

    #[test]
    fn derives_the_service_from_the_cluster_name() {
        assert_eq!(service_of("backend"), "backend");
        assert_eq!(service_of("outbound|8080||echo.default.svc.cluster.local"), "echo.default.svc.cluster.local");
        assert_eq!(service_of("outbound|8080|v1|echo.default.svc.cluster.local"), "echo.default.svc.cluster.local");
        assert_eq!(service_of("inbound|8080||"), "inbound|8080||");
        assert_eq!(service_of("a|b"), "a|b");
    }

    #[test]
    fn a_cluster_has_the_endpoints_of_its_port() {
        let json = r#"{"retries":1,"endpointsByPort":{"80":["1.1.1.1:8080"],"81":["1.1.1.1:8081"]}}"#;
        let spec: ServiceSpec = ConfigError::read_json(json.as_bytes()).unwrap();
        let service = spec.validate().unwrap();
        let of = |cluster| {
            let parameters = parameters_of(cluster, &service);
            assert_eq!(parameters.retries(), 1);
            parameters.endpoints().map(|endpoints| endpoints.iter().map(|e| e.port()).collect::<Vec<_>>())
        };
        assert_eq!(of("outbound|80||a.b.svc.cluster.local"), Some(vec![8080]));
        assert_eq!(of("outbound|81||a.b.svc.cluster.local"), Some(vec![8081]));
        assert_eq!(of("outbound|82||a.b.svc.cluster.local"), None);
        assert_eq!(of("outbound|80|v1|a.b.svc.cluster.local"), None, "a subset");
        assert_eq!(of("a"), None, "two ports");
    }

    #[test]
    fn a_subset_cluster_has_no_endpoints_even_with_one_port() {
        let json = r#"{"endpointsByPort":{"80":["1.1.1.1:8080"]}}"#;
        let spec: ServiceSpec = ConfigError::read_json(json.as_bytes()).unwrap();
        let service = spec.validate().unwrap();
        let has_any = |cluster| parameters_of(cluster, &service).endpoints().is_some();
        assert!(has_any("a") && has_any("outbound|80||a.b.svc.cluster.local"));
        assert!(!has_any("outbound|80|v1|a.b.svc.cluster.local"));
    }
}
