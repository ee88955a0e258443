//! Groups that need memory, as the kernel reports them.

#[cfg(test)]
mod tests;

use super::error::GroupError;
use super::file::write;
use super::group::Group;
use super::memory::Memory;
use super::text::Version;
use crate::bytes::Bytes;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::eventfd::{EfdFlags, EventFd};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify, WatchDescriptor};
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// Groups that are about to exceed their limits.
///
/// An alarm says only that the caller should check. Version 2 also raises it for page cache above
/// `memory.high`, and each time it throttles the group; version 1 also when the use falls below the
/// threshold again.
#[derive(Debug)]
pub struct Alarms<K> {
    source: Source<K>,
}

#[derive(Debug)]
enum Source<K> {
    /// An eventfd for each key.
    V1(BTreeMap<K, File>),
    /// Two watches for each key: one on its events and, with its name, one on its parent directory.
    /// Most kernels do not report that a file was removed with its group.
    V2 { inotify: Inotify, keys: BTreeMap<Watch, K> },
}

type Watch = (WatchDescriptor, Option<OsString>);

/// The group was removed.
const REMOVED: AddWatchFlags = AddWatchFlags::IN_DELETE.union(AddWatchFlags::IN_IGNORED);

impl<K: Ord + Clone> Alarms<K> {
    pub fn new(version: Version) -> Result<Self, GroupError> {
        let source = match version {
            Version::V1 => Source::V1(BTreeMap::new()),
            Version::V2 => {
                let inotify = Inotify::init(InitFlags::IN_CLOEXEC | InitFlags::IN_NONBLOCK)
                    .map_err(|errno| failed(Path::new("/proc/sys/fs/inotify/max_user_instances"), errno))?;
                Source::V2 { inotify, keys: BTreeMap::new() }
            }
        };
        Ok(Self { source })
    }

    /// Watches a group instead of the key's former one. Version 1 raises the alarm when the use is
    /// at least `at`, version 2 above `memory.high`. After an error the key has no group.
    pub fn watch(&mut self, key: K, group: &Group, at: Bytes) -> Result<(), GroupError> {
        self.forget(&key);
        let files = group.memory_files()?;
        match &mut self.source {
            Source::V1(events) => {
                events.insert(key, threshold(files, at)?);
            }
            Source::V2 { inotify, keys } => {
                let add = |path: &Path, mask| inotify.add_watch(path, mask).map_err(|errno| failed(path, errno));
                let parent = files.path().parent().unwrap_or(files.path());
                let name = files.path().file_name().map(OsStr::to_owned);
                let events = add(files.events(), AddWatchFlags::IN_MODIFY)?;
                let removal = add(parent, AddWatchFlags::IN_DELETE)?;
                // Another key with this group loses it.
                keys.insert((events, None), key.clone());
                keys.insert((removal, name), key);
            }
        }
        Ok(())
    }

    pub fn forget(&mut self, key: &K) {
        match &mut self.source {
            Source::V1(events) => {
                // The kernel removes the threshold when the descriptor is closed.
                events.remove(key);
            }
            Source::V2 { inotify, keys } => forget(inotify, keys, key),
        }
    }

    /// Blocks until there is an alarm, or for `at_most`. A removed group raises one alarm.
    pub fn wait(&mut self, at_most: Duration) -> Vec<K> {
        let began = Instant::now();
        loop {
            let asking = self.look(at_most.saturating_sub(began.elapsed()));
            // Events of forgotten groups are ignored.
            if !asking.is_empty() || began.elapsed() >= at_most {
                return asking;
            }
        }
    }

    fn look(&mut self, at_most: Duration) -> Vec<K> {
        match &mut self.source {
            Source::V1(events) => {
                let mut polled: Vec<_> = events.values().map(readable).collect();
                wait_for(&mut polled, at_most);
                let ready = |polled: &PollFd<'_>| polled.any() != Some(false);
                let asking = events.keys().zip(&polled).filter(|(_, polled)| ready(polled));
                let asking: Vec<_> = asking.map(|(key, _)| key.clone()).collect();
                // A descriptor that cannot be read would raise alarms for ever.
                events.retain(|key, event| asking.binary_search(key).is_err() || event.read_exact(&mut [0; 8]).is_ok());
                asking
            }
            Source::V2 { inotify, keys } => {
                wait_for(&mut [readable(inotify)], at_most);
                let mut asking = BTreeSet::new();
                for event in inotify.read_events().unwrap_or_default() {
                    let Some(key) = keys.get(&(event.wd, event.name)).cloned() else { continue };
                    if event.mask.intersects(REMOVED) {
                        forget(inotify, keys, &key);
                    }
                    asking.insert(key);
                }
                asking.into_iter().collect()
            }
        }
    }
}

/// An eventfd that is written when the group's use crosses a threshold.
fn threshold(files: &Memory, at: Bytes) -> Result<File, GroupError> {
    let control = files.path().join("cgroup.event_control");
    let event =
        EventFd::from_flags(EfdFlags::EFD_CLOEXEC | EfdFlags::EFD_NONBLOCK).map_err(|errno| failed(&control, errno))?;
    let mut event = File::from(OwnedFd::from(event));
    let usage =
        File::open(files.current()).map_err(|error| GroupError::Io { path: files.current().to_owned(), error })?;
    write(&control, &format!("{} {} {}", event.as_raw_fd(), usage.as_raw_fd(), at.get()))?;
    // The kernel does not report a threshold that is already crossed.
    if files.total()? >= at {
        event.write_all(&1_u64.to_ne_bytes()).map_err(|error| GroupError::Io { path: control, error })?;
    }
    Ok(event)
}

fn forget<K: Ord>(inotify: &Inotify, keys: &mut BTreeMap<Watch, K>, key: &K) {
    let had: BTreeSet<_> = keys.iter().filter(|(_, owner)| *owner == key).map(|((watch, _), _)| *watch).collect();
    keys.retain(|_, owner| owner != key);
    for watch in had.into_iter().filter(|had| !keys.keys().any(|(watch, _)| watch == had)) {
        // It fails if the file is gone, because then the watch is too.
        let _ = inotify.rm_watch(watch);
    }
}

fn readable<F: AsFd>(descriptor: &F) -> PollFd<'_> {
    PollFd::new(descriptor.as_fd(), PollFlags::POLLIN)
}

/// Waits until one can be read, or for `at_most`, rounded up to milliseconds: the caller would spin
/// for the rest.
fn wait_for(descriptors: &mut [PollFd<'_>], at_most: Duration) {
    let millis = at_most.as_nanos().div_ceil(1_000_000);
    if poll(descriptors, PollTimeout::try_from(millis).unwrap_or(PollTimeout::MAX)).is_err() {
        // Interrupted, or the kernel has no memory: no reason to try again at once.
        thread::sleep(at_most);
    }
}

fn failed(path: &Path, errno: Errno) -> GroupError {
    GroupError::Io { path: path.to_owned(), error: errno.into() }
}
