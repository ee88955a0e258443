//! What a proxy gets of a service that uses fields or values which the proxy lacks.

use super::Features;
use super::table::{Instead, Rule};
use crate::config::ServiceSpec;
use serde_json::Value;
use std::iter::successors;

/// A service as a proxy gets it.
#[derive(Clone, Debug, PartialEq)]
pub enum Fitted {
    /// As it is.
    Whole,
    /// Without the fields that may be omitted.
    Without(Box<ServiceSpec>),
    /// Not at all.
    Withheld,
}

/// The features that a service needs: those of the fields and values that it uses.
pub fn needs(spec: &ServiceSpec, rules: &[Rule]) -> Features {
    let spec = json(spec, rules);
    rules.iter().filter(|rule| is_used(rule, &spec)).map(|rule| rule.feature).collect()
}

/// The service for a proxy with these features.
pub fn fit(spec: &ServiceSpec, features: &Features, rules: &[Rule]) -> Fitted {
    let json = json(spec, rules);
    let lacking: Vec<&Rule> = rules.iter().filter(|rule| !features.has(rule.feature) && is_used(rule, &json)).collect();
    if lacking.is_empty() {
        return Fitted::Whole;
    }
    if lacking.iter().any(|rule| rule.instead == Instead::Withhold) {
        return Fitted::Withheld;
    }
    let less = lacking.iter().try_fold(spec.clone(), |spec, rule| omit(&spec, rule.field));
    less.map_or(Fitted::Withheld, |spec| Fitted::Without(Box::new(spec)))
}

/// The service without this field. If that cannot be read, without the one around it, and so on.
fn omit(spec: &ServiceSpec, field: &str) -> Option<ServiceSpec> {
    let whole = serde_json::to_value(spec).ok()?;
    let mut fields = successors(Some(field), |field| Some(field.rsplit_once('.')?.0));
    fields.find_map(|field| {
        let (mut less, mut names) = (whole.clone(), field.split('.'));
        let name = names.next_back()?;
        let around = names.try_fold(&mut less, |value, name| value.get_mut(name))?;
        around.as_object_mut()?.remove(name);
        serde_json::from_value(less).ok()
    })
}

/// Nothing without rules: then nobody looks at it.
fn json(spec: &ServiceSpec, rules: &[Rule]) -> Value {
    (!rules.is_empty()).then(|| serde_json::to_value(spec).ok()).flatten().unwrap_or_default()
}

fn is_used(rule: &Rule, spec: &Value) -> bool {
    let found = rule.field.split('.').try_fold(spec, |value, name| value.get(name));
    found.is_some_and(|found| rule.value.is_none_or(|value| *found == value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::ConfigError;

    const fn rule(field: &'static str, value: Option<&'static str>, instead: Instead) -> Rule {
        Rule { field, value, feature: "spare", instead }
    }

    /// As if these had come with a feature.
    const RULES: &[Rule] = &[
        rule("orca", None, Instead::Omit),
        rule("routing", Some("bid"), Instead::Withhold),
        rule("capacity.interval", None, Instead::Omit),
        rule("capacity.perCore", None, Instead::Omit),
        rule("capacity.slo", None, Instead::Omit),
    ];

    fn spec(json: &str) -> ServiceSpec {
        ConfigError::read_json(json.as_bytes()).unwrap()
    }

    fn without(json: &str) -> Fitted {
        Fitted::Without(Box::new(spec(json)))
    }

    #[test]
    fn a_proxy_gets_what_it_knows() {
        let old = |json: &str| fit(&spec(json), &Features::default(), RULES);
        assert_eq!(old(r#"{"retries":2,"routing":"mu"}"#), Fitted::Whole);
        assert_eq!(old(r#"{"retries":2,"orca":true}"#), without(r#"{"retries":2}"#));
        assert_eq!(old(r#"{"orca":false}"#), without("{}"), "a default, but written");
        assert_eq!(old(r#"{"routing":"bid"}"#), Fitted::Withheld);
        assert_eq!(old(r#"{"routing":"bid","orca":true}"#), Fitted::Withheld);
        let average = r#"{"capacity":{"estimator":"average"},"retries":2}"#;
        assert_eq!(old(average), Fitted::Whole);
        let interval = r#"{"capacity":{"estimator":"average","interval":"5s"},"retries":2}"#;
        assert_eq!(old(interval), without(average), "the rest of the capacity can be read");
        let slo = r#"{"capacity":{"estimator":"slo","slo":"2s"},"orca":true,"retries":2}"#;
        assert_eq!(old(slo), without(r#"{"retries":2}"#), "the rest of the capacity cannot");
    }

    #[test]
    fn omitted_fields_leave_the_rest_of_the_fields_around_them_if_that_is_valid() {
        let old = |json: &str| fit(&spec(json), &Features::default(), RULES);
        let limit = r#"{"retries":2,"capacity":{"estimator":"static","limit":9}}"#;
        assert_eq!(old(limit), Fitted::Whole);
        let per_core = r#"{"retries":2,"capacity":{"estimator":"static","perCore":8}}"#;
        assert_eq!(old(per_core), without(r#"{"retries":2}"#));
        let both = r#"{"orca":true,"retries":2,"capacity":{"estimator":"static","limit":9,"perCore":8}}"#;
        assert_eq!(old(both), without(limit));
    }

    #[test]
    fn a_proxy_with_the_feature_gets_everything() {
        for json in [r#"{"routing":"bid","orca":true}"#, "{}", r#"{"orca":false}"#] {
            assert_eq!(fit(&spec(json), &Features::from_iter(["spare"]), RULES), Fitted::Whole, "{json}");
        }
    }

    #[test]
    fn a_service_needs_the_features_of_what_it_uses() {
        let spare = Features::from_iter(["spare"]);
        for (json, needed) in [
            ("{}", Features::default()),
            (r#"{"routing":"mu","capacity":{"estimator":"average"}}"#, Features::default()),
            (r#"{"routing":"bid"}"#, spare.clone()),
            (r#"{"capacity":{"estimator":"average","interval":"5s"}}"#, spare),
        ] {
            assert_eq!(needs(&spec(json), RULES), needed, "{json}");
        }
    }
}
