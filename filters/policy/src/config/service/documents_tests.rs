//! What people are told of the parameters: the schema and the table that are committed, and the
//! control plane's page.

use super::*;
use serde_json::{Value, json};
use std::path::Path;

fn committed(file: &str) -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(file)).unwrap()
}

#[test]
fn the_schema_has_each_parameter_with_its_range() {
    let committed: Value = serde_json::from_str(&committed("control-plane/schema/services.json")).unwrap();
    let own = schemars::schema_for!(ServiceSpec).to_value();
    assert_eq!(own["properties"], committed["$defs"]["ServiceSpec"]["properties"]);
    assert_eq!(own["properties"].as_object().unwrap().len(), ServiceSpec::NAMES.len());
}

#[test]
fn the_table_has_each_parameter_with_its_range_and_default() {
    let page = committed("docs/parameters.md");
    let documented = ServiceSpec::documented();
    for Documented { name, meaning, allowed, default } in &documented {
        let row = page.lines().find(|line| line.starts_with(&format!("| `{name}` | "))).expect(name);
        let columns: Vec<&str> = row.trim_matches(['|', ' ']).split(" | ").collect();
        assert_eq!((columns[1], columns[3]), (meaning.as_str(), default.as_str()));
        assert!(allowed.ends_with(columns[2]) && columns[2].len() > 5, "{name}: {allowed}");
    }
    assert_eq!(documented.len(), ServiceSpec::NAMES.len() - 3, "all but the lists");
}

#[test]
fn the_page_shows_values_as_people_write_them() {
    let shown = |spec: Value| {
        let spec: ServiceSpec = serde_json::from_value(spec).unwrap();
        let checked = spec.validate().unwrap();
        spec.shown(&checked)
    };
    let all = shown(json!({
        "routing": "mu", "concurrency": 4, "headroom": 0.5, "resetInterval": "1500ms", "orca": true,
        "capacity": {"estimator": "static", "perCore": 2.5, "limit": 9},
    }));
    for (name, value, written) in [
        ("routing", "mu", true),
        ("capacity", "2.5 requests per core, at most 9", true),
        ("concurrency", "4", true),
        ("hold", "true", false),
        ("slo", "none", false),
        ("resetInterval", "1s 500ms", true),
        ("headroom", "0.5", true),
        ("bouncePrice", "0.2", false),
        ("orca", "true", true),
    ] {
        assert!(all.contains(&(name, value.to_owned(), written)), "{name}: {all:?}");
    }
    for (capacity, text) in [
        (json!(null), "no limit"),
        (json!({"estimator": "static", "limit": 7}), "7 requests"),
        (json!({"estimator": "static", "perCore": 2}), "2 requests per core"),
        (json!({"estimator": "average"}), "average, every 30s"),
        (json!({"estimator": "slo", "slo": "2s"}), "as many as finish within 2s"),
    ] {
        assert_eq!(shown(json!({"capacity": capacity}))[1].1, text);
    }
}
