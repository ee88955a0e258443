//! The directories of pods, and the sockets in them.
//!
//! A pod may be hostile, and may write into its directory if it mounts that writable. So nothing
//! there is followed: directories are opened without following links, all else goes by their file
//! descriptors. That also makes paths short: an address has room for 107 bytes, and the name of a
//! directory may have 255.

use crate::report::PodName;
use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{AtFlags, OFlag, open, openat};
use nix::sys::stat::{FileStat, Mode, SFlag, fchmod, fstat, fstatat, mkdirat};
use nix::unistd::{UnlinkatFlags, unlinkat};
use std::fs::{Permissions, set_permissions};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};
use tokio::net::UnixListener;

/// The name of a socket.
pub(super) const SOCKET: &str = "self.sock";
/// Everybody may look, only root may write.
const DIRECTORY_MODE: u32 = 0o755;
/// Who can reach a socket may connect: a proxy is not root.
const SOCKET_MODE: u32 = 0o666;
/// How long nothing must have changed in a directory of no pod before it is removed. The kubelet
/// makes one for a pod of which the API server may not have told us yet, and mounts it: a removed
/// one would stay mounted.
const UNCHANGED: Duration = Duration::from_secs(600);

const OPEN: OFlag = OFlag::O_RDONLY.union(OFlag::O_DIRECTORY).union(OFlag::O_CLOEXEC);

/// The directory that has those of the pods.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    fd: OwnedFd,
}

/// The name of a pod's directory; none: its name could lead elsewhere.
pub(super) fn name_of(pod: &PodName) -> Option<String> {
    let name = format!("{}_{}", pod.namespace, pod.name);
    is_pod(&name).then_some(name)
}

/// Whether a directory has the name of a pod's. Neither part has a `_`.
fn is_pod(name: &str) -> bool {
    let plain = |text: &str| {
        let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"-.".contains(&byte);
        !text.is_empty() && text.bytes().all(allowed)
    };
    name.split_once('_').is_some_and(|(namespace, name)| plain(namespace) && plain(name))
}

fn kind(stat: &FileStat) -> SFlag {
    SFlag::from_bits_truncate(stat.st_mode) & SFlag::S_IFMT
}

/// Which file it is.
type Inode = (u64, u64);

#[allow(clippy::unnecessary_cast, reason = "the types differ between architectures")]
fn inode(stat: &FileStat) -> Inode {
    (stat.st_dev as u64, stat.st_ino as u64)
}

/// What a name stands for, without following it.
fn look(directory: impl AsFd, name: &str) -> Result<FileStat, Errno> {
    fstatat(directory, name, AtFlags::AT_SYMLINK_NOFOLLOW)
}

/// A path to an open file.
fn path_of(fd: &impl AsRawFd) -> String {
    format!("/proc/self/fd/{}", fd.as_raw_fd())
}

/// A socket that is removed when this is dropped, unless another one has its place.
#[derive(Debug)]
pub(super) struct SocketFile {
    name: String,
    directory: OwnedFd,
    inodes: (Inode, Inode),
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if look(&self.directory, SOCKET).is_ok_and(|stat| inode(&stat) == self.inodes.1) {
            let _ = unlinkat(&self.directory, SOCKET, UnlinkatFlags::NoRemoveDir);
        }
    }
}

impl Directory {
    /// Opens the directory, which must exist.
    ///
    /// # Errors
    /// It is none, or it cannot be read.
    pub fn open(path: &Path) -> Result<Self, Errno> {
        Ok(Self { path: path.to_owned(), fd: open(path, OPEN, Mode::empty())? })
    }

    /// Its path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Listens in the directory of that name, in the place of what an earlier agent has left.
    ///
    /// # Errors
    /// The path and what is wrong.
    pub(super) fn bind(&self, name: &str) -> Result<(SocketFile, UnixListener), String> {
        let path = self.path.join(name);
        let directory =
            self.make(name).map_err(|error| format!("{}: no directory can be made there: {error}", path.display()))?;
        let failed =
            |what: &str, error: &dyn std::fmt::Display| format!("{}: {what}: {error}", path.join(SOCKET).display());
        match unlinkat(&directory, SOCKET, UnlinkatFlags::NoRemoveDir) {
            Ok(()) | Err(Errno::ENOENT) => {}
            Err(error) => return Err(failed("cannot be removed", &error)),
        }
        let listener = UnixListener::bind(format!("{}/{SOCKET}", path_of(&directory)))
            .map_err(|error| failed("cannot listen there", &error))?;
        // The umask has taken the right to connect away. A change by name would follow a link that
        // took the place of the socket.
        let opened = openat(&directory, SOCKET, OFlag::O_PATH | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC, Mode::empty());
        let found = opened.and_then(|socket| Ok((fstat(&socket)?, fstat(&directory)?, socket)));
        let (stat, of_directory, socket) = found.map_err(|error| failed("cannot be found", &error))?;
        if kind(&stat) != SFlag::S_IFSOCK {
            return Err(failed("is not usable", &"somebody else has put another file there"));
        }
        let file = SocketFile { name: name.to_owned(), directory, inodes: (inode(&of_directory), inode(&stat)) };
        set_permissions(path_of(&socket), Permissions::from_mode(SOCKET_MODE))
            .map_err(|error| failed("its mode cannot be set", &error))?;
        Ok((file, listener))
    }

    /// Opens a directory of that name, and makes it if it is missing.
    fn make(&self, name: &str) -> Result<OwnedFd, Errno> {
        let mode = Mode::from_bits_truncate(DIRECTORY_MODE);
        match mkdirat(&self.fd, name, mode) {
            Ok(()) | Err(Errno::EEXIST) => {}
            Err(error) => return Err(error),
        }
        let directory = self.open_below(name)?;
        // The umask, or the kubelet, may have left less.
        if fstat(&directory)?.st_mode & 0o777 != DIRECTORY_MODE {
            fchmod(&directory, mode)?;
        }
        Ok(directory)
    }

    fn open_below(&self, name: &str) -> Result<OwnedFd, Errno> {
        openat(&self.fd, name, OPEN | OFlag::O_NOFOLLOW, Mode::empty())
    }

    /// Whether a socket is still where it was made.
    pub(super) fn has(&self, file: &SocketFile) -> bool {
        let (directory, socket) = file.inodes;
        look(&self.fd, &file.name).is_ok_and(|stat| inode(&stat) == directory)
            && look(&file.directory, SOCKET).is_ok_and(|stat| inode(&stat) == socket)
    }

    /// Removes directories of pods in which nothing has changed for long, except those that
    /// `keeps`. One that has other files stays.
    ///
    /// Returns the paths that cannot be removed, and why.
    pub(super) fn clean(&self, now: SystemTime, keeps: impl Fn(&str) -> bool) -> Vec<String> {
        let names = match self.names() {
            Ok(names) => names,
            Err(error) => return vec![format!("{}: cannot be read: {error}", self.path.display())],
        };
        let old = names.iter().filter(|name| is_pod(name) && !keeps(name));
        let failed = old.filter_map(|name| match self.remove(name, now) {
            Ok(()) | Err(Errno::ENOENT | Errno::ENOTEMPTY | Errno::EEXIST) => None,
            Err(error) => Some(format!("{}: cannot be removed: {error}", self.path.join(name).display())),
        });
        failed.collect()
    }

    fn names(&self) -> Result<Vec<String>, Errno> {
        let mut directory = Dir::from_fd(openat(&self.fd, ".", OPEN, Mode::empty())?)?;
        let names = directory.iter().map(|entry| Ok(entry?.file_name().to_str().ok().map(str::to_owned)));
        names.filter_map(Result::transpose).collect()
    }

    fn remove(&self, name: &str, now: SystemTime) -> Result<(), Errno> {
        let stat = look(&self.fd, name)?;
        let changed = SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(stat.st_ctime).unwrap_or(0));
        let unchanged = now.duration_since(changed).unwrap_or_default();
        if kind(&stat) != SFlag::S_IFDIR || unchanged < UNCHANGED {
            return Ok(());
        }
        let directory = self.open_below(name)?;
        if look(&directory, SOCKET).is_ok_and(|stat| kind(&stat) == SFlag::S_IFSOCK) {
            unlinkat(&directory, SOCKET, UnlinkatFlags::NoRemoveDir)?;
        }
        unlinkat(&self.fd, name, UnlinkatFlags::RemoveDir)
    }
}
