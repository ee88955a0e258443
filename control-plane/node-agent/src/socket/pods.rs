//! Which sockets there are: one for each pod of an application.
//!
//! A socket is made in the step after the pod is known, and removed in the step after it has gone.
//! Each second those that could not be made, or that somebody has removed, are made anew. Each
//! minute directories of pods that have gone are removed.

use super::directory::{Directory, SOCKET, SocketFile, name_of};
use super::poll::Known;
use super::server::{Counts, accept};
use crate::report::{Cpu, PodName};
use bloc_policy::cpu::ServerCpu;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::sync::watch;
use tokio::task::AbortHandle;
use tokio::time::Instant;

/// The most sockets: a node has 110 pods, or some more.
const MOST_SOCKETS: usize = 512;
/// How often what is missing is made anew.
const LOOK: Duration = Duration::from_secs(1);
/// How often directories of pods that have gone are removed.
const CLEAN: Duration = Duration::from_secs(60);

/// Answers at the sockets of the pods that are told, until the sender is gone. When this is
/// dropped, the sockets are removed and their connections closed. `failed` hears of each failure.
pub async fn serve(
    directory: Directory,
    mut told: watch::Receiver<Arc<Cpu>>,
    counts: Arc<Counts>,
    failed: impl Fn(String),
) {
    let mut sockets = Sockets::new(directory, counts);
    while told.changed().await.is_ok() {
        let cpu = Arc::clone(&told.borrow_and_update());
        sockets.follow(&cpu, Instant::now(), SystemTime::now()).into_iter().for_each(&failed);
    }
}

/// A socket, and who answers at it.
struct Socket {
    file: SocketFile,
    known: Arc<Known>,
    server: AbortHandle,
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.server.abort();
    }
}

/// All sockets.
pub(super) struct Sockets {
    directory: Directory,
    counts: Arc<Counts>,
    open: BTreeMap<PodName, Socket>,
    /// Why pods have none.
    failing: BTreeMap<PodName, String>,
    look: Instant,
    clean: Instant,
}

impl Drop for Sockets {
    fn drop(&mut self) {
        self.counts.set_open(0);
    }
}

impl Sockets {
    pub(super) fn new(directory: Directory, counts: Arc<Counts>) -> Self {
        let now = Instant::now();
        Self { directory, counts, open: BTreeMap::new(), failing: BTreeMap::new(), look: now, clean: now }
    }

    /// Takes what there is to tell at `now`. Returns what went wrong.
    pub(super) fn follow(&mut self, cpu: &Cpu, now: Instant, wall: SystemTime) -> Vec<String> {
        // Until it is known who runs here, nobody is gone.
        let Some(hosts) = &cpu.hosts else { return Vec::new() };
        let has = |pod: &PodName| hosts.get(pod) == Some(&true);
        self.open.retain(|pod, _| has(pod));
        self.failing.retain(|pod, _| has(pod));
        let looks = now >= self.look;
        let mut errors = Vec::new();
        if looks {
            self.look = now + LOOK;
            let directory = &self.directory;
            self.open.retain(|pod, socket| {
                let there = directory.has(&socket.file);
                if !there {
                    tracing::warn!(namespace = pod.namespace, pod = pod.name, "somebody has removed its socket");
                }
                there
            });
        }
        let missing = |pod: &&PodName| has(pod) && !self.open.contains_key(*pod);
        let missing: Vec<&PodName> = hosts.keys().filter(missing).collect();
        for pod in missing {
            if looks || !self.failing.contains_key(pod) {
                self.make(pod).err().into_iter().for_each(|error| errors.push(error));
            }
        }
        self.counts.set_open(self.open.len());
        for (pod, socket) in &self.open {
            socket.known.tell(said(cpu, pod));
        }
        if now >= self.clean {
            self.clean = now + CLEAN;
            // Also those of pods of no application: they may have one later.
            let keeps: BTreeSet<String> = hosts.keys().filter_map(name_of).collect();
            errors.extend(self.directory.clean(wall, |name| keeps.contains(name)));
        }
        errors
    }

    /// Makes the socket of a pod.
    fn make(&mut self, pod: &PodName) -> Result<(), String> {
        let name = name_of(pod).ok_or_else(|| format!("{}/{}: this is no name of a pod", pod.namespace, pod.name));
        let bound = name.and_then(|name| {
            if self.open.len() < MOST_SOCKETS {
                return self.directory.bind(&name);
            }
            let path = self.directory.path().join(name).join(SOCKET);
            Err(format!("{}: there are {MOST_SOCKETS} sockets already", path.display()))
        });
        let (file, listener) = bound.inspect_err(|error| {
            // Once for each path; the others are only counted.
            if self.failing.insert(pod.clone(), error.clone()).as_ref() != Some(error) {
                tracing::warn!(%error, "no socket for a pod");
            }
        })?;
        self.failing.remove(pod);
        let known = Arc::<Known>::default();
        let server = tokio::spawn(accept(listener, Arc::clone(&known), Arc::clone(&self.counts))).abort_handle();
        self.open.insert(pod.clone(), Socket { file, known, server });
        Ok(())
    }
}

/// What there is to say of a pod: nothing is known if the agent has set none of its quotas. None:
/// it is to set one.
fn said(cpu: &Cpu, pod: &PodName) -> Option<ServerCpu> {
    if cpu.joining.contains(pod) {
        return None;
    }
    let of = cpu.pods.get(pod).filter(|of| of.managed != Some(false));
    let Some(of) = of else { return Some(ServerCpu::default()) };
    of.managed.map(|_| ServerCpu { cores: of.cores, used: cpu.used.get(pod).copied(), per_request_us: None })
}
