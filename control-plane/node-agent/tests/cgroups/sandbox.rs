//! Groups for one test, in the version that this machine has.

use bloc_node_agent::cgroup::{Counters, Group, Tree, Version};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Where Linux has its groups.
const MOUNT: &str = "/sys/fs/cgroup";

const LOOP: &str = "while :; do :; done";

/// How long anything may take on a busy or emulated machine.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A folder of groups that the test made. All below it goes when this is dropped.
#[derive(Debug)]
pub struct Sandbox {
    version: Version,
    /// In each hierarchy.
    roots: Vec<PathBuf>,
    /// Deeper ones later.
    made: Vec<PathBuf>,
    busy: Vec<Child>,
}

impl Sandbox {
    pub fn new() -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let name = format!("bloc-test-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::Relaxed));
        let mount = Path::new(MOUNT);
        let (version, hierarchies) = if mount.join("cgroup.controllers").exists() {
            // Groups directly below the mount have quotas only if it hands them on.
            hand_on(mount);
            (Version::V2, vec![mount.to_owned()])
        } else {
            (Version::V1, ["cpu", "cpuacct", "memory"].map(|controller| mount.join(controller)).to_vec())
        };
        let roots = hierarchies.iter().map(|hierarchy| hierarchy.join(&name)).collect();
        let mut sandbox = Self { version, roots, made: Vec::new(), busy: Vec::new() };
        sandbox.make("");
        sandbox
    }

    pub fn version(&self) -> Version {
        self.version
    }

    /// The folder of CPU, and that of its use in version 1.
    pub fn folders(&self) -> (&Path, Option<&Path>) {
        (&self.roots[0], self.roots.get(1).map(PathBuf::as_path))
    }

    pub fn tree(&self) -> Tree {
        let (cpu, cpuacct) = self.folders();
        Tree::open(cpu, cpuacct).unwrap().with_memory(self.memory()).unwrap()
    }

    /// The folder of memory in version 1.
    pub fn memory(&self) -> Option<&Path> {
        self.roots.get(2).map(PathBuf::as_path)
    }

    /// Makes a group below the folder, in a group that is there.
    pub fn make(&mut self, path: &str) -> Group {
        for root in &self.roots {
            let folder = root.join(path);
            if self.version == Version::V2 && !path.is_empty() {
                hand_on(folder.parent().unwrap());
            }
            // One hierarchy may have both controllers.
            match fs::create_dir(&folder) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => made.unwrap_or_else(|error| {
                    panic!("{} cannot be made: {error}; it needs root: sudo -E make test", folder.display())
                }),
            }
            // Memory that goes to a disk is neither throttled nor killed for.
            for swap in ["memory.swap.max", "memory.swappiness"].map(|file| folder.join(file)) {
                if swap.exists() {
                    fs::write(&swap, "0").unwrap_or_else(|error| panic!("{}: {error}", swap.display()));
                }
            }
            self.made.push(folder);
        }
        self.tree().group(path)
    }

    /// Starts a process in a group, which loops until the end of the test.
    pub fn keep_busy(&mut self, path: &str) {
        self.loops(path, Command::new("/bin/sh").args(["-c", LOOP]));
    }

    /// The same, on the first processor only.
    pub fn keep_busy_on_one(&mut self, path: &str) {
        self.loops(path, Command::new("taskset").args(["1", "/bin/sh", "-c", LOOP]));
    }

    fn loops(&mut self, path: &str, command: &mut Command) {
        let child = command.spawn().unwrap();
        self.put(child.id(), path);
        self.busy.push(child);
    }

    /// Moves a process into a group.
    pub fn put(&self, process: u32, path: &str) {
        for root in &self.roots {
            fs::write(root.join(path).join("cgroup.procs"), process.to_string()).unwrap();
        }
    }

    /// Ends the busy processes and removes a group that has none below it.
    pub fn remove(&mut self, path: &str) {
        self.end_busy();
        for root in &self.roots {
            remove(&root.join(path));
        }
    }

    /// Removes a group without processes.
    pub fn remove_idle(&mut self, path: &str) {
        for root in &self.roots {
            remove(&root.join(path));
        }
    }

    fn end_busy(&mut self) {
        for mut child in self.busy.drain(..) {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        self.end_busy();
        for folder in self.made.iter().rev() {
            remove(folder);
        }
    }
}

fn hand_on(folder: &Path) {
    const CONTROLLERS: &str = "+cpu +memory";
    let file = folder.join("cgroup.subtree_control");
    fs::write(&file, CONTROLLERS)
        .unwrap_or_else(|error| panic!("{CONTROLLERS} to {}: {error}; it needs root", file.display()));
}

fn remove(folder: &Path) {
    let began = Instant::now();
    // A process that has just ended may still be leaving.
    while folder.exists() && fs::remove_dir(folder).is_err() && began.elapsed() < PATIENCE {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until the counters of a group are as wanted, and returns them.
#[track_caller]
pub fn until(group: &Group, wanted: impl Fn(&Counters) -> bool) -> Counters {
    let began = Instant::now();
    loop {
        let counters = group.counters().unwrap();
        if wanted(&counters) {
            return counters;
        }
        assert!(began.elapsed() < PATIENCE, "{counters:?} after {PATIENCE:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
