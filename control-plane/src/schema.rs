//! The JSON Schemas of the files that people write, for their editors.
//!
//! The files in `schema/` are the output of these functions; a test compares them. A schema knows
//! less than the control plane: it has no ranges of durations and no form of addresses.
//! `bloc-control-plane check` checks everything.

use crate::source::kubernetes::PolicySpec;
use bloc_policy::config::ServicesSpec;
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

fn text<T: JsonSchema>(title: &str) -> String {
    let mut schema = schemars::schema_for!(T);
    schema.insert("title".to_owned(), title.into());
    let mut schema = schema.to_value();
    unwrap(&mut schema);
    format!("{schema:#}\n")
}

/// A description is a comment of the code, whose lines end somewhere.
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

    #[test]
    fn the_published_schemas_match_the_code() {
        let how = "bloc-control-plane schema FORM writes it anew";
        // Parsed: a dependency of the tests makes serde_json keep the order of fields.
        let parse = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(parse(&services()), parse(include_str!("../schema/services.json")), "{how}");
        assert_eq!(parse(&policy()), parse(include_str!("../schema/policy.json")), "{how}");
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
