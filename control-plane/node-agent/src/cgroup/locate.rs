//! Finds the groups of a pod and of its containers, as the kubelet and the runtimes name them.
//!
//! | driver | pod | container |
//! |---|---|---|
//! | `cgroupfs` | `[burstable/\|besteffort/]pod<uid>` | `<id>` (containerd), `crio-<id>` |
//! | `systemd` | `[…-burstable.slice/\|…-besteffort.slice/]…-pod<uid with _ for ->.slice` | `cri-containerd-<id>.scope`, `crio-<id>.scope` |
//!
//! The dots stand for `kubepods`, with a prefix under the kubelet's `--cgroup-root`.

use super::tree::Tree;
use std::fs;
use std::iter;
use std::path::{Path, PathBuf};

/// The groups of a container and its pod, as paths below the tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Located {
    pub pod: PathBuf,
    pub container: PathBuf,
}

/// Finds a container by its pod's uid and its own id: none before it runs and after it ended.
///
/// Uid and id come from the API, and must not lead out of the tree: also none if they have
/// characters that the kubelet does not use.
pub fn locate(tree: &Tree, uid: &str, id: &str) -> Option<Located> {
    if !is_name(uid) || !is_name(id) {
        return None;
    }
    let root = tree.path();
    let plain = format!("pod{uid}");
    let slice = format!("-pod{}.slice", uid.replace('-', "_"));
    let is_pod = |name: &str| name == plain || name.ends_with(&slice);
    // A node whose driver was changed may have empty folders of the former one.
    let mut pods =
        iter::once(root.to_owned()).chain(entries(root, is_class)).flat_map(|folder| entries(&folder, is_pod));
    let found = |pod: PathBuf| Some((entries(&pod, |name| is_container(name, id)).pop()?, pod));
    let (container, pod) = pods.find_map(found)?;
    let below = |path: &Path| path.strip_prefix(root).ok().map(Path::to_owned);
    Some(Located { container: below(&container)?, pod: below(&pod)? })
}

fn is_name(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Whether a folder is the container's: its id, perhaps after the runtime's name. CRI-O's `conmon`
/// watches a container from a group of its own.
fn is_container(name: &str, id: &str) -> bool {
    let name = name.strip_suffix(".scope").unwrap_or(name);
    match name.strip_suffix(id) {
        Some(runtime) => runtime.is_empty() || (runtime.ends_with('-') && !runtime.ends_with("-conmon-")),
        None => false,
    }
}

/// Whether a folder has the pods of a QoS class; guaranteed pods are in the root.
fn is_class(name: &str) -> bool {
    ["burstable", "besteffort"].iter().any(|class| {
        let name = name.strip_suffix(".slice").unwrap_or(name);
        name.strip_suffix(class).is_some_and(|rest| rest.is_empty() || rest.ends_with('-'))
    })
}

fn entries(folder: &Path, wanted: impl Fn(&str) -> bool) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let wanted = entries.filter(|entry| entry.file_name().to_str().is_some_and(&wanted));
    wanted.map(|entry| entry.path()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    const UID: &str = "0a1b-22";
    const ID: &str = "c0ffee";

    fn tree(folders: &[&str]) -> (TempDir, Tree) {
        let root = tempfile::tempdir().unwrap();
        fs::write(root.path().join("cgroup.controllers"), "cpu\n").unwrap();
        for folder in folders {
            fs::create_dir_all(root.path().join(folder)).unwrap();
        }
        let tree = Tree::open(root.path(), None).unwrap();
        (root, tree)
    }

    #[track_caller]
    fn finds(pod: &str, container: &str, others: &[&str]) {
        let path = format!("{pod}/{container}");
        let (_root, tree) = tree(&[others, &[path.as_str()]].concat());
        let located = locate(&tree, UID, ID).unwrap();
        assert_eq!(located, Located { pod: pod.into(), container: path.into() });
    }

    #[test]
    fn finds_containers_of_each_class_under_the_cgroupfs_driver() {
        let others = ["burstable/podother/c0ffee", "besteffort/pod9/c0ffee", "pod0a1b/c0ffee", "xpod0a1b-22/c0ffee"];
        for pod in ["pod0a1b-22", "burstable/pod0a1b-22", "besteffort/pod0a1b-22"] {
            finds(pod, "c0ffee", &others);
        }
    }

    #[test]
    fn finds_containers_of_each_class_under_the_systemd_driver_below_any_root() {
        for root in ["kubepods", "kubelet-kubepods"] {
            for (class, pod) in [("", ""), ("-burstable", "-burstable"), ("-besteffort", "-besteffort")] {
                let folder = if class.is_empty() { String::new() } else { format!("{root}{class}.slice/") };
                let others = [
                    format!("{root}-burstable.slice/{root}-burstable-podother.slice/cri-containerd-c0ffee.scope"),
                    format!("{root}-besteffort.slice/{root}-besteffort-pod9.slice"),
                    format!("{root}-pod0a1b.slice/cri-containerd-c0ffee.scope"),
                ];
                let others: Vec<_> = others.iter().map(String::as_str).collect();
                let pod = format!("{folder}{root}{pod}-pod0a1b_22.slice");
                finds(&pod, "cri-containerd-c0ffee.scope", &others);
            }
        }
    }

    #[test]
    fn knows_the_names_of_the_runtimes_and_no_others() {
        for name in ["c0ffee", "crio-c0ffee", "crio-c0ffee.scope", "cri-containerd-c0ffee.scope", "docker-c0ffee.scope"]
        {
            assert!(is_container(name, ID), "{name}");
        }
        for name in [
            "crio-conmon-c0ffee",
            "crio-conmon-c0ffee.scope",
            "xc0ffee",
            "xc0ffee.scope",
            "c0ffee-1",
            "crio-c0ffee.slice",
            "c0ffe",
            "cgroup.procs",
        ] {
            assert!(!is_container(name, ID), "{name}");
        }
    }

    #[test]
    fn knows_the_folders_of_classes_and_no_others() {
        for name in ["burstable", "besteffort", "kubepods-burstable.slice", "kubelet-kubepods-besteffort.slice"] {
            assert!(is_class(name), "{name}");
        }
        for name in ["guaranteed", "xburstable", "kubepods-burstable-pod1.slice", "burstable.scope", "cpu.max"] {
            assert!(!is_class(name), "{name}");
        }
    }

    #[test]
    fn folders_that_another_driver_left_behind_do_not_hide_a_container() {
        let left = ["burstable/pod0a1b-22", "besteffort", "pod0a1b-22/crio-conmon-c0ffee", "kubepods-pod0a1b_22.slice"];
        let pod = "kubepods-burstable.slice/kubepods-burstable-pod0a1b_22.slice";
        finds(pod, "cri-containerd-c0ffee.scope", &left);
        finds("burstable/pod0a1b-22", "c0ffee", &[pod, "pod0a1b-22", "besteffort/pod0a1b-22"]);
    }

    #[test]
    fn what_is_not_there_is_not_found() {
        let (_root, tree) = tree(&["pod0a1b-22/other", "pod1/c0ffee"]);
        assert_eq!(locate(&tree, UID, ID), None);
        assert_eq!(locate(&tree, "2", "c0ffee"), None);
        assert!(locate(&tree, "1", "c0ffee").is_some());
        assert_eq!(locate(&tree, "0a1b-22", "cgroup"), None);
    }

    #[test]
    fn names_that_the_kubelet_does_not_give_are_refused() {
        let (_root, tree) = tree(&["pod1/c0", "pod/c0", "pod1/..x", "pod../c0", "podä/c0", "pod1_2/c0", "pod1/c_0"]);
        assert!(locate(&tree, "1", "c0").is_some());
        for (uid, id) in [
            ("", "c0"),
            ("1", ""),
            ("..", "c0"),
            ("1", "..x"),
            ("1/../pod1", "c0"),
            ("ä", "c0"),
            ("1_2", "c0"),
            ("1", "c_0"),
        ] {
            assert_eq!(locate(&tree, uid, id), None, "{uid:?}, {id:?}");
        }
    }
}
