//! Manifests by which Istio gives the endpoints of a service priorities.

use serde_json::Value;

/// The settings of `localityLbSetting` that make priorities.
const LOCALITY: [&str; 2] = ["failover", "failoverPriority"];
const OUTLIER_DETECTION: &str = "outlierDetection";
const TRAFFIC_DISTRIBUTION: &str = "trafficDistribution";

/// Warns of a manifest that gives endpoints priorities: Envoy's own load balancing obeys them, but
/// the filters choose among all endpoints that the control plane lists.
pub fn warning(manifest: &Value) -> Option<String> {
    let spec = manifest.get("spec")?;
    let setting = match manifest.get("kind")?.as_str()? {
        "DestinationRule" => locality(spec, "spec")?,
        "Service" => spec.get(TRAFFIC_DISTRIBUTION).map(|_| format!("spec.{TRAFFIC_DISTRIBUTION}"))?,
        _ => return None,
    };
    let of = |field: &str| manifest.pointer(&format!("/metadata/{field}")).and_then(Value::as_str);
    let (kind, name) = (manifest.get("kind")?.as_str()?, of("name").unwrap_or("?"));
    let place = of("namespace").map_or_else(|| name.to_owned(), |namespace| format!("{namespace}/{name}"));
    Some(format!(
        "{kind} {place}.{setting} gives endpoints priorities; the filters ignore them where the control plane lists \
         the endpoints"
    ))
}

/// The path of the first setting that makes priorities. Outlier detection does so too, by the zones
/// of the endpoints, unless locality is switched off.
fn locality(value: &Value, path: &str) -> Option<String> {
    let parts: Vec<(String, &Value)> = match value {
        Value::Object(fields) => fields.iter().map(|(name, value)| (format!("{path}.{name}"), value)).collect(),
        Value::Array(items) => items.iter().enumerate().map(|(n, value)| (format!("{path}[{n}]"), value)).collect(),
        _ => return None,
    };
    let is_set = |setting: &&&str| {
        path.ends_with(".localityLbSetting")
            && value.get("enabled") != Some(&Value::Bool(false))
            && value.get(**setting).and_then(Value::as_array).is_some_and(|items| !items.is_empty())
    };
    let is_off = value.pointer("/loadBalancer/localityLbSetting/enabled") == Some(&Value::Bool(false));
    let ejects = !is_off && value.get(OUTLIER_DETECTION).is_some_and(Value::is_object);
    let own = LOCALITY.iter().find(is_set).map(|setting| format!("{path}.{setting}"));
    let own = own.or_else(|| ejects.then(|| format!("{path}.{OUTLIER_DETECTION}")));
    own.or_else(|| parts.iter().find_map(|(path, value)| locality(value, path)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn rule(setting: &Value) -> Option<String> {
        let subset = json!({"name": "v1", "trafficPolicy": {"loadBalancer": {"localityLbSetting": setting}}});
        let metadata = json!({"name": "backend", "namespace": "shop"});
        warning(&json!({"kind": "DestinationRule", "metadata": metadata, "spec": {"host": "a", "subsets": [subset]}}))
    }

    #[test]
    fn warns_of_settings_that_make_priorities_and_of_no_others() {
        let warned = rule(&json!({"failoverPriority": ["topology.kubernetes.io/zone"]})).unwrap();
        let path = "spec.subsets[0].trafficPolicy.loadBalancer.localityLbSetting.failoverPriority";
        assert!(warned.starts_with(&format!("DestinationRule shop/backend.{path} gives endpoints priorities")));
        assert!(rule(&json!({"failover": [{"from": "a", "to": "b"}]})).is_some());
        for none in [json!({"enabled": false, "failover": [{}]}), json!({"failover": []}), json!({"distribute": [{}]})]
        {
            assert_eq!(rule(&none), None, "{none}");
        }
        let service =
            json!({"kind": "Service", "metadata": {"name": "a"}, "spec": {"trafficDistribution": "PreferClose"}});
        assert!(warning(&service).unwrap().starts_with("Service a.spec.trafficDistribution gives"));
        for none in [json!({"kind": "Service", "spec": {}}), json!({"kind": "Service"}), json!({"spec": {}}), json!(1)]
        {
            assert_eq!(warning(&none), None, "{none}");
        }
    }
}
