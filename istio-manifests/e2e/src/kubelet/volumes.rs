//! Volumes: `configMap`, `projected`, `downwardAPI`, `secret` (only missing ones), `emptyDir` and
//! `hostPath`, as folders that are mounted at the containers' paths.
//!
//! Folders of the host are below [`HOST`]. Containers share the machine's file system, and only the
//! folders of [`REPLACED`] are a container's own. A volume at any other path, such as `/kubepods`,
//! is mounted below [`MOVED`] instead, and that path in the container's arguments is changed to it.

use super::Sandbox;
use super::environment::field;
use super::text::text;
use crate::api::Api;
use crate::inside::{REPLACED, SCRATCH};
use anyhow::{Context, Result, bail, ensure};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Where the host's folders are.
pub const HOST: &str = "/run/bloc-e2e/host";
/// Below [`SCRATCH`]: the place of volumes whose own path is the machine's.
const MOVED: &str = "moved";

type Files = BTreeMap<String, Vec<u8>>;

/// Makes the pod's volumes in `folder` and mounts them in its sandbox.
///
/// # Errors
/// A ConfigMap that is not optional does not exist, or the API server refuses a token.
pub async fn mount(api: &Api, pod: &Value, sandbox: &Sandbox, folder: &Path) -> Result<()> {
    for volume in array(&pod["spec"]["volumes"]) {
        let place = folder.join(text(&volume["name"]));
        if volume["hostPath"].is_object() {
            of_the_host(&volume["hostPath"], &place)?;
            continue;
        }
        std::fs::create_dir_all(&place)?;
        for (name, content) in files(api, pod, volume).await? {
            let file = place.join(name);
            std::fs::create_dir_all(file.parent().unwrap_or(&place))?;
            std::fs::write(file, content)?;
        }
    }
    // Istio's agent and Envoy run as their own user and write into their volumes. Links, which lead
    // to the host, stay as they are.
    let mut steps = format!("chmod -R a+rwX '{}'\n", folder.display());
    let mut mounts: BTreeMap<String, (PathBuf, bool)> = BTreeMap::new();
    let containers = array(&pod["spec"]["initContainers"]).chain(array(&pod["spec"]["containers"]));
    for mount in containers.flat_map(|container| array(&container["volumeMounts"])) {
        let source = folder.join(text(&mount["name"])).canonicalize()?;
        mounts.insert(moved(&text(&mount["mountPath"])), (source, mount["readOnly"] == true));
    }
    // In the order of their paths, so that parents are mounted before their children.
    for (path, (source, read_only)) in mounts {
        steps += &format!("mkdir -p '{path}'\nmount --bind '{}' '{path}'\n", source.display());
        if read_only {
            steps += &format!("mount -o remount,bind,ro '{path}'\n");
        }
    }
    sandbox.script(&steps)
}

/// Links to a folder of the host.
fn of_the_host(source: &Value, place: &Path) -> Result<()> {
    let path = format!("{HOST}{}", text(&source["path"]));
    if source["type"] == "DirectoryOrCreate" {
        std::fs::create_dir_all(&path)?;
    }
    ensure!(Path::new(&path).is_dir(), "hostPath: there is no {path}");
    std::fs::create_dir_all(place.parent().context("a folder")?)?;
    Ok(symlink(path, place)?)
}

/// Where a path of a container is.
pub fn moved(path: &str) -> String {
    if REPLACED.iter().any(|folder| Path::new(path).starts_with(folder)) {
        path.to_owned()
    } else {
        format!("{SCRATCH}/{MOVED}{path}")
    }
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
    // As the kubelet asks: so the token names the pod and its node.
    let metadata = &pod["metadata"];
    let bound = json!({"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]});
    let spec = json!({"audiences": audiences, "boundObjectRef": bound});
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec});
    let path = format!("/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token");
    let answer = api.send(reqwest::Method::POST, &path, "application/json", &request).await?;
    Ok(text(&answer["status"]["token"]))
}

/// The values of a list, if there is one.
pub fn array(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}
