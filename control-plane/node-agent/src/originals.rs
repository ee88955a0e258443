//! What the groups had before the agent changed them, in a file on the host.
//!
//! A group is in the file before its first change, so that whoever comes next can put it back: the
//! agent when it ends, its [guardian](crate::guardian) when the agent dies, `bloc-node-agent
//! restore`, or the next start.
//!
//! - *Release*: each group gets the larger of its original quota and what it has now. Nothing is
//!   taken from a container, and nothing needs an agent any more. The file stays: the next start
//!   knows the originals from it.
//! - *Restore*: each group gets its original quota. The file is empty then.
//!
//! If a quota changed between a release and the next start, somebody else changed it, and it is
//! the original from then on. After a crash nobody can tell, and the original stays what it was.

use crate::cgroup::{Bandwidth, GroupError, Tree};
use crate::cores::Cores;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The name of the file.
const FILE: &str = "originals.json";
/// Where a file that cannot be understood is moved.
const UNREADABLE: &str = "originals.unreadable.json";
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
struct Entry {
    kind: Kind,
    original: Bandwidth,
    /// What a release has left; none while an agent runs, and after a crash.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    released: Option<Bandwidth>,
}

impl Entry {
    /// The original of a group which has `now` is that, if somebody has changed it since the
    /// release.
    fn resolve(&mut self, now: Bandwidth) {
        if self.released.take().is_some_and(|released| released != now) {
            self.original = now;
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

/// The original quotas, by the path of the group below the tree.
#[derive(Debug)]
pub struct Originals {
    path: PathBuf,
    boot: String,
    entries: BTreeMap<PathBuf, Entry>,
    /// Entries that are not understood, which stay in the file.
    others: BTreeMap<PathBuf, serde_json::Value>,
    problems: Vec<String>,
    /// Whether the file says something else.
    changed: bool,
}

impl Originals {
    /// Reads the file in this directory, if there is one. One that cannot be understood is moved
    /// aside, and logged.
    ///
    /// # Errors
    /// The directory or the file cannot be read.
    pub fn open(directory: &Path) -> Result<Self, StateError> {
        let path = directory.join(FILE);
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
                let aside = directory.join(UNREADABLE);
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
    pub fn take_over(&mut self, group: &Path, now: Bandwidth) -> Bandwidth {
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
    pub fn remember(&mut self, group: &Path, kind: Kind, original: Bandwidth) {
        self.entries.insert(group.to_owned(), Entry { kind, original, released: None });
        self.changed = true;
    }

    /// Whether a group is remembered.
    pub fn has(&self, group: &Path) -> bool {
        self.entries.contains_key(group)
    }

    /// Somebody else has given a group that is remembered another quota.
    pub fn replace(&mut self, group: &Path, original: Bandwidth) {
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
        let new = self.path.with_extension("json.new");
        // Not synchronised: the groups do not outlive the kernel, and a slow disk must not stop a
        // step.
        fs::write(&new, text).and_then(|()| fs::rename(&new, &self.path)).map_err(failed)?;
        self.changed = false;
        Ok(())
    }

    /// Gives each group the larger of its original quota and what it has.
    pub fn release(&mut self, tree: &Tree) -> Vec<GroupError> {
        self.resolve(tree);
        let more = self.more_than_own(tree);
        let errors = self.put_back(tree, |path, original, now| {
            let original = more.get(path).map_or(original, |more| original.plus(*more));
            if now.is_above(original) { now } else { original }
        });
        for (path, entry) in &mut self.entries {
            entry.released = tree.group(path).bandwidth().ok();
        }
        errors
    }

    /// Takes what somebody has changed since the release as the original.
    fn resolve(&mut self, tree: &Tree) {
        for (path, entry) in &mut self.entries {
            if let Ok(now) = tree.group(path).bandwidth() {
                entry.resolve(now);
            }
        }
    }

    /// By how many cores the containers of a pod are above their own quotas.
    fn more_than_own(&self, tree: &Tree) -> BTreeMap<PathBuf, Cores> {
        let mut more: BTreeMap<PathBuf, Cores> = BTreeMap::new();
        for (path, entry) in self.entries.iter().filter(|(_, entry)| entry.kind == Kind::Container) {
            let now = tree.group(path).bandwidth().ok().and_then(Bandwidth::cores);
            if let (Some(pod), Some(now), Some(own)) = (path.parent(), now, entry.original.cores()) {
                *more.entry(pod.to_owned()).or_default() += now - own;
            }
        }
        more
    }

    /// Whether there are groups besides these.
    pub fn has_others(&self, kept: &BTreeSet<PathBuf>) -> bool {
        self.entries.keys().any(|path| !kept.contains(path))
    }

    /// Gives each group its original quota, except for those that are kept, and forgets those where
    /// that worked.
    pub fn restore(&mut self, tree: &Tree, kept: &BTreeSet<PathBuf>) -> Vec<GroupError> {
        let entries = std::mem::take(&mut self.entries).into_iter();
        let (rest, others): (BTreeMap<_, _>, _) = entries.partition(|(path, _)| kept.contains(path));
        self.entries = others;
        let errors = self.put_back(tree, |_, original, _| original);
        self.entries.retain(|path, entry| match tree.group(path).bandwidth() {
            Ok(now) => now != entry.original,
            Err(error) => !error.is_gone(),
        });
        self.entries.extend(rest);
        errors
    }

    /// Raises pods, then sets containers, then lowers pods: a container never has more than its
    /// pod. Groups that are gone are forgotten.
    fn put_back(&mut self, tree: &Tree, target: impl Fn(&Path, Bandwidth, Bandwidth) -> Bandwidth) -> Vec<GroupError> {
        let mut errors = Vec::new();
        let mut gone = Vec::new();
        self.changed = true;
        self.resolve(tree);
        let pods_that_rise = |kind, rises| kind == Kind::Pod && rises;
        let containers = |kind, _| kind == Kind::Container;
        let passes: [&dyn Fn(Kind, bool) -> bool; 3] = [&pods_that_rise, &containers, &|kind, _| kind == Kind::Pod];
        for pass in passes {
            for (path, entry) in &self.entries {
                let group = tree.group(path);
                let set = || {
                    let now = group.bandwidth()?;
                    let target = target(path, entry.original, now);
                    if target != now && pass(entry.kind, target.is_above(now)) {
                        group.set(target)?;
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
