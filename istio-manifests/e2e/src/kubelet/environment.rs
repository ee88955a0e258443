//! The environment of a container.

use crate::cluster::NODE;
use serde_json::Value;

/// `NAME=value` for each variable that the container declares, and those of every container in a
/// cluster.
pub fn variables(pod: &Value, container: &Value) -> Vec<String> {
    let own = container["env"].as_array().into_iter().flatten().filter_map(|variable| {
        let name = variable["name"].as_str()?;
        let source = &variable["valueFrom"];
        let value = if let Some(path) = source["fieldRef"]["fieldPath"].as_str() {
            field(pod, path)
        } else if let Some(resource) = source["resourceFieldRef"]["resource"].as_str() {
            resource.split_once('.').and_then(|(kind, name)| quantity(container["resources"][kind][name].as_str()?))?
        } else {
            variable["value"].as_str().unwrap_or_default().to_owned()
        };
        Some(format!("{name}={value}"))
    });
    let cluster = [
        "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned(),
        "HOME=/tmp".to_owned(),
        format!("KUBERNETES_SERVICE_HOST={NODE}"),
        "KUBERNETES_SERVICE_PORT=6443".to_owned(),
    ];
    cluster.into_iter().chain(own).collect()
}

/// Replaces `$(NAME)` in an argument.
pub fn expand(argument: &str, variables: &[String]) -> String {
    variables
        .iter()
        .filter_map(|variable| variable.split_once('='))
        .fold(argument.to_owned(), |text, (name, value)| text.replace(&format!("$({name})"), value))
}

/// A field of a pod by its path, such as `metadata.name` or `metadata.labels['app']`; all labels
/// together give one line each.
pub fn field(pod: &Value, path: &str) -> String {
    if let Some((parent, key)) = path.strip_suffix("']").and_then(|path| path.split_once("['")) {
        return lookup(pod, parent)[key].as_str().unwrap_or_default().to_owned();
    }
    match lookup(pod, path) {
        Value::String(text) => text.clone(),
        Value::Object(map) => map.iter().map(|(name, value)| format!("{name}={value}\n")).collect(),
        _ => String::new(),
    }
}

fn lookup<'a>(pod: &'a Value, path: &str) -> &'a Value {
    path.split('.').fold(pod, |value, part| &value[part])
}

/// A quantity in whole units, rounded up: `2`, `100m`, `128Mi`.
fn quantity(text: &str) -> Option<String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.parse().ok()?;
    let whole = match unit {
        "" => number,
        "m" => number.div_ceil(1_000),
        "Ki" => number << 10,
        "Mi" => number << 20,
        "Gi" => number << 30,
        _ => return None,
    };
    Some(whole.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn variables_come_from_values_fields_and_resources() {
        let pod = json!({"metadata": {"name": "a", "labels": {"app": "x", "b": "y"}}, "status": {"podIP": "10.0.0.1"}});
        let container = json!({
            "resources": {"limits": {"cpu": "1500m", "memory": "1Gi"}},
            "env": [
                {"name": "PLAIN", "value": "v"},
                {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
                {"name": "APP", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}},
                {"name": "CPU", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu"}}},
                {"name": "MEMORY", "valueFrom": {"resourceFieldRef": {"resource": "limits.memory"}}},
                {"name": "NONE", "valueFrom": {"resourceFieldRef": {"resource": "requests.cpu"}}},
            ],
        });
        let variables = variables(&pod, &container);
        assert_eq!(variables[4..], ["PLAIN=v", "IP=10.0.0.1", "APP=x", "CPU=2", "MEMORY=1073741824"]);
        assert_eq!(expand("$(APP).svc/$(IP)/$(OTHER)", &variables), "x.svc/10.0.0.1/$(OTHER)");
        assert_eq!(field(&pod, "metadata.labels"), "app=\"x\"\nb=\"y\"\n");
    }
}
