//! Servers that are well again: each routing that promises anything, each kind of fault.
//!
//! What a sender or a server has learned while a server was broken must not outlast the fault. The
//! clusters have no outlier detection, which would end the fault for them.

use super::fault::{Fault, Victim};
use super::judge::{self, Kind, Moments, Promise};
use crate::backend::ServiceTime;
use crate::case::HEAD_START;
use crate::load::{self, ErrorKind, Load, LoadPlan, Sample, Tally};
use crate::mesh::{Mesh, MeshError, MeshSpec, Role, Tools};
use crate::policy::Policy;
use bloc_policy::config::CapacitySpec;
use indicatif::ProgressBar;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, sleep, sleep_until};

const BACKENDS: usize = 4;
/// Three of four can take it all.
const SHARE: f64 = 0.5;
const BEFORE: Duration = Duration::from_secs(4);
const BROKEN: Duration = Duration::from_secs(6);
/// What several processes may take to start.
const STARTS: Duration = Duration::from_secs(4);
/// From when on a server that is well again is to have its share, and how long it is looked at.
const SETTLES: Duration = Duration::from_secs(10);
const LOOKS: Duration = Duration::from_secs(20);
/// A server that starts slowly takes 2.5 s for a request of 50 ms for so long.
const SLOW_START: (f64, Duration) = (0.02, Duration::from_secs(2));

/// What is wrong with a server for a while.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wrong {
    /// Nobody listens at its address.
    Refuses,
    /// Its application answers 500 within a millisecond.
    Fails,
    /// The same as the first, and it takes its time when it is back.
    StartsSlowly,
}

/// A server that is well again.
#[derive(Clone, Copy, Debug)]
pub struct Recovery {
    /// Its name on the command line.
    pub name: &'static str,
    policy: Policy,
    wrong: Wrong,
}

const fn recovery(name: &'static str, policy: Policy, wrong: Wrong) -> Recovery {
    Recovery { name, policy, wrong }
}

/// All of them.
pub const RECOVERIES: [Recovery; 9] = [
    recovery("refuses-bloc", Policy::Bloc, Wrong::Refuses),
    recovery("fails-bloc", Policy::Bloc, Wrong::Fails),
    recovery("starts-slowly-bloc", Policy::Bloc, Wrong::StartsSlowly),
    recovery("refuses-bid", Policy::Bid, Wrong::Refuses),
    recovery("fails-bid", Policy::Bid, Wrong::Fails),
    recovery("starts-slowly-bid", Policy::Bid, Wrong::StartsSlowly),
    recovery("refuses-mu", Policy::Mu, Wrong::Refuses),
    recovery("fails-mu", Policy::Mu, Wrong::Fails),
    recovery("starts-slowly-mu", Policy::Mu, Wrong::StartsSlowly),
];

/// What was seen of one.
pub struct Seen {
    /// The requests.
    pub samples: Vec<Sample>,
    /// When it broke, and when it was well again.
    pub at: Moments,
    /// What was promised.
    pub promises: Vec<Promise>,
}

impl Recovery {
    /// What happens, in a line.
    pub fn what(&self) -> String {
        let (policy, seconds) = (self.policy.name(), BROKEN.as_secs());
        match self.wrong {
            Wrong::Refuses => format!("{policy}: a backend refuses connections for {seconds} s"),
            Wrong::Fails => format!("{policy}: a backend answers 500 within a millisecond for {seconds} s"),
            Wrong::StartsSlowly => format!(
                "{policy}: a backend is away for {seconds} s, and takes 50 times as long in its first {} s",
                SLOW_START.1.as_secs()
            ),
        }
    }

    /// Whether both are tried on the same mesh.
    pub fn is_with(&self, other: &Self) -> bool {
        self.policy == other.policy
    }

    /// A mesh for those that are tried together.
    ///
    /// # Errors
    /// It does not start.
    pub async fn mesh(&self, seed: u64, tools: &Tools, directory: &Path, bar: &ProgressBar) -> Result<Mesh, MeshError> {
        let service_time = ServiceTime::Fixed(Duration::from_millis(50));
        let spec = MeshSpec {
            backends: BACKENDS,
            concurrency: 2,
            capacity: Some(CapacitySpec::Static { limit: 20 }),
            // The default of the product.
            reset_interval: Duration::from_secs(1),
            seed,
            ..MeshSpec::fleet(self.policy, 4, service_time)
        };
        Mesh::start(&spec, tools, &directory.join(self.policy.name()), bar).await
    }

    /// How long it takes.
    pub fn window() -> Duration {
        BEFORE + BROKEN + STARTS + SLOW_START.1 + SETTLES + LOOKS
    }

    /// Breaks this backend and looks at it when it is well again.
    ///
    /// # Errors
    /// A part of the mesh does not do as it is told.
    pub async fn run(&self, mesh: &mut Mesh, backend: usize, seed: u64) -> Result<Seen, MeshError> {
        let plan = LoadPlan {
            target: mesh.gateway(),
            path: "/".to_owned(),
            body: 0,
            load: Load::Poisson { rate: SHARE * mesh.total_rate() },
            keep_alive: false,
            timeout: judge::PATIENCE,
            warm_up: Duration::ZERO,
            window: Self::window(),
            outstanding_limit: 4_000,
            seed,
        };
        let start = Instant::now() + HEAD_START;
        let (measured, disturbed) =
            tokio::join!(load::run(&plan, start, Arc::<Tally>::default()), self.disturb(mesh, backend, start));
        let (at, served) = disturbed?;
        let kind = Kind {
            kills: self.wrong != Wrong::Fails,
            heals_by_itself: true,
            own: (self.wrong == Wrong::Fails).then_some((ErrorKind::Status(500), BACKENDS)),
            ..Kind::default()
        };
        let promises = judge::judge_recovered(&measured.samples, kind, at, &served, backend);
        Ok(Seen { samples: measured.samples, at, promises })
    }

    /// What each backend has served while it was looked at.
    async fn disturb(&self, mesh: &mut Mesh, backend: usize, start: Instant) -> Result<(Moments, Vec<u64>), MeshError> {
        let victim = Victim { backend, frontend: 0 };
        let fault = if self.wrong == Wrong::Fails { Fault::Failing } else { Fault::KillPod };
        sleep_until(start + BEFORE).await;
        let began_s = start.elapsed().as_secs_f64();
        let broken = fault.inject(mesh, victim).await?;
        let complete_s = start.elapsed().as_secs_f64();
        sleep_until(start + BEFORE + BROKEN).await;
        if self.wrong == Wrong::StartsSlowly {
            let (speed, time) = SLOW_START;
            mesh.restart_backend(backend).await?;
            mesh.change_speed_of(backend, speed).await?;
            mesh.restart(&[Role::Sidecar(backend)]).await?;
            sleep(time).await;
            mesh.change_speed_of(backend, 1.0).await?;
        } else {
            fault.mend(mesh, victim, broken).await?;
        }
        let mended_s = start.elapsed().as_secs_f64();
        sleep(SETTLES).await;
        let before = mesh.answered_by_sidecars().await?;
        sleep(LOOKS).await;
        let after = mesh.answered_by_sidecars().await?;
        let served = after.iter().zip(before).map(|(after, before)| after - before).collect();
        Ok((Moments { began_s, complete_s, mended_s }, served))
    }
}
