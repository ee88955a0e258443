//! The node agent breaks while it moves CPU between containers.
//!
//! No Envoy is involved. The columns are: *stock*, an equal part of the limit for each container,
//! as without an agent; *tuned*, the agent without a fault; *ours*, the agent with it. A shell
//! starts the agent again 2 s after it has ended, as the kubelet does.

use super::figure::{Bound, Claim, Figure};
use super::judge;
use super::order::Chaos;
use super::row::{Column, Row};
use super::side::Side;
use super::testbed::Place;
use crate::experiments::quota::agent::Processes;
use crate::experiments::quota::allocator::{Allocator, State};
use crate::experiments::quota::plan::{CONTAINERS, LIMIT, Plan};
use crate::experiments::quota::testbed::{Programs, Stand};
use anyhow::{Context, Result, bail};
use bloc_mesh::cgroups::Container;
use bloc_mesh::load::Sample;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// The claim of all its rows.
pub const CLAIM: Claim = Claim::NoHarm;
/// The containers have their bursts one after the other; the fault is in the middle of the second.
const PLAN: Plan = Plan { burst: Duration::from_secs(3), every: Duration::from_secs(6) };
const STARTS: Duration = Duration::from_secs(10);
/// A record of leases is new for 10 s.
const LEASES_START: Duration = Duration::from_secs(20);
/// How long it is watched what containers have while no agent runs, which starts again after 2 s.
const WATCHED: Duration = Duration::from_millis(1_500);
/// Until the kernel has ended what was killed.
const ENDS: Duration = Duration::from_millis(10);
/// What each container has without an agent.
const OWN: f64 = LIMIT / CONTAINERS as f64;
/// A quota that somebody else writes, and the container that gets it.
const THEIRS: (usize, f64) = (3, 0.3);

/// What happens to the agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken {
    /// Its name on the command line.
    pub name: &'static str,
    what: &'static str,
    fault: Fault,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Agent,
    Both,
    CutOff,
    ForeignWrite,
    NoControlPlane,
}

impl Fault {
    /// Whom it breaks.
    const fn allocator(self) -> Allocator {
        if matches!(self, Self::NoControlPlane) { Allocator::NodesLeases } else { Allocator::Agent }
    }
}

/// All rows.
pub const BROKEN: [Broken; 5] = [
    Broken { name: "node-agent", what: "the node agent is killed", fault: Fault::Agent },
    Broken {
        name: "node-agent-and-guardian",
        what: "the node agent and its guardian are killed at once",
        fault: Fault::Both,
    },
    Broken {
        name: "node-agent-cut-off",
        what: "the node agent's configuration and list of pods are gone, as without an API server",
        fault: Fault::CutOff,
    },
    Broken {
        name: "node-agent-foreign-write",
        what: "somebody else writes the quota of a container",
        fault: Fault::ForeignWrite,
    },
    Broken {
        name: "node-agent-no-control-plane",
        what: "the control plane is killed, of which the agents of two nodes lease parts of one limit",
        fault: Fault::NoControlPlane,
    },
];

/// What a run has shown.
struct Seen {
    samples: Vec<Sample>,
    /// Containers that have less than their own quota at the end, when the agent has ended.
    below: usize,
    /// Whether a quota that somebody else has written was changed.
    overwritten: Option<bool>,
    /// Containers that do not have their own quotas after a restore; somebody else's counts as own.
    not_restored: usize,
    /// Containers that came to have less while no agent ran.
    fallen: Option<usize>,
    /// Looks at which all had more than the limit together, if agents hold it all the time.
    above: Option<u64>,
}

/// Runs the selected rows. Each row goes to `tell` at once.
pub async fn run(chaos: &Chaos, ends: Instant, place: Place<'_>, tell: &mut impl FnMut(Row)) {
    let wanted: Vec<Broken> = BROKEN.into_iter().filter(|one| chaos.wants(one.name)).collect();
    if wanted.is_empty() {
        return;
    }
    let runs = wanted.len() as u32 + 2;
    if Instant::now() + runs * (PLAN.length() + STARTS) + LEASES_START > ends {
        for one in wanted {
            tell(Row::not_run(one.name, one.what.to_owned(), CLAIM, format!("no time left of {:?}", chaos.limit)));
        }
        return;
    }
    place.bar.set_message("node agent, without a fault");
    let without = async {
        let equal = measure(chaos, place, "equal", Allocator::Equal, None).await?;
        let agent = measure(chaos, place, "undisturbed", Allocator::Agent, None).await?;
        Ok((equal, agent))
    };
    let without: Result<(Seen, Seen)> = without.await;
    for one in wanted {
        place.bar.set_message(one.name);
        let measured = match &without {
            Ok(_) => measure(chaos, place, one.name, one.fault.allocator(), Some(one.fault)).await,
            Err(error) => Err(anyhow::anyhow!("without a fault: {error:#}")),
        };
        tell(match (measured, &without) {
            (Ok(ours), Ok((equal, agent))) => {
                let columns = vec![column(Side::Stock, equal), column(Side::Tuned, agent), column(Side::Ours, &ours)];
                Row::new(one.name, one.what.to_owned(), CLAIM, columns)
            }
            (Err(error), _) => Row::not_run(one.name, one.what.to_owned(), CLAIM, format!("{error:#}")),
            (_, Err(error)) => Row::not_run(one.name, one.what.to_owned(), CLAIM, format!("{error:#}")),
        });
    }
}

fn column(side: Side, seen: &Seen) -> Column {
    let count = |what, count: usize| Figure {
        what,
        value: Some(count as f64),
        shown: count.to_string(),
        bound: Bound::AtMost(0.0),
    };
    let mut figures = vec![
        judge::without_an_answer("requests without an answer", &seen.samples, Bound::Chance),
        count("containers below their own quota when the agent has ended", seen.below),
        count("containers without their own quota after a restore", seen.not_restored),
    ];
    let above = seen.above.map(|above| usize::try_from(above).unwrap_or(usize::MAX));
    figures.extend(above.map(|above| count("looks at which all had more than the limit", above)));
    figures.extend(seen.fallen.map(|fallen| count("containers that lost CPU while no agent ran", fallen)));
    figures.extend(seen.overwritten.map(|overwritten| count("quotas of others that were changed", overwritten.into())));
    Column::new(side, figures, &seen.samples)
}

async fn measure(
    chaos: &Chaos,
    place: Place<'_>,
    name: &str,
    allocator: Allocator,
    fault: Option<Fault>,
) -> Result<Seen> {
    let directory = place.directory.join(format!("node-agent-{name}"));
    std::fs::create_dir_all(&directory).with_context(|| directory.display().to_string())?;
    let lab = std::env::current_exe()?;
    let [agent, control_plane] = ["bloc-node-agent", "bloc-control-plane"].map(|name| lab.with_file_name(name));
    let programs = Programs { lab: &lab, agent: &agent, control_plane: &control_plane, rule: "" };
    // The same for all, and so for all columns.
    let seed = chaos.arrivals(0);
    let mut stand = Stand::start(&lab, &directory, seed, allocator.nodes()).await?;
    let quotas = [OWN; CONTAINERS];
    stand.allocate(allocator, &quotas, programs, &directory, true).await?;
    let (containers, processes) = (stand.containers().to_vec(), stand.processes());
    let control_plane = stand.control_plane();
    let disturbed = async {
        sleep(PLAN.warm_up() + PLAN.every + PLAN.burst / 2).await;
        match (fault, processes, control_plane) {
            (Some(Fault::NoControlPlane), _, Some(id)) => {
                kill(id, Signal::SIGKILL).context("the control plane has ended")?;
            }
            (Some(fault), Some(processes), _) => disturb(fault, processes, &containers, &directory)?,
            _ => {}
        }
        match fault {
            Some(Fault::Agent | Fault::Both) => fallen(&containers).await.map(Some),
            _ => Ok(None),
        }
    };
    let (loaded, disturbed) = tokio::join!(stand.load(PLAN, State::new(allocator, &quotas), seed), disturbed);
    let fallen = disturbed?;
    let (samples, seen) = loaded?;
    let is_held = fault == Some(Fault::NoControlPlane);
    let (container, theirs) = THEIRS;
    let is_theirs = |quota: Option<f64>| quota.is_some_and(|quota| (quota - theirs).abs() < 1e-6);
    let overwritten = match fault {
        Some(Fault::ForeignWrite) => Some(!is_theirs(containers[container].quota()?)),
        _ => None,
    };
    stand.end_agents().await;
    let below = count(&containers, |quota| quota.is_some_and(|quota| quota < OWN - 1e-6))?;
    if allocator.has_agent() {
        stand.restore(programs.agent, &directory).await?;
    }
    let own = |quota: Option<f64>| quota.is_some_and(|quota| (quota - OWN).abs() < 1e-6);
    let not_restored =
        count(&containers, |quota| !(own(quota) || fault == Some(Fault::ForeignWrite) && is_theirs(quota)))?;
    stand.end().await;
    Ok(Seen { samples, below, overwritten, not_restored, fallen, above: is_held.then_some(seen.above) })
}

/// How many of the containers come to have less than they have now.
async fn fallen(containers: &[Container]) -> Result<usize> {
    sleep(ENDS).await;
    // Without a quota it may have as much as there is.
    let quota = |container: &Container| Ok(container.quota()?.unwrap_or(f64::INFINITY));
    let had = containers.iter().map(quota).collect::<Result<Vec<f64>>>()?;
    let (mut fallen, ends) = (vec![false; had.len()], Instant::now() + WATCHED);
    while Instant::now() < ends {
        for ((container, had), fallen) in containers.iter().zip(&had).zip(&mut fallen) {
            *fallen |= quota(container)? < had - 1e-6;
        }
        sleep(ENDS).await;
    }
    Ok(fallen.into_iter().filter(|fallen| *fallen).count())
}

fn count(containers: &[Container], matches: impl Fn(Option<f64>) -> bool) -> Result<usize> {
    let mut count = 0;
    for container in containers {
        count += usize::from(matches(container.quota()?));
    }
    Ok(count)
}

fn disturb(fault: Fault, processes: Processes, containers: &[Container], directory: &Path) -> Result<()> {
    let send = |process: u32, signal| kill(Pid::from_raw(process.cast_signed()), signal).context("the agent has ended");
    let (guardian, agent) = processes.guardian_and_agent().context("the agent does not run")?;
    match fault {
        Fault::Agent => send(agent, Signal::SIGKILL),
        Fault::Both => {
            // Neither may see the other one's end.
            send(guardian, Signal::SIGSTOP)?;
            send(agent, Signal::SIGKILL)?;
            send(guardian, Signal::SIGKILL)
        }
        Fault::CutOff => {
            let files: [PathBuf; 2] = ["node-agent.yaml", "pods.yaml"].map(|name| directory.join(name));
            files.iter().try_for_each(std::fs::remove_file).context("the agent's files")
        }
        Fault::NoControlPlane => bail!("there is no control plane"),
        Fault::ForeignWrite => {
            let (container, quota) = THEIRS;
            containers[container].set_quota_of_pod(quota)?;
            Ok(containers[container].set_quota(Some(quota))?)
        }
    }
}
