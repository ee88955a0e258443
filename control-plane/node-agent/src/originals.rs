//! What the groups had before the agent changed them, in a file for each resource on the host.
//!
//! A group is in the file before its first change, so that the agent, its
//! [guardian](crate::guardian), `bloc-node-agent restore` or the next start can put it back.
//!
//! - *Release*: each group gets the larger of its original and what it has now, or its original CPU
//!   shares. This takes nothing that a container may need, and no agent is needed any more. The
//!   file stays, so the next start knows the originals.
//! - *Restore*: each group gets its original and leaves the file. A memory limit below the use
//!   would make the kernel kill: it is an error, and the group stays in the file.
//!
//! If a setting changed between a release and the next start, somebody else changed it, and it
//! becomes the original. After a crash this is not known, and the original stays.

use crate::cgroup::{Group, GroupError, Tree};
use crate::setting::Setting;
use bloc_daemon::file::replace;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

const BOOT: &str = "/proc/sys/kernel/random/boot_id";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Kind {
    Pod,
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
    /// What the group gets back: its original, for a pod with the `excess` of its containers, as
    /// far as the kernel allows it.
    fn own(&self, excess: Option<&u64>, group: &Group) -> S {
        let with = |excess: &u64| {
            let original = self.original.amount(self.original)?;
            Some(self.original.with_amount(original.saturating_add(*excess)))
        };
        excess.and_then(with).unwrap_or(self.original).possible(group)
    }

    /// Adopts what somebody else has changed since the release. `now` is the group's setting.
    fn resolve(&mut self, now: S) {
        if let Some(released) = self.released.take() {
            self.original = now.adopted(released, self.original);
        }
    }
}

#[derive(Debug, Serialize, Deserialize)]
struct Contents<G> {
    /// The kernel's boot: groups do not survive a reboot, but the kubelet reuses their names.
    boot: String,
    groups: G,
}

#[derive(Debug, thiserror::Error)]
#[error("{}: {error}", path.display())]
pub struct StateError {
    path: PathBuf,
    error: io::Error,
}

impl StateError {
    pub(crate) fn new(path: &Path, error: impl Into<io::Error>) -> Self {
        Self { path: path.to_owned(), error: error.into() }
    }
}

/// Reads JSON; none if there is no file. A file that cannot be parsed is renamed to
/// `NAME.unreadable.json`, logged, and returned as the inner error.
pub(crate) fn load<T: DeserializeOwned>(
    path: &Path,
    check: impl Fn(&T) -> Result<(), String>,
) -> Result<Option<Result<T, String>>, StateError> {
    let bytes = match fs::read(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        read => read.map_err(|error| StateError::new(path, error))?,
    };
    let parsed = serde_json::from_slice(&bytes).map_err(|error| error.to_string());
    let parsed = parsed.and_then(|parsed: T| check(&parsed).map(|()| parsed));
    let Err(error) = parsed else { return Ok(Some(parsed)) };
    let aside = path.with_extension("unreadable.json");
    fs::rename(path, &aside).map_err(|error| StateError::new(path, error))?;
    let problem = format!("{}: {error}; moved to {}", path.display(), aside.display());
    tracing::error!("{problem}");
    Ok(Some(Err(problem)))
}

/// The originals of one resource, by the path of the group below the tree.
#[derive(Debug)]
pub struct Originals<S> {
    path: PathBuf,
    boot: String,
    entries: BTreeMap<PathBuf, Entry<S>>,
    /// Entries of a newer agent, which stay in the file.
    others: BTreeMap<PathBuf, serde_json::Value>,
    problems: Vec<String>,
    /// Whether the file is out of date.
    changed: bool,
}

impl<S: Setting> Originals<S> {
    pub fn open(directory: &Path) -> Result<Self, StateError> {
        let path = directory.join(S::FILE);
        fs::create_dir_all(directory).map_err(|error| StateError::new(&path, error))?;
        let boot = fs::read_to_string(BOOT).unwrap_or_default().trim().to_owned();
        let (mut entries, mut others, mut problems) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        match load::<Contents<BTreeMap<PathBuf, serde_json::Value>>>(&path, |_| Ok(()))? {
            // Without an id, all boots count as the same.
            Some(Ok(contents)) if contents.boot.is_empty() || boot.is_empty() || contents.boot == boot => {
                for (group, value) in contents.groups {
                    match serde_json::from_value(value.clone()) {
                        Ok(entry) => drop(entries.insert(group, entry)),
                        Err(error) => {
                            let problem = format!("{}: {}: {error}", path.display(), group.display());
                            tracing::error!("{problem}");
                            problems.push(problem);
                            others.insert(group, value);
                        }
                    }
                }
            }
            Some(Err(problem)) => problems.push(problem),
            Some(Ok(_)) | None => {}
        }
        Ok(Self { path, boot, entries, others, problems, changed: false })
    }

    /// The original of a group whose setting is `now`, and which an agent may change next.
    pub fn take_over(&mut self, group: &Path, now: S) -> S {
        let Some(entry) = self.entries.get_mut(group) else { return now };
        self.changed |= entry.released.is_some();
        entry.resolve(now);
        entry.original
    }

    /// Remembers the original of a group. [`Self::save`] writes it to the file.
    pub fn remember(&mut self, group: &Path, kind: Kind, original: S) {
        self.entries.insert(group.to_owned(), Entry { kind, original, released: None });
        self.changed = true;
    }

    pub fn has(&self, group: &Path) -> bool {
        self.entries.contains_key(group)
    }

    /// Updates a remembered group that somebody else has changed; ignores others.
    pub fn replace(&mut self, group: &Path, original: S) {
        if let Some(entry) = self.entries.get_mut(group) {
            entry.original = original;
            self.changed = true;
        }
    }

    /// Forgets a group that has its original, or is gone.
    pub fn forget(&mut self, group: &Path) {
        self.changed |= self.entries.remove(group).is_some();
    }

    /// By how much the containers of each pod exceed their originals, in the unit of the pod.
    fn excess(&self, tree: &Tree) -> BTreeMap<PathBuf, u64> {
        let mut excess: BTreeMap<PathBuf, u64> = BTreeMap::new();
        for (path, entry) in self.entries.iter().filter(|(_, entry)| entry.kind == Kind::Container) {
            let pod = path.parent().and_then(|pod| Some((pod, self.entries.get(pod)?.original)));
            if let (Some((pod, like)), Ok(now)) = (pod, S::read(&tree.group(path)))
                && let (Some(now), Some(own)) = (now.amount(like), entry.original.amount(like))
            {
                let excess = excess.entry(pod.to_owned()).or_default();
                *excess = excess.saturating_add(now.saturating_sub(own));
            }
        }
        excess
    }

    /// Gives each group its `target`, computed from its original and present settings: raises pods,
    /// sets containers, lowers pods. A container thus never has more than its pod, and a pod
    /// exceeds its original by as much as its containers do. Forgets groups that are gone.
    fn put_back(&mut self, tree: &Tree, target: impl Fn(S, S) -> S) -> Vec<GroupError> {
        let (mut errors, mut gone) = (Vec::new(), Vec::new());
        for (path, entry) in &mut self.entries {
            if let Ok(now) = S::read(&tree.group(path)) {
                entry.resolve(now);
            }
        }
        let passes: [fn(Kind, bool) -> bool; 3] =
            [|kind, rises| kind == Kind::Pod && rises, |kind, _| kind == Kind::Container, |kind, _| kind == Kind::Pod];
        for pass in passes {
            let excess = self.excess(tree);
            for (path, entry) in &self.entries {
                let group = tree.group(path);
                let set = || {
                    let now = S::read(&group)?;
                    let target = target(entry.own(excess.get(path), &group), now);
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

    /// What could not be parsed.
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    pub const fn is_changed(&self) -> bool {
        self.changed
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Replaces the file. On an error it keeps its content.
    pub fn save(&mut self) -> Result<(), StateError> {
        let failed = |error: io::Error| StateError::new(&self.path, error);
        let mut groups = self.others.clone();
        for (group, entry) in &self.entries {
            groups.insert(group.clone(), serde_json::to_value(entry).map_err(|error| failed(error.into()))?);
        }
        let text = serde_json::to_vec_pretty(&Contents { boot: self.boot.clone(), groups });
        // Without fsync: groups do not outlive the kernel, and a slow disk must not stop a step.
        replace(&self.path, &text.map_err(|error| failed(error.into()))?).map_err(failed)?;
        self.changed = false;
        Ok(())
    }

    pub fn release(&mut self, tree: &Tree) -> Vec<GroupError> {
        let before = self.entries.clone();
        let errors = self.put_back(tree, |original, now| now.released(original));
        for (path, entry) in &mut self.entries {
            entry.released = S::read(&tree.group(path)).ok();
        }
        self.changed |= self.entries != before;
        errors
    }

    /// Whether groups besides these have not been restored, as far as the kernel allows it.
    pub fn has_others(&self, tree: &Tree, kept: &BTreeSet<PathBuf>) -> bool {
        let mut others = self.entries.iter().filter(|(path, _)| !kept.contains(*path)).peekable();
        let excess = others.peek().map(|_| self.excess(tree)).unwrap_or_default();
        others.any(|(path, entry)| {
            let group = tree.group(path);
            let is_back = |now| entry.released == Some(now) && now == entry.own(excess.get(path), &group);
            !S::read(&group).is_ok_and(is_back)
        })
    }

    /// Restores all groups except these, and forgets the restored ones.
    pub fn restore(&mut self, tree: &Tree, kept: &BTreeSet<PathBuf>) -> Vec<GroupError> {
        let before = self.entries.clone();
        let (rest, others) = before.clone().into_iter().partition(|(path, _)| kept.contains(path));
        self.entries = others;
        let errors = self.put_back(tree, |original, _| original);
        self.entries.retain(|path, entry| match S::read(&tree.group(path)) {
            Ok(now) => {
                // A later change is intentional.
                entry.released = Some(now);
                now != entry.original
            }
            Err(error) => !error.is_gone(),
        });
        let rest: BTreeMap<_, _> = rest;
        self.entries.extend(rest);
        self.changed |= self.entries != before;
        errors
    }
}
