//! Checks a file offline as the control plane would: a services file, or the ConfigMaps among
//! manifests.

mod priorities;

use crate::snapshot::Snapshot;
use crate::source::kubernetes::{ALL, KEY, LABEL, PolicySpec, Scope, crowded};
use bloc_policy::config::{CapacitySpec, ConfigError, ServiceSpec, ServicesSpec};
use bloc_yaml as yaml;
use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// What a valid file holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Good {
    Services(usize),
    /// ConfigMaps with parameters.
    ConfigMaps(usize),
}

/// What a valid file holds, and warnings about values that are allowed but probably a mistake.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    pub good: Good,
    /// Path and reason of each warning.
    pub warnings: Vec<String>,
}

/// Checks the text of a services file, or of manifests and lists of them; of these, only ConfigMaps
/// labelled `bloc.dev/policy: "true"` count. A ConfigMap in `namespace`, or without one, applies to
/// the whole cluster.
///
/// # Errors
/// The first invalid value of each service and of each ConfigMap. The path of an error in a
/// ConfigMap begins with `ConfigMap NAMESPACE/NAME`.
pub fn check(text: &str, namespace: &str) -> Result<Verdict, Vec<ConfigError>> {
    let documents = yaml::documents(text).map_err(|error| vec![error])?;
    if documents.iter().any(|document| document.get("kind").is_some()) {
        return manifests(documents.into_iter().flat_map(items).collect(), namespace);
    }
    match Snapshot::from_yaml(text) {
        Ok(snapshot) => {
            let services = snapshot.services();
            let warnings =
                services.iter().flat_map(|(name, service)| doubts(&format!("services.{name}"), service.spec()));
            Ok(Verdict { good: Good::Services(services.len()), warnings: warnings.collect() })
        }
        Err(first) => Err(all(first, text, |part| yaml::fit::<ServicesSpec>(part, text)?.validate().map(|_| ()))),
    }
}

/// The items of a list, such as `kubectl get -o yaml` prints; any other document as it is.
fn items(mut document: Value) -> Vec<Value> {
    let kind = document.get("kind").and_then(Value::as_str).and_then(|kind| kind.strip_suffix("List"));
    let Some(kind) = kind.map(str::to_owned) else { return vec![document] };
    let Some(Value::Array(items)) = document.get_mut("items").map(Value::take) else { return vec![document] };
    let named = items.into_iter().map(|mut item| {
        // The items of a `ConfigMapList` do not say what they are.
        if let Some(item) = item.as_object_mut().filter(|_| !kind.is_empty()) {
            item.entry("kind").or_insert_with(|| kind.as_str().into());
        }
        item
    });
    named.collect()
}

fn manifests(documents: Vec<Value>, namespace: &str) -> Result<Verdict, Vec<ConfigError>> {
    let (mut errors, mut checked) = (Vec::new(), 0);
    let mut warnings: Vec<String> = documents.iter().filter_map(priorities::warning).collect();
    let mut good = Vec::new();
    let mut in_force: BTreeMap<String, (Option<i64>, String)> = BTreeMap::new();
    for document in documents {
        if document.get("kind").and_then(Value::as_str) != Some("ConfigMap") {
            continue;
        }
        let map: ConfigMap = match serde_path_to_error::deserialize(document) {
            Ok(map) => map,
            Err(error) => {
                errors.push(ConfigError::malformed(error.path(), error.inner()));
                continue;
            }
        };
        let metadata = &map.metadata;
        if metadata.labels.as_ref().and_then(|labels| labels.get(LABEL)).is_none_or(|value| value != "true") {
            continue;
        }
        checked += 1;
        let own = metadata.namespace.as_deref().unwrap_or(namespace).to_owned();
        let name = metadata.name.clone().unwrap_or_else(|| "?".to_owned());
        let title = format!("ConfigMap {own}/{name}");
        let scope = if own == namespace { Scope::Cluster } else { Scope::Namespace };
        match PolicySpec::read(&map, scope) {
            Ok(spec) => good.push((own.clone(), title.clone(), spec)),
            Err(first) => {
                let text = map.data.as_ref().and_then(|data| data.get(KEY)).map_or("", String::as_str);
                let found = all(first, text, |part| yaml::fit::<PolicySpec>(part, text)?.validate(scope));
                errors.extend(found.into_iter().map(|error| within(error).under(&title)));
            }
        }
        let created = metadata.creation_timestamp.as_ref().map(|time| time.0.as_second());
        let later = match in_force.remove(&own) {
            None => None,
            Some(other) => {
                // Unless both have a creation time, the order in the file replaces the order of
                // creation. Between equal times the name decides, as in the cluster.
                let times = created.zip(other.0);
                let older = times.is_some_and(|(own, theirs)| (own, &name) < (theirs, &other.1));
                Some(if older { (other.1, (created, name.clone())) } else { (name.clone(), other) })
            }
        };
        let counts = match later {
            None => (created, name),
            Some((refused, counts)) => {
                errors.push(crowded(&own, &counts.1).under(&format!("ConfigMap {own}/{refused}")));
                counts
            }
        };
        in_force.insert(own, counts);
    }
    if checked == 0 && errors.is_empty() {
        let reason = format!("no ConfigMap with the label `{LABEL}: \"true\"` among these manifests");
        errors.push(ConfigError::malformed(".", reason));
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let cluster = good.iter().find(|(own, ..)| own == namespace).map(|(.., spec)| spec);
    for (own, title, policy) in &good {
        for name in policy.services.keys() {
            let above = cluster.filter(|_| own != namespace).map(|cluster| {
                let prefix = format!("{name}.{own}.svc.");
                let host = cluster.services.keys().find(|host| host.starts_with(&prefix));
                merged(cluster, host.map_or(ALL, String::as_str))
            });
            let spec = merged(policy, name).or(above.unwrap_or_default());
            warnings.extend(doubts(&format!("{title}.services.{name}"), &spec));
        }
    }
    Ok(Verdict { good: Good::ConfigMaps(checked), warnings })
}

/// The spec of a service in a ConfigMap: specific values win over general ones.
fn merged(policy: &PolicySpec, name: &str) -> ServiceSpec {
    policy.of(name).0.fold(ServiceSpec::default(), |general, particular| particular.clone().or(general))
}

/// `first`, and the other errors that appear when each service is read separately.
fn all(first: ConfigError, text: &str, read: impl Fn(Value) -> Result<(), ConfigError>) -> Vec<ConfigError> {
    let Ok(mut rest) = yaml::values(text) else { return vec![first] };
    let Some(Value::Object(services)) = rest.get_mut("services").map(Value::take) else { return vec![first] };
    let parts = services.into_iter().map(|(name, spec)| json!({"services": {name: spec}}));
    if let Some(emptied) = rest.get_mut("services") {
        *emptied = json!({});
    }
    let mut errors: Vec<_> = std::iter::once(rest).chain(parts).filter_map(|part| read(part).err()).collect();
    if !errors.contains(&first) {
        errors.insert(0, first);
    }
    errors
}

/// Adds which text the line numbers in an error refer to.
fn within(error: ConfigError) -> ConfigError {
    let of = |text: String| if text.contains(" at line ") { format!("{text} of {KEY}") } else { text };
    match error {
        ConfigError::Malformed { path, reason } => ConfigError::Malformed { path, reason: of(reason) },
        ConfigError::OutOfRange { path, value, allowed } => {
            ConfigError::OutOfRange { path, value, allowed: of(allowed) }
        }
    }
}

/// Warnings about values that are allowed but probably a mistake.
fn doubts(path: &str, spec: &ServiceSpec) -> Vec<String> {
    let mut doubts = Vec::new();
    if let Some(routing) = spec.routing.filter(|routing| !routing.is_offered()) {
        let name = routing.name();
        doubts.push(format!("{path}.routing: {name} is taken as least_request; Envoy itself has {name}"));
    }
    for name in &spec.withdrawn {
        doubts.push(format!("{path}.{name}: has no effect any more"));
    }
    if let Some(CapacitySpec::Average { .. }) = spec.capacity {
        doubts.push(format!("{path}.capacity: average can only fall; slo follows what the server can do"));
    }
    let without = "without `concurrency`, the number of requests that one server works on at once";
    match (spec.concurrency, spec.routing) {
        (None, Some(routing)) if routing.compares_speeds() => {
            doubts.push(format!("{path}.routing: {} {without}", routing.name()));
        }
        _ => {}
    }
    match (spec.concurrency, &spec.capacity) {
        (None, Some(CapacitySpec::Slo { .. })) => doubts.push(format!("{path}.capacity: slo {without}")),
        (Some(concurrency), Some(CapacitySpec::Static { limit })) if *limit < concurrency => {
            doubts.push(format!("{path}.capacity.limit: {limit} is below `concurrency`, {concurrency}"));
        }
        _ => {}
    }
    doubts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good(text: &str) -> Good {
        check(text, "bloc-system").unwrap().good
    }

    fn refusals(text: &str) -> Vec<String> {
        check(text, "bloc-system").unwrap_err().iter().map(ToString::to_string).collect()
    }

    fn warnings(text: &str) -> Vec<String> {
        check(text, "bloc-system").unwrap().warnings
    }

    fn map(namespace: &str, services: &str) -> String {
        format!(
            "kind: ConfigMap\nmetadata:\n  name: bloc\n  namespace: {namespace}\n  labels: {{bloc.dev/policy: 'true'}}\ndata:\n  services.yaml: |\n    services: {services}\n"
        )
    }

    #[test]
    fn warns_of_what_is_read_but_does_not_do_what_it_says() {
        let old = "{maxChips: 5, sloGrace: 1s, routing: random, capacity: {estimator: average}}";
        let says = |path: &str| {
            [
                "routing: random is taken as least_request; Envoy itself has random",
                "maxChips: has no effect any more",
                "sloGrace: has no effect any more",
                "capacity: average can only fall; slo follows what the server can do",
            ]
            .map(|text| format!("{path}.{text}"))
        };
        assert_eq!(warnings(&format!("services: {{a: {old}}}")), says("services.a"));
        assert_eq!(warnings("services: {a: {routing: least_request, retries: 2}}"), Vec::<String>::new());
        let general = warnings(&map("shop", &format!("{{'*': {old}, a: {{retries: 2}}}}")));
        assert!(says("ConfigMap shop/bloc.services.a").iter().all(|text| general.contains(text)), "{general:?}");
    }

    #[test]
    fn accepts_a_services_file_and_config_map_manifests() {
        assert_eq!(good("services: {a: {}}"), Good::Services(1));
        let manifests = format!(
            "kind: Service\n---\n{}---\n{}",
            map("shop", "{a: {}}"),
            map("bloc-system", "{a.shop.svc.cluster.local: {}}")
        );
        assert_eq!(good(&manifests), Good::ConfigMaps(2));
    }

    #[test]
    fn looks_into_lists_also_as_json() {
        let yaml = |text: &str| bloc_yaml::values(text).unwrap();
        let (shop, bad) = (yaml(&map("shop", "{a: {}}")), yaml(&map("cart", "{a: {retries: 11}}")));
        let refusal = "ConfigMap cart/bloc.services.a.retries: 11 is not allowed; allowed: 0 to 10";
        let mut without_kind = bad.clone();
        without_kind.as_object_mut().unwrap().remove("kind");
        let service = json!({"kind": "Service", "metadata": {"name": "a"}});
        for list in [
            json!({"kind": "List", "items": [service, shop, bad]}),
            json!({"kind": "ConfigMapList", "items": [without_kind]}),
        ] {
            assert_eq!(refusals(&list.to_string()), [refusal]);
            let behind = format!("{}---\n{list}\n", map("shop", "{a: {}}").replace("name: bloc", "name: bloc2"));
            assert!(refusals(&behind).contains(&refusal.to_owned()), "{behind}");
        }
        assert_eq!(good(&json!({"kind": "List", "items": [shop]}).to_string()), Good::ConfigMaps(1));
        for empty in
            [json!({"kind": "List", "items": []}), json!({"kind": "List"}), json!({"kind": "List", "items": [7]})]
        {
            assert!(refusals(&empty.to_string())[0].contains("no ConfigMap with the label"), "{empty}");
        }
    }

    #[test]
    fn warns_of_priorities_that_the_filters_ignore() {
        let service = "kind: Service\nmetadata: {name: a, namespace: shop}\nspec: {trafficDistribution: PreferClose}\n";
        let found = warnings(&format!("{service}---\n{}", map("shop", "{a: {}}")));
        assert_eq!(found.len(), 1, "{found:?}");
        assert!(
            found[0].starts_with("Service shop/a.spec.trafficDistribution gives endpoints priorities"),
            "{found:?}"
        );
    }

    #[test]
    fn a_refusal_names_path_value_and_range() {
        let refusal = |text: &str| refusals(text).join("\n");
        assert_eq!(
            refusal(&map("shop", "{a: {retries: 11}}")),
            "ConfigMap shop/bloc.services.a.retries: 11 is not allowed; allowed: 0 to 10"
        );
        assert!(refusal(&map("bloc-system", "{a: {}}")).contains("allowed: a host such as"));
        assert!(refusal("kind: ConfigMap\nmetadata: {name: other}\n").contains("no ConfigMap with the label"));
        assert_eq!(refusal("services: {a: {retries: 11}}"), "services.a.retries: 11 is not allowed; allowed: 0 to 10");
    }

    #[test]
    fn refuses_all_but_the_oldest_config_map_of_a_namespace() {
        let other = map("shop", "{}").replace("name: bloc\n", "name: other\n");
        let both = format!("{}---\n{other}", map("shop", "{}"));
        assert_eq!(
            refusals(&both),
            [
                "ConfigMap shop/other.metadata.namespace: \"shop\" is not allowed; allowed: one ConfigMap per namespace; the older \"bloc\" counts"
            ]
        );
        let at = |text: &str, year| {
            text.replace("  namespace:", &format!("  creationTimestamp: {year}-01-01T00:00:00Z\n  namespace:"))
        };
        let dated = refusals(&format!("{}---\n{}", at(&map("shop", "{}"), 2026), at(&other, 2025)));
        assert!(
            dated[0].starts_with("ConfigMap shop/bloc.metadata.namespace: ") && dated[0].contains("\"other\" counts"),
            "{dated:?}"
        );
        let tied = refusals(&format!("{}---\n{}", at(&other, 2026), at(&map("shop", "{}"), 2026)));
        assert!(tied[0].starts_with("ConfigMap shop/other.") && tied[0].contains("\"bloc\" counts"), "{tied:?}");
    }

    #[test]
    fn accepts_the_shipped_config_map_which_has_no_namespace() {
        let shipped = include_str!("../../../istio-manifests/base/policy.yaml");
        let filled = shipped.replace("services: {}\n", "services: {backend.shop.svc.cluster.local: {retries: 2}}\n");
        assert_ne!(shipped, filled);
        assert_eq!(good(&filled), Good::ConfigMaps(1));
    }

    #[test]
    fn gives_line_and_column_of_a_null_and_of_a_duration_without_unit() {
        assert_eq!(
            refusals("services:\n  backend:\n"),
            ["services.backend: null is not allowed; allowed: a mapping, {} for the defaults at line 2, column 3"]
        );
        let duration = "services.a.resetInterval: 200 is not allowed; allowed: a duration with its unit (such as 250ms), 1ms to 1h at line 3, column 20";
        assert_eq!(refusals("services:\n  a:\n    resetInterval: 200\n"), [duration]);
        assert_eq!(
            refusals(&map("shop", "\n      a:\n        resetInterval: 200")),
            [format!("ConfigMap shop/bloc.{duration} of services.yaml")]
        );
    }

    #[test]
    fn reports_the_errors_of_all_services_and_config_maps() {
        let wrong = "{a: {retries: 11}, b: , c: {}, d: {headroom: 2}}";
        let paths = |refusals: Vec<String>| {
            refusals.iter().map(|text| text.split(": ").next().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(
            paths(refusals(&format!("services: {wrong}"))),
            ["services.a.retries", "services.b", "services.d.headroom"]
        );
        let manifests = format!("{}---\n{}", map("shop", wrong), map("cart", "{e: {retries: 11}}"));
        assert_eq!(
            paths(refusals(&manifests)),
            [
                "ConfigMap shop/bloc.services.a.retries",
                "ConfigMap shop/bloc.services.b",
                "ConfigMap shop/bloc.services.d.headroom",
                "ConfigMap cart/bloc.services.e.retries"
            ]
        );
    }

    #[test]
    fn warns_of_missing_concurrency_and_of_a_limit_below_it() {
        let text = "services: {a: {routing: bid}, b: {routing: mu}, c: {capacity: {estimator: slo, slo: 1s}}, d: {capacity: {estimator: static, limit: 2}, concurrency: 3}, e: {routing: bid, concurrency: 1}}";
        let all = warnings(text);
        let starts = [
            "services.a.routing: bid without",
            "services.b.routing: mu without",
            "services.c.capacity: slo without",
            "services.d.capacity.limit: 2 is below `concurrency`, 3",
        ];
        assert_eq!(all.len(), starts.len(), "{all:?}");
        assert!(all.iter().zip(starts).all(|(warning, start)| warning.starts_with(start)), "{all:?}");
        let shop = map("shop", "{a: {routing: bid}}");
        assert_eq!(warnings(&shop).len(), 1);
        let cluster = map("bloc-system", "{a.shop.svc.cluster.local: {concurrency: 2}}");
        assert_eq!(
            warnings(&format!("{shop}---\n{cluster}")),
            [""; 0],
            "a concurrency in the cluster's ConfigMap counts too"
        );
    }
}
