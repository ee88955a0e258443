//! The configuration that an Envoy has got from istiod, from its `/config_dump`.

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// A configuration dump.
pub struct Dump(Value);

/// Where an Envoy keeps resources that are not in force.
const NOT_IN_FORCE: [&str; 3] = ["error_state", "warming_state", "draining_state"];

impl Dump {
    /// Parses an Envoy's answer.
    ///
    /// # Errors
    /// It is not JSON.
    pub fn read(text: &str) -> Result<Self> {
        Ok(Self(serde_json::from_str(text)?))
    }

    /// The resource in force of this kind (`Listener`, `Cluster`, `RouteConfiguration`,
    /// `TypedExtensionConfig`) and name.
    ///
    /// # Errors
    /// There is none.
    pub fn resource(&self, kind: &str, name: &str) -> Result<&Value> {
        let is_it = |value: &Value| {
            value["name"] == name && value["@type"].as_str().is_some_and(|found| found.rsplit('.').next() == Some(kind))
        };
        find(&self.0, &is_it).with_context(|| format!("there is no {kind} {name:?}"))
    }

    /// Checks that this resource contains this text in its JSON, which is written without spaces.
    ///
    /// # Errors
    /// It does not.
    pub fn contains(&self, kind: &str, name: &str, text: &str) -> Result<()> {
        ensure!(self.resource(kind, name)?.to_string().contains(text), "{kind} {name:?} is without {text}");
        Ok(())
    }

    /// Why updates were refused.
    pub fn refused(&self) -> Vec<String> {
        let mut found = Vec::new();
        collect(&self.0, "error_state", &mut found);
        found
    }
}

fn find<'a>(value: &'a Value, is_it: &impl Fn(&Value) -> bool) -> Option<&'a Value> {
    match value {
        Value::Object(_) if is_it(value) => Some(value),
        Value::Object(fields) => (fields.iter())
            .filter(|(name, _)| !NOT_IN_FORCE.contains(&name.as_str()))
            .find_map(|(_, value)| find(value, is_it)),
        Value::Array(values) => values.iter().find_map(|value| find(value, is_it)),
        _ => None,
    }
}

fn collect(value: &Value, field: &str, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                if name == field {
                    found.push(value["details"].to_string());
                } else {
                    collect(value, field, found);
                }
            }
        }
        Value::Array(values) => values.iter().for_each(|value| collect(value, field, found)),
        _ => {}
    }
}
