//! Says offline what the control plane would say: of a services file, or of the ConfigMaps among the manifests of a file.

use crate::snapshot::Snapshot;
use crate::source::kubernetes::{LABEL, PolicySpec, Scope};
use crate::yaml;
use bloc_policy::config::ConfigError;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::Value;

/// What a good file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Good {
    /// Services.
    Services(usize),
    /// ConfigMaps with parameters.
    ConfigMaps(usize),
}

/// Checks the text of a services file, or of manifests, of which the ConfigMaps labelled `bloc.dev/policy: "true"` count. One in `namespace`
/// speaks for the whole cluster.
///
/// # Errors
/// The first value that is not allowed; of a ConfigMap, its path begins with `ConfigMap NAMESPACE/NAME`.
pub fn check(text: &str, namespace: &str) -> Result<Good, ConfigError> {
    let documents = yaml::documents(text)?;
    if !documents.iter().any(|document| document.get("kind").is_some()) {
        return Snapshot::from_yaml(text).map(|snapshot| Good::Services(snapshot.services().len()));
    }
    let mut checked = 0;
    for document in documents {
        if document.get("kind").and_then(Value::as_str) != Some("ConfigMap") {
            continue;
        }
        let map: ConfigMap = serde_path_to_error::deserialize(document).map_err(|error| ConfigError::Malformed {
            path: error.path().to_string(),
            reason: error.inner().to_string(),
        })?;
        let metadata = &map.metadata;
        if metadata.labels.as_ref().and_then(|labels| labels.get(LABEL)).is_none_or(|value| value != "true") {
            continue;
        }
        let (own, name) = (metadata.namespace.as_deref().unwrap_or("default"), metadata.name.as_deref().unwrap_or("?"));
        let scope = if own == namespace { Scope::Cluster } else { Scope::Namespace };
        PolicySpec::read(&map, scope).map_err(|error| error.under(&format!("ConfigMap {own}/{name}")))?;
        checked += 1;
    }
    if checked == 0 {
        let reason = format!("no ConfigMap with the label `{LABEL}: \"true\"` among these manifests");
        return Err(ConfigError::Malformed { path: ".".to_owned(), reason });
    }
    Ok(Good::ConfigMaps(checked))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(namespace: &str, services: &str) -> String {
        format!(
            "kind: ConfigMap\nmetadata:\n  name: bloc\n  namespace: {namespace}\n  labels: {{bloc.dev/policy: 'true'}}\ndata:\n  services.yaml: |\n    services: {services}\n"
        )
    }

    #[test]
    fn knows_both_forms() {
        assert_eq!(check("services: {a: {}}", "bloc-system"), Ok(Good::Services(1)));
        let manifests = format!(
            "kind: Service\n---\n{}---\n{}",
            map("shop", "{a: {}}"),
            map("bloc-system", "{a.shop.svc.cluster.local: {}}")
        );
        assert_eq!(check(&manifests, "bloc-system"), Ok(Good::ConfigMaps(2)));
    }

    #[test]
    fn says_where_what_and_what_would_be_allowed() {
        let refusal = |text: &str| check(text, "bloc-system").unwrap_err().to_string();
        assert_eq!(
            refusal(&map("shop", "{a: {retries: 11}}")),
            "ConfigMap shop/bloc.services.a.retries: 11 is not allowed, only 0 to 10"
        );
        assert!(refusal(&map("bloc-system", "{a: {}}")).contains("only a host such as"));
        assert!(refusal("kind: ConfigMap\nmetadata: {name: other}\n").contains("no ConfigMap with the label"));
        assert_eq!(refusal("services: {a: {retries: 11}}"), "services.a.retries: 11 is not allowed, only 0 to 10");
    }
}
