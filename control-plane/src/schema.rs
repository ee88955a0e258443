//! The JSON Schemas of what people write, for their editors.
//!
//! The files in `schema/` are what these functions return; a test fails if they are not. A schema
//! knows less than the control plane: it says nothing of the range of a duration or of an address.
//! `bloc-control-plane check` says it all.

use crate::source::kubernetes::PolicySpec;
use bloc_policy::config::ServicesSpec;
use schemars::JsonSchema;

/// Of a services file.
pub fn services() -> String {
    text::<ServicesSpec>("BLOC: a services file")
}

/// Of `services.yaml` in a ConfigMap.
pub fn policy() -> String {
    text::<PolicySpec>("BLOC: services.yaml in a ConfigMap with the label bloc.dev/policy")
}

fn text<T: JsonSchema>(title: &str) -> String {
    let mut schema = schemars::schema_for!(T);
    schema.insert("title".to_owned(), title.into());
    format!("{:#}\n", schema.as_value())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_published_schemas_match_the_code() {
        let how = "bloc-control-plane schema FORM writes it anew";
        // Parsed: a dependency of the tests makes serde_json keep the order of fields.
        let parse = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(parse(&services()), parse(include_str!("../schema/services.json")), "{how}");
        assert_eq!(parse(&policy()), parse(include_str!("../schema/policy.json")), "{how}");
    }

    #[test]
    fn the_schema_contains_ranges_and_names() {
        let schema = policy();
        for text in ["\"maximum\": 1000000", "\"resetInterval\"", "\"bid\"", "\"additionalProperties\": false"] {
            assert!(schema.contains(text), "no {text} in {schema}");
        }
    }
}
