//! The targets that Prometheus' discovery of pods finds: one for each container port, with
//! everything known about the pod as labels.

use anyhow::Result;
use serde_json::{Map, Value, json};
use std::path::Path;

/// Writes the targets of these pods if they differ; Prometheus reloads changed files.
///
/// # Errors
/// The file cannot be written.
pub fn write(pods: &[Value], file: &Path) -> Result<()> {
    let targets = Value::from(pods.iter().flat_map(targets).collect::<Vec<_>>()).to_string();
    if std::fs::read_to_string(file).is_ok_and(|now| now == targets) {
        return Ok(());
    }
    // Prometheus reads only complete files under the final name.
    let part = file.with_extension("part");
    std::fs::write(&part, targets)?;
    Ok(std::fs::rename(part, file)?)
}

fn targets(pod: &Value) -> Vec<Value> {
    let (metadata, status) = (&pod["metadata"], &pod["status"]);
    let Some(address) = status["podIP"].as_str() else { return Vec::new() };
    let mut about = Map::new();
    let mut say = |name: &str, value: &Value| {
        about.insert(format!("__meta_kubernetes_{name}"), json!(value.as_str().unwrap_or_default()));
    };
    say("namespace", &metadata["namespace"]);
    say("pod_name", &metadata["name"]);
    say("pod_ip", &status["podIP"]);
    say("pod_phase", &status["phase"]);
    for (kind, values) in [("label", &metadata["labels"]), ("annotation", &metadata["annotations"])] {
        for (name, value) in values.as_object().into_iter().flatten() {
            let name = sanitized(name);
            say(&format!("pod_{kind}_{name}"), value);
            say(&format!("pod_{kind}present_{name}"), &json!("true"));
        }
    }
    let containers = ["containers", "initContainers"].into_iter().flat_map(|kind| array(&pod["spec"][kind]));
    let ports = containers.flat_map(|container| array(&container["ports"]).map(move |port| (container, port)));
    let target = |(container, port): (&Value, &Value)| {
        let mut labels = about.clone();
        let number = &port["containerPort"];
        for (name, value) in [("name", &container["name"]), ("port_name", &port["name"])] {
            labels.insert(format!("__meta_kubernetes_pod_container_{name}"), json!(value.as_str().unwrap_or_default()));
        }
        labels.insert("__meta_kubernetes_pod_container_port_number".into(), json!(number.to_string()));
        json!({"targets": [format!("{address}:{number}")], "labels": labels})
    };
    ports.map(target).collect()
}

/// A Kubernetes name as part of a label's name.
pub fn sanitized(name: &str) -> String {
    name.chars().map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '_' }).collect()
}

fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_port_of_a_pod_with_an_address_is_a_target() {
        let pod = json!({
            "metadata": {"name": "p", "namespace": "n", "labels": {"bloc.dev/proxy": "enabled"}, "annotations": {"a/b": "c"}},
            "spec": {
                "containers": [{"name": "app", "ports": [{"name": "http", "containerPort": 80}, {"containerPort": 81}]}],
                "initContainers": [{"name": "proxy", "ports": [{"name": "stats", "containerPort": 15090}]}, {"name": "init"}],
            },
            "status": {"podIP": "10.0.0.1", "phase": "Running"},
        });
        let found = targets(&pod);
        let addresses: Vec<_> = found.iter().map(|target| target["targets"][0].as_str().unwrap()).collect();
        assert_eq!(addresses, ["10.0.0.1:80", "10.0.0.1:81", "10.0.0.1:15090"]);
        let of = |at: usize, name: &str| found[at]["labels"][format!("__meta_kubernetes_{name}")].clone();
        assert_eq!(
            [of(2, "pod_container_port_name"), of(2, "pod_container_name"), of(1, "pod_container_port_name")],
            ["stats", "proxy", ""]
        );
        assert_eq!([of(0, "pod_label_bloc_dev_proxy"), of(0, "pod_labelpresent_bloc_dev_proxy")], ["enabled", "true"]);
        assert_eq!([of(0, "pod_annotation_a_b"), of(0, "namespace"), of(0, "pod_phase")], ["c", "n", "Running"]);
        assert_eq!(targets(&json!({"status": {}})), Vec::<Value>::new());
    }
}
