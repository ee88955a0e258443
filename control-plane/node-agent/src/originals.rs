//! What the groups had before the agent changed them, in a file for each resource on the host.
//!
//! A group is in the file before its first change, so that whoever comes next can put it back: the
//! agent when it ends, its [guardian](crate::guardian) when the agent dies, `bloc-node-agent
//! restore`, or the next start.
//!
//! - *Release*: each group gets the larger of its original and what it has now, of CPU shares its
//!   original. Nothing is taken from a container that it may need, and nothing needs an agent any
//!   more. The file stays: the next start knows the originals from it.
//! - *Restore*: each group gets its original. The file is empty then. A limit of memory below what
//!   is in use would kill: it is an error, and the group stays in the file.
//!
//! If a setting changed between a release and the next start, somebody else changed it, and it is
//! the original from then on. After a crash nobody can tell, and the original stays what it was.

use crate::cgroup::{GroupError, Tree};
use crate::setting::Setting;
use bloc_daemon::file::replace;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The end of the name to which a file that cannot be understood is moved.
const UNREADABLE: &str = "unreadable.json";
/// Where Linux says which boot this is.
const BOOT: &str = "/proc/sys/kernel/random/boot_id";

/// A pod's group or a container's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    /// A pod's.
    Pod,
    /// A container's.
    Container,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Entry<S> {
    kind: Kind,
    original: S,
    /// What a release has left; none while an agent runs, and after a crash.
    #[serde(default = "Option::default", skip_serializing_if = "Option::is_none")]
    released: Option<S>,
}

impl<S: Setting> Entry<S> {
    /// The original of a group which has `now` is that, if somebody has changed it since the
    /// release.
    fn resolve(&mut self, now: S) {
        if let Some(released) = self.released.take() {
            self.original = now.adopted(released, self.original);
        }
    }
}

/// The file. A newer agent may have written more into it; that is ignored.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Contents<G> {
    /// The boot of the kernel: groups do not survive it, though the kubelet gives pods the same
    /// names again.
    boot: String,
    groups: G,
}

/// The file cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}: {error}", path.display())]
pub struct StateError {
    path: PathBuf,
    error: io::Error,
}

impl StateError {
    pub(crate) fn new(path: &Path, error: io::Error) -> Self {
        Self { path: path.to_owned(), error }
    }
}

/// The originals of one resource, by the path of the group below the tree.
#[derive(Debug)]
pub struct Originals<S> {
    path: PathBuf,
    boot: String,
    entries: BTreeMap<PathBuf, Entry<S>>,
    /// Entries that are not understood, which stay in the file.
    others: BTreeMap<PathBuf, serde_json::Value>,
    problems: Vec<String>,
    /// Whether the file says something else.
    changed: bool,
}

impl<S: Setting> Originals<S> {
    /// Reads the file in this directory, if there is one. One that cannot be understood is moved
    /// aside, and logged.
    ///
    /// # Errors
    /// The directory or the file cannot be read.
    pub fn open(directory: &Path) -> Result<Self, StateError> {
        let path = directory.join(S::FILE);
        let failed = |error| StateError { path: path.clone(), error };
        fs::create_dir_all(directory).map_err(failed)?;
        let bytes = match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::empty(path)),
            read => read.map_err(failed)?,
        };
        let mut originals = Self::empty(path.clone());
        match serde_json::from_slice::<Contents<BTreeMap<PathBuf, serde_json::Value>>>(&bytes) {
            Ok(contents) if originals.is_of_another(&contents.boot) => {}
            Ok(contents) => {
                for (group, entry) in contents.groups {
                    match serde_json::from_value(entry.clone()) {
                        Ok(entry) => drop(originals.entries.insert(group, entry)),
                        // Of a newer agent, perhaps, which then finds it again.
                        Err(error) => {
                            let problem = format!("{}: {}: {error}", originals.path.display(), group.display());
                            tracing::error!(problem, "not understood");
                            originals.problems.push(problem);
                            originals.others.insert(group, entry);
                        }
                    }
                }
            }
            Err(error) => {
                let aside = path.with_extension(UNREADABLE);
                let problem = format!("{}: {error}; moved to {}", path.display(), aside.display());
                tracing::error!(problem, "not understood");
                originals.problems.push(problem);
                fs::rename(&path, aside).map_err(failed)?;
            }
        }
        Ok(originals)
    }

    /// Without an id, all boots are the same.
    fn is_of_another(&self, boot: &str) -> bool {
        !boot.is_empty() && !self.boot.is_empty() && boot != self.boot
    }

    /// What could not be understood.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    fn empty(path: PathBuf) -> Self {
        let boot = fs::read_to_string(BOOT).unwrap_or_default().trim().to_owned();
        Self { path, boot, entries: BTreeMap::new(), others: BTreeMap::new(), problems: Vec::new(), changed: false }
    }

    /// The original of a group which has `now`, and which an agent may change from now on.
    pub fn take_over(&mut self, group: &Path, now: S) -> S {
        match self.entries.get_mut(group) {
            None => now,
            Some(entry) => {
                self.changed |= entry.released.is_some();
                entry.resolve(now);
                entry.original
            }
        }
    }

    /// Remembers the original of a group; [`Self::save`] makes it last.
    pub fn remember(&mut self, group: &Path, kind: Kind, original: S) {
        self.entries.insert(group.to_owned(), Entry { kind, original, released: None });
        self.changed = true;
    }

    /// Whether a group is remembered.
    pub fn has(&self, group: &Path) -> bool {
        self.entries.contains_key(group)
    }

    /// Somebody else has given a group that is remembered something else.
    pub fn replace(&mut self, group: &Path, original: S) {
        if let Some(entry) = self.entries.get_mut(group) {
            entry.original = original;
            self.changed = true;
        }
    }

    /// Forgets a group that is as it was, or gone.
    pub fn forget(&mut self, group: &Path) {
        self.changed |= self.entries.remove(group).is_some();
    }

    /// Whether [`Self::save`] has something to write.
    pub const fn is_changed(&self) -> bool {
        self.changed
    }

    /// Whether no group is remembered.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Writes the file: another one, which then takes its name.
    ///
    /// # Errors
    /// It cannot be written. The last one stays.
    pub fn save(&mut self) -> Result<(), StateError> {
        let failed = |error| StateError { path: self.path.clone(), error };
        let mut groups = self.others.clone();
        for (group, entry) in &self.entries {
            groups.insert(group.clone(), serde_json::to_value(entry).map_err(|error| failed(error.into()))?);
        }
        let text = serde_json::to_vec_pretty(&Contents { boot: self.boot.clone(), groups })
            .map_err(|error| failed(error.into()))?;
        // Not synchronised: the groups do not outlive the kernel, and a slow disk must not stop a
        // step.
        replace(&self.path, &text).map_err(failed)?;
        self.changed = false;
        Ok(())
    }

    /// Gives each group what it is to have without an agent.
    pub fn release(&mut self, tree: &Tree) -> Vec<GroupError> {
        let before = self.entries.clone();
        let errors = self.put_back(tree, |original, now| now.released(original));
        for (path, entry) in &mut self.entries {
            entry.released = S::read(&tree.group(path)).ok();
        }
        self.changed |= self.entries != before;
        errors
    }

    /// Takes what somebody has changed since the release as the original.
    fn resolve(&mut self, tree: &Tree) {
        for (path, entry) in &mut self.entries {
            if let Ok(now) = S::read(&tree.group(path)) {
                entry.resolve(now);
            }
        }
    }

    /// By how much the containers of a pod are above their own, in the unit of the pod's original.
    fn more_than_own(&self, tree: &Tree) -> BTreeMap<PathBuf, u64> {
        let mut more: BTreeMap<PathBuf, u64> = BTreeMap::new();
        for (path, entry) in self.entries.iter().filter(|(_, entry)| entry.kind == Kind::Container) {
            let pod = path.parent().and_then(|pod| Some((pod, self.entries.get(pod)?.original)));
            if let (Some((pod, like)), Ok(now)) = (pod, S::read(&tree.group(path)))
                && let (Some(now), Some(own)) = (now.amount(like), entry.original.amount(like))
            {
                let more = more.entry(pod.to_owned()).or_default();
                *more = more.saturating_add(now.saturating_sub(own));
            }
        }
        more
    }

    /// Whether there are groups besides these.
    pub fn has_others(&self, kept: &BTreeSet<PathBuf>) -> bool {
        self.entries.keys().any(|path| !kept.contains(path))
    }

    /// Gives each group its original, except for those that are kept, and forgets those where
    /// that worked.
    pub fn restore(&mut self, tree: &Tree, kept: &BTreeSet<PathBuf>) -> Vec<GroupError> {
        let before = self.entries.clone();
        let entries = std::mem::take(&mut self.entries).into_iter();
        let (rest, others): (BTreeMap<_, _>, _) = entries.partition(|(path, _)| kept.contains(path));
        self.entries = others;
        let errors = self.put_back(tree, |original, _| original);
        self.entries.retain(|path, entry| match S::read(&tree.group(path)) {
            Ok(now) => {
                // Whoever changes it from now on means it.
                entry.released = Some(now);
                now != entry.original
            }
            Err(error) => !error.is_gone(),
        });
        self.entries.extend(rest);
        self.changed |= self.entries != before;
        errors
    }

    /// Raises pods, then sets containers, then lowers pods: a container never has more than its
    /// pod, and a pod has as much more than its original as its containers have. `target` is of the
    /// original and what a group has. Groups that are gone are forgotten.
    fn put_back(&mut self, tree: &Tree, target: impl Fn(S, S) -> S) -> Vec<GroupError> {
        let mut errors = Vec::new();
        let mut gone = Vec::new();
        self.resolve(tree);
        let pods_that_rise = |kind, rises| kind == Kind::Pod && rises;
        let containers = |kind, _| kind == Kind::Container;
        let passes: [&dyn Fn(Kind, bool) -> bool; 3] = [&pods_that_rise, &containers, &|kind, _| kind == Kind::Pod];
        for pass in passes {
            let more = self.more_than_own(tree);
            for (path, entry) in &self.entries {
                let group = tree.group(path);
                let set = || {
                    let now = S::read(&group)?;
                    let with = |more: &u64| {
                        let original = entry.original.amount(entry.original)?;
                        Some(entry.original.with_amount(original.saturating_add(*more)))
                    };
                    let original = more.get(path).and_then(with).unwrap_or(entry.original);
                    let target = target(original, now);
                    if target != now && pass(entry.kind, target.is_above(now)) {
                        target.write(&group, &mut { now })?;
                    }
                    Ok::<(), GroupError>(())
                };
                match set() {
                    Ok(()) => {}
                    Err(error) if error.is_gone() => gone.push(path.clone()),
                    Err(error) => errors.push(error),
                }
            }
        }
        self.entries.retain(|path, _| !gone.contains(path));
        errors
    }
}
