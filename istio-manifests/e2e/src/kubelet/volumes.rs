//! Volumes: `configMap`, `projected`, `downwardAPI`, `secret` (only missing ones) and `emptyDir`,
//! as folders that are mounted at the containers' paths.

use super::Sandbox;
use super::environment::field;
use super::text::text;
use crate::api::Api;
use anyhow::{Context, Result, bail};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

type Files = BTreeMap<String, Vec<u8>>;

/// Makes the pod's volumes in `folder` and mounts them in its sandbox.
///
/// # Errors
/// A ConfigMap that is not optional does not exist, or the API server refuses a token.
pub async fn mount(api: &Api, pod: &Value, sandbox: &Sandbox, folder: &Path) -> Result<()> {
    for volume in array(&pod["spec"]["volumes"]) {
        let place = folder.join(text(&volume["name"]));
        std::fs::create_dir_all(&place)?;
        for (name, content) in files(api, pod, volume).await? {
            let file = place.join(name);
            std::fs::create_dir_all(file.parent().unwrap_or(&place))?;
            std::fs::write(file, content)?;
        }
    }
    // Istio's agent and Envoy run as their own user and write into their volumes.
    let mut steps = format!("chmod -R a+rwX '{}'\n", folder.display());
    let containers = array(&pod["spec"]["initContainers"]).chain(array(&pod["spec"]["containers"]));
    let mut mounts: BTreeMap<String, String> = BTreeMap::new();
    for mount in containers.flat_map(|container| array(&container["volumeMounts"])) {
        mounts.insert(text(&mount["mountPath"]), text(&mount["name"]));
    }
    // In the order of their paths, so that parents are mounted before their children.
    for (path, name) in mounts {
        let source = folder.join(name);
        steps += &format!("mkdir -p '{path}'\nmount --bind '{}' '{path}'\n", source.display());
    }
    sandbox.script(&steps)
}

async fn files(api: &Api, pod: &Value, volume: &Value) -> Result<Files> {
    let mut files = Files::new();
    if let Value::Object(source) = &volume["configMap"] {
        files.extend(config_map(api, pod, &json!(source)).await?);
    }
    for item in array(&volume["downwardAPI"]["items"]) {
        files.insert(text(&item["path"]), field(pod, &text(&item["fieldRef"]["fieldPath"])).into_bytes());
    }
    if volume["secret"].is_object() && volume["secret"]["optional"] != true {
        bail!("secrets are not made here: {}", volume["name"]);
    }
    for source in array(&volume["projected"]["sources"]) {
        if source["configMap"].is_object() {
            files.extend(config_map(api, pod, &source["configMap"]).await?);
        }
        for item in array(&source["downwardAPI"]["items"]) {
            files.insert(text(&item["path"]), field(pod, &text(&item["fieldRef"]["fieldPath"])).into_bytes());
        }
        if source["serviceAccountToken"].is_object() {
            let wanted = &source["serviceAccountToken"];
            files.insert(text(&wanted["path"]), token(api, pod, wanted).await?.into_bytes());
        }
    }
    Ok(files)
}

async fn config_map(api: &Api, pod: &Value, source: &Value) -> Result<Files> {
    let (namespace, name) = (text(&pod["metadata"]["namespace"]), text(&source["name"]));
    let path = format!("/api/v1/namespaces/{namespace}/configmaps/{name}");
    let optional = source["optional"] == true;
    // istiod or the controller manager may be about to make it.
    let waits = if optional { 1 } else { 100 };
    for _ in 0..waits {
        if let Some(found) = api.get(&path).await? {
            return select(source, &found);
        }
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    if optional { Ok(Files::new()) } else { bail!("{path} does not exist") }
}

/// The files of a ConfigMap, all or the selected items.
fn select(source: &Value, found: &Value) -> Result<Files> {
    let mut all = Files::new();
    for (name, value) in found["data"].as_object().into_iter().flatten() {
        all.insert(name.clone(), text(value).into_bytes());
    }
    for (name, value) in found["binaryData"].as_object().into_iter().flatten() {
        all.insert(name.clone(), STANDARD.decode(text(value))?);
    }
    if !source["items"].is_array() {
        return Ok(all);
    }
    let chosen = array(&source["items"]).map(|item| {
        let content = all.get(&text(&item["key"])).with_context(|| format!("no key {}", item["key"]))?;
        Ok((text(&item["path"]), content.clone()))
    });
    chosen.collect()
}

async fn token(api: &Api, pod: &Value, wanted: &Value) -> Result<String> {
    let namespace = text(&pod["metadata"]["namespace"]);
    let account = pod["spec"]["serviceAccountName"].as_str().unwrap_or("default");
    let audiences = wanted["audience"].as_str().map(|audience| vec![audience]);
    let request =
        json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"audiences": audiences}});
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
    let answer = api.send(reqwest::Method::POST, &path, "application/json", &request).await?;
    Ok(text(&answer["status"]["token"]))
}

fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}
