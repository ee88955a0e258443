//! JSON Schemas of the files that people write, for their editors.
//!
//! These functions generate the files in `schema/` and a table of `docs/parameters.md`; tests
//! compare them. A schema checks less than the control plane: it has no ranges of durations and no
//! format of addresses. `bloc-control-plane check` checks everything.

use crate::source::kubernetes::PolicySpec;
use bloc_policy::config::{Documented, ServiceSpec, ServicesSpec};
use schemars::JsonSchema;
use serde_json::Value;

/// The schema of a services file.
pub fn services() -> String {
    text::<ServicesSpec>("BLOC: a services file")
}

/// The schema of `services.yaml` in a ConfigMap.
pub fn policy() -> String {
    text::<PolicySpec>("BLOC: services.yaml in a ConfigMap with the label bloc.dev/policy")
}

/// The table of a service's parameters in `docs/parameters.md`.
pub fn parameters() -> String {
    let mut table = "| parameter | meaning | allowed | default |\n|---|---|---|---|\n".to_owned();
    for Documented { name, meaning, allowed, default } in ServiceSpec::documented() {
        // The page says once what a duration looks like.
        let allowed = allowed.rsplit_once("ms), ").map_or(&*allowed, |(_, range)| range);
        table += &format!("| `{name}` | {meaning} | {allowed} | {default} |\n");
    }
    table
}

fn text<T: JsonSchema>(title: &str) -> String {
    let mut schema = schemars::schema_for!(T);
    schema.insert("title".to_owned(), title.into());
    let mut schema = schema.to_value();
    unwrap(&mut schema);
    format!("{schema:#}\n")
}

/// Joins the lines of descriptions, which come from wrapped comments.
fn unwrap(schema: &mut Value) {
    match schema {
        Value::Object(members) => {
            if let Some(Value::String(text)) = members.get_mut("description") {
                *text = text.split("\n\n").map(|part| part.replace('\n', " ")).collect::<Vec<_>>().join("\n\n");
            }
            members.values_mut().for_each(unwrap);
        }
        Value::Array(items) => items.iter_mut().for_each(unwrap),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bloc_policy::config::PluginSpec;
    use bloc_policy::config::features::SERVICE;
    use std::collections::BTreeSet;

    /// What release 0.1.0 knows of a service: the paths of the fields and their allowed values.
    const SERVICE_0_1_0: &str = "
        routing retries routeRetries virtualServiceRetries retryBudget bouncePrice resetInterval
        routing=bloc routing=random routing=round_robin routing=least_request routing=mu routing=bid
        capacity capacity.estimator capacity.limit capacity.perCore capacity.interval capacity.slo
        capacity.estimator=static capacity.estimator=average capacity.estimator=slo
        headroom maxChips concurrency hold maxQueueWait bodyLimit streamIdle slo sloGrace orca
        debugHeaders endpoints endpointsByPort";
    /// The same for a plugin configuration, without its services.
    const PLUGIN_0_1_0: &str = "service services controlPlane controlPlane.cluster controlPlane.wait with";

    /// A type's fields by path, and `path=value` where only some values are allowed.
    fn members<T: JsonSchema>() -> BTreeSet<String> {
        let (whole, mut found) = (schemars::schema_for!(T).to_value(), BTreeSet::new());
        collect(&whole, &whole, "", &mut found);
        found
    }

    fn collect(schema: &Value, whole: &Value, path: &str, found: &mut BTreeSet<String>) {
        let mut value = |value: &Value| found.insert(format!("{path}={}", value.as_str().unwrap()));
        schema["enum"].as_array().into_iter().flatten().for_each(|text| {
            value(text);
        });
        if let Some(text) = schema.get("const") {
            value(text);
        }
        for (name, member) in schema["properties"].as_object().into_iter().flatten() {
            let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
            found.insert(path.clone());
            collect(member, whole, &path, found);
        }
        if let Some(name) = schema["$ref"].as_str().and_then(|at| at.strip_prefix("#/$defs/")) {
            collect(&whole["$defs"][name], whole, path, found);
        }
        for within in ["anyOf", "oneOf", "allOf"] {
            schema[within].as_array().into_iter().flatten().for_each(|one| collect(one, whole, path, found));
        }
        collect_within(&schema["items"], whole, path, found);
        collect_within(&schema["additionalProperties"], whole, path, found);
    }

    fn collect_within(items: &Value, whole: &Value, path: &str, found: &mut BTreeSet<String>) {
        if items.is_object() {
            collect(items, whole, path, found);
        }
    }

    fn words(base: &str) -> BTreeSet<String> {
        base.split_whitespace().map(str::to_owned).collect()
    }

    /// Whoever adds a field or value must say what proxies without it get.
    #[test]
    fn what_0_1_0_does_not_know_of_a_service_has_a_feature() {
        let row = |field: &str, value: Option<&str>| value.map_or(field.to_owned(), |value| format!("{field}={value}"));
        let later: BTreeSet<String> = SERVICE.iter().map(|rule| row(rule.field, rule.value)).collect();
        assert_eq!(later.len(), SERVICE.len(), "each once");
        assert!(later.is_disjoint(&words(SERVICE_0_1_0)));
        let withdrawn = ServiceSpec::WITHDRAWN.iter().map(|name| (*name).to_owned()).collect();
        let known = &words(SERVICE_0_1_0) | &later;
        assert_eq!(members::<ServiceSpec>(), &known - &withdrawn);
        assert!(withdrawn.is_subset(&known), "what no version had need not be read");
    }

    /// It reaches modules of all versions at once, and they refuse what they do not know: anything
    /// new must be below `with`.
    #[test]
    fn a_plugin_configuration_has_what_0_1_0_knows() {
        let mut found = members::<PluginSpec>();
        found.retain(|path| !path.starts_with("services."));
        assert_eq!(found, words(PLUGIN_0_1_0));
    }

    #[test]
    fn the_published_schemas_match_the_code() {
        let how = "bloc-control-plane schema FORM writes it anew";
        // Parsed, because a test dependency makes serde_json keep field order.
        let parse = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(parse(&services()), parse(include_str!("../schema/services.json")), "{how}");
        assert_eq!(parse(&policy()), parse(include_str!("../schema/policy.json")), "{how}");
    }

    #[test]
    fn the_documented_parameters_match_the_code() {
        let page = include_str!("../../docs/parameters.md");
        let (_, rest) = page.split_once("schema parameters` -->\n\n").unwrap();
        let (table, _) = rest.split_once("\n<!-- parameters: end -->").unwrap();
        assert_eq!(table, parameters(), "bloc-control-plane schema parameters writes it anew");
    }

    #[test]
    fn a_description_is_one_line_for_each_paragraph() {
        let mut schema = serde_json::json!({"a": [{"description": "one\ntwo\n\nthree\nfour"}], "b": "one\ntwo"});
        unwrap(&mut schema);
        assert_eq!(schema, serde_json::json!({"a": [{"description": "one two\n\nthree four"}], "b": "one\ntwo"}));
    }

    #[test]
    fn the_schema_contains_ranges_and_names() {
        let schema = policy();
        for text in ["\"maximum\": 1000000", "\"resetInterval\"", "\"bid\"", "\"additionalProperties\": false"] {
            assert!(schema.contains(text), "no {text} in {schema}");
        }
    }
}
