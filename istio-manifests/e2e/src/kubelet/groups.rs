//! The control groups of pods: files in the place of the kernel's version 2, as the cgroup driver
//! `systemd` names them. Nothing counts in them, so all containers are idle.

use super::text::text;
use super::volumes::{HOST, array};
use anyhow::Result;
use serde_json::Value;
use std::fs;
use std::path::PathBuf;

/// The kubelet's folder on the host.
const TREE: &str = "/sys/fs/cgroup/kubepods.slice";
/// The files of a group, with what is in them at first.
const FILES: [(&str, &str); 4] = [
    ("cpu.max", "max 100000\n"),
    ("cpu.stat", "usage_usec 0\nnr_periods 0\nnr_throttled 0\n"),
    ("cpu.weight", "100\n"),
    ("cgroup.procs", ""),
];

/// The id of the `nth` container of a pod, as a runtime chooses them.
pub fn id(pod: &Value, nth: usize) -> String {
    format!("{}{nth:032x}", text(&pod["metadata"]["uid"]).replace('-', ""))
}

/// Makes the folder of all pods.
///
/// # Errors
/// A file cannot be written.
pub fn make_tree() -> Result<()> {
    let tree = PathBuf::from(format!("{HOST}{TREE}"));
    fs::create_dir_all(&tree)?;
    Ok(fs::write(tree.join("cgroup.controllers"), "cpu memory\n")?)
}

/// Makes the groups of a pod, without quotas.
///
/// # Errors
/// A file cannot be written.
pub fn make(pod: &Value) -> Result<()> {
    let slice = text(&pod["metadata"]["uid"]).replace('-', "_");
    let folder = format!("{HOST}{TREE}/kubepods-burstable.slice/kubepods-burstable-pod{slice}.slice");
    let containers = array(&pod["spec"]["containers"]).enumerate();
    let scopes = containers.map(|(nth, _)| format!("{folder}/cri-containerd-{}.scope", id(pod, nth)));
    for group in [folder.clone()].into_iter().chain(scopes) {
        fs::create_dir_all(&group)?;
        for (name, content) in FILES {
            fs::write(format!("{group}/{name}"), content)?;
        }
    }
    Ok(())
}
