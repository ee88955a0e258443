//! The addresses of a Service, from its EndpointSlices.
//!
//! - An endpoint takes requests when it is `ready` (the default). If none is, those that are
//!   `terminating` and still `serving` (the default, too) do, as in kube-proxy.
//! - A slice has target ports; a port of the Service finds its target by name. Only TCP counts.
//! - For a dual-stack Service only the first family counts. The other has the same pods, and Envoy
//!   knows a pod by one address.
//! - An endpoint may briefly be in two slices; it counts once.

use k8s_openapi::api::core::v1 as core;
use k8s_openapi::api::discovery::v1 as discovery;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

/// The label that names a slice's Service.
const SERVICE_LABEL: &str = "kubernetes.io/service-name";

/// The parts of a Service that matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Service {
    /// Its port numbers by their names.
    ports: Vec<(u16, String)>,
    /// Its first family, `IPv4` or `IPv6`.
    family: Option<String>,
    /// The host that it refers to, if it is an `ExternalName`; its own slices then do not count.
    alias: Option<String>,
}

impl From<core::Service> for Service {
    fn from(service: core::Service) -> Self {
        let spec = service.spec.unwrap_or_default();
        let ports = spec.ports.unwrap_or_default().into_iter().filter(|port| is_tcp(port.protocol.as_deref()));
        Self {
            ports: ports.filter_map(|p| Some((u16::try_from(p.port).ok()?, p.name.unwrap_or_default()))).collect(),
            family: spec.ip_families.and_then(|families| families.into_iter().next()),
            alias: spec.external_name.filter(|_| spec.type_.as_deref() == Some("ExternalName")),
        }
    }
}

impl Service {
    /// The host that it refers to, if it is an `ExternalName`.
    pub fn alias(&self) -> Option<&String> {
        self.alias.as_ref()
    }
}

/// The parts of an EndpointSlice that matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Slice {
    /// The name of its Service, in the same namespace.
    pub service: String,
    family: String,
    /// Its target ports by their names.
    ports: Vec<(String, u16)>,
    ready: Vec<IpAddr>,
    draining: Vec<IpAddr>,
}

impl Slice {
    /// `None` for a slice without a Service, or with names instead of addresses.
    pub fn new(slice: discovery::EndpointSlice) -> Option<Self> {
        let service = slice.metadata.labels.and_then(|mut labels| labels.remove(SERVICE_LABEL))?;
        if slice.address_type == "FQDN" {
            return None;
        }
        let ports = slice.ports.unwrap_or_default().into_iter().filter(|port| is_tcp(port.protocol.as_deref()));
        let ports = ports.filter_map(|p| Some((p.name.unwrap_or_default(), u16::try_from(p.port?).ok()?)));
        let mut this = Self { service, family: slice.address_type, ports: ports.collect(), ..Self::default() };
        for endpoint in slice.endpoints.unwrap_or_default() {
            let conditions = endpoint.conditions.unwrap_or_default();
            let ready = conditions.ready.unwrap_or(true);
            let draining = conditions.terminating.unwrap_or(false) && conditions.serving.unwrap_or(true);
            // All addresses of an endpoint are the same server; consumers should use the first.
            let address = endpoint.addresses.first().and_then(|address| address.parse().ok());
            match address {
                Some(address) if ready => this.ready.push(address),
                Some(address) if draining => this.draining.push(address),
                _ => {}
            }
        }
        Some(this)
    }
}

/// The addresses by port of the Service; `None` if Kubernetes does not know them, so that senders
/// must learn them.
pub fn by_port<'a>(
    service: &Service,
    slices: impl Iterator<Item = &'a Slice> + Clone,
) -> Option<BTreeMap<u16, Vec<SocketAddr>>> {
    if service.alias.is_some() || service.ports.is_empty() {
        return None;
    }
    // If the Service has no family (an old API server), IPv4 if there is any.
    let family = service.family.as_deref().or_else(|| slices.clone().map(|slice| slice.family.as_str()).min());
    let slices = slices.filter(|slice| Some(slice.family.as_str()) == family);
    let of = |name: &str, addresses: fn(&Slice) -> &[IpAddr]| -> BTreeSet<SocketAddr> {
        let port = |slice: &Slice| slice.ports.iter().find(|(own, _)| own == name).map(|(_, port)| *port);
        let at = |slice: &'a Slice| port(slice).map(|port| (addresses(slice), port));
        let at = slices.clone().filter_map(at).filter(|(_, port)| *port > 0);
        at.flat_map(|(addresses, port)| addresses.iter().map(move |ip| SocketAddr::new(*ip, port))).collect()
    };
    let ports = service.ports.iter().map(|(port, name)| {
        let mut addresses = of(name, |slice| &slice.ready);
        if addresses.is_empty() {
            addresses = of(name, |slice| &slice.draining);
        }
        (*port, addresses.into_iter().collect())
    });
    Some(ports.collect())
}

fn is_tcp(protocol: Option<&str>) -> bool {
    protocol.is_none_or(|protocol| protocol == "TCP")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn service(spec: Value) -> Service {
        serde_json::from_value::<core::Service>(json!({"metadata": {"name": "a"}, "spec": spec})).unwrap().into()
    }

    fn slice(family: &str, ports: Value, endpoints: &[(&str, Value)]) -> Slice {
        let endpoints: Vec<Value> =
            endpoints.iter().map(|(ip, conditions)| json!({"addresses": [ip], "conditions": conditions})).collect();
        let slice = json!({
            "metadata": {"name": "a-1", "labels": {SERVICE_LABEL: "a"}},
            "addressType": family, "ports": ports, "endpoints": endpoints,
        });
        Slice::new(serde_json::from_value(slice).unwrap()).unwrap()
    }

    fn addresses(service: &Service, slices: &[Slice]) -> Vec<(u16, Vec<String>)> {
        let by_port = by_port(service, slices.iter()).unwrap();
        by_port.into_iter().map(|(port, all)| (port, all.iter().map(ToString::to_string).collect())).collect()
    }

    fn web() -> Value {
        json!([{"name": "web", "port": 8080}])
    }

    #[test]
    fn uses_ready_endpoints_or_else_terminating_ones_that_still_serve() {
        let service = service(json!({"ports": [{"name": "web", "port": 80}], "ipFamilies": ["IPv4"]}));
        let endpoints = [
            ("10.0.0.1", json!({"ready": true})),
            ("10.0.0.2", json!({"ready": false, "serving": false})),
            ("10.0.0.3", json!({"ready": false, "serving": true, "terminating": true})),
            ("10.0.0.4", json!({})),
        ];
        let got = addresses(&service, &[slice("IPv4", web(), &endpoints)]);
        assert_eq!(got, [(80, vec!["10.0.0.1:8080".into(), "10.0.0.4:8080".into()])]);
        let got = addresses(&service, &[slice("IPv4", web(), &endpoints[1..3])]);
        assert_eq!(got, [(80, vec!["10.0.0.3:8080".into()])], "a terminating server if no other is ready");
        let absent = [("10.0.0.5", json!({"ready": false, "terminating": true}))];
        let got = addresses(&service, &[slice("IPv4", web(), &absent)]);
        assert_eq!(got, [(80, vec!["10.0.0.5:8080".into()])], "it is not said whether it serves");
        assert_eq!(addresses(&service, &[]), [(80, vec![])]);
    }

    #[test]
    fn matches_service_ports_to_the_ports_of_several_slices_by_name() {
        let ports = json!([{"name": "web", "port": 80}, {"name": "admin", "port": 81}, {"name": "dns", "port": 53, "protocol": "UDP"}]);
        let service = service(json!({"ports": ports, "ipFamilies": ["IPv4"]}));
        let ready = |ip| [(ip, json!({"ready": true}))];
        let slices = [
            slice("IPv4", json!([{"name": "web", "port": 8080}, {"name": "admin", "port": 9000}]), &ready("10.0.0.1")),
            slice("IPv4", json!([{"name": "web", "port": 8081}]), &ready("10.0.0.2")),
            slice("IPv4", json!([{"name": "web", "port": 8080}]), &ready("10.0.0.1")),
        ];
        let web = vec!["10.0.0.1:8080".to_owned(), "10.0.0.2:8081".to_owned()];
        assert_eq!(addresses(&service, &slices), [(80, web), (81, vec!["10.0.0.1:9000".to_owned()])]);
    }

    #[test]
    fn uses_only_the_first_ip_family_of_a_dual_stack_service() {
        let ready = |ip| [(ip, json!({"ready": true}))];
        let slices = [slice("IPv6", web(), &ready("fd00::1")), slice("IPv4", web(), &ready("10.0.0.1"))];
        let of = |families: Value| {
            let service = service(json!({"ports": [{"name": "web", "port": 80}], "ipFamilies": families}));
            addresses(&service, &slices).remove(0).1
        };
        assert_eq!(of(json!(["IPv6", "IPv4"])), ["[fd00::1]:8080"]);
        assert_eq!(of(json!(["IPv4", "IPv6"])), ["10.0.0.1:8080"]);
        assert_eq!(of(Value::Null), ["10.0.0.1:8080"]);
    }

    #[test]
    fn gives_no_endpoints_of_external_names_or_services_without_ports() {
        let external = service(json!({"type": "ExternalName", "externalName": "example.org", "ports": [{"port": 80}]}));
        assert_eq!(by_port(&external, [].iter()), None);
        assert_eq!(by_port(&service(json!({"clusterIP": "None"})), [].iter()), None, "without ports");
    }
}
