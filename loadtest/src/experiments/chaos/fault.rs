//! The faults, and how they are injected and mended.

use super::false_control_plane::{Answers, FalseControlPlane};
use super::figure::Claim;
use bloc_mesh::backend::Behaviour;
use bloc_mesh::network_faults::Impossible;
use bloc_mesh::network_faults::{self, Delay};
use bloc_mesh::{Mesh, MeshError, Role};
use std::time::Duration;
use tokio::time::sleep;

/// One fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// A backend and its sidecar are killed.
    KillPod,
    /// A backend is killed; its sidecar stays.
    KillApp,
    /// All backends and their sidecars are killed.
    Blackout,
    /// A backend is stopped.
    StopApp,
    /// A backend's sidecar is stopped.
    StopSidecar,
    /// A backend takes ten times as long.
    Slow,
    /// A backend answers 500 at once.
    Failing,
    /// A backend cuts its answers off.
    Cutting,
    /// A backend's sidecar is killed.
    Sidecar,
    /// A frontend is killed.
    Frontend,
    /// All frontends are killed at once.
    Frontends,
    /// The gateway is killed.
    Gateway,
    /// The control plane is down.
    ControlPlaneDown,
    /// The control plane accepts polls and does not answer.
    ControlPlaneSilent,
    /// The control plane lies.
    ControlPlaneLies,
    /// The wall clock of a frontend and a sidecar jumps.
    Clock,
    /// Packets to and from a backend's sidecar are lost.
    Loss,
    /// All packets are late.
    Delay,
}

/// All faults, in the order of the report.
pub const FAULTS: [Fault; 18] = [
    Fault::KillPod,
    Fault::KillApp,
    Fault::Blackout,
    Fault::StopApp,
    Fault::StopSidecar,
    Fault::Slow,
    Fault::Failing,
    Fault::Cutting,
    Fault::Sidecar,
    Fault::Frontend,
    Fault::Frontends,
    Fault::Gateway,
    Fault::ControlPlaneDown,
    Fault::ControlPlaneSilent,
    Fault::ControlPlaneLies,
    Fault::Clock,
    Fault::Loss,
    Fault::Delay,
];

/// An hour in seconds.
const HOUR: i64 = 3_600;
/// How long a clock stays an hour ahead before it goes back by two hours.
const AHEAD: Duration = Duration::from_secs(3);

/// What must be undone to mend a fault.
#[derive(Debug, Default)]
pub struct Broken {
    false_control_plane: Option<FalseControlPlane>,
    delay: Option<Delay>,
}

impl Fault {
    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::KillPod => "kill-pod",
            Self::KillApp => "kill-app",
            Self::Blackout => "blackout",
            Self::StopApp => "stop-app",
            Self::StopSidecar => "stop-sidecar",
            Self::Slow => "slow",
            Self::Failing => "failing",
            Self::Cutting => "cutting",
            Self::Sidecar => "sidecar",
            Self::Frontend => "frontend",
            Self::Frontends => "frontends",
            Self::Gateway => "gateway",
            Self::ControlPlaneDown => "control-plane-down",
            Self::ControlPlaneSilent => "control-plane-silent",
            Self::ControlPlaneLies => "control-plane-lies",
            Self::Clock => "clock",
            Self::Loss => "loss",
            Self::Delay => "delay",
        }
    }

    /// A description in one line.
    pub fn what(self) -> &'static str {
        match self {
            Self::KillPod => "a backend and its sidecar are killed, and are back 6 s later",
            Self::KillApp => "a backend is killed while its sidecar stays, and is back 6 s later",
            Self::Blackout => "all backends and sidecars are killed, and are back 6 s later",
            Self::StopApp => "a backend is stopped (SIGSTOP) for 6 s",
            Self::StopSidecar => "a backend's sidecar is stopped (SIGSTOP) for 6 s",
            Self::Slow => "a backend takes ten times as long for 6 s",
            Self::Failing => "a backend answers 500 at once for 6 s",
            Self::Cutting => "a backend breaks its answers off in the middle for 6 s",
            Self::Sidecar => "a backend's sidecar is killed, and is back 6 s later",
            Self::Frontend => "a frontend's sidecar is killed, and is back 6 s later",
            Self::Frontends => "all frontends' sidecars are killed at once, and are back 6 s later",
            Self::Gateway => "the gateway is killed, and is back 6 s later",
            Self::ControlPlaneDown => "the control plane is killed, and is back 6 s later",
            Self::ControlPlaneSilent => "the control plane takes questions and gives no answers for 6 s",
            Self::ControlPlaneLies => {
                "the control plane answers with older versions, empty lists, no services, refusals and nonsense for 6 s"
            }
            Self::Clock => {
                "the wall clock of a frontend and a sidecar steps an hour ahead, 3 s later two hours back, and is right 3 s after that"
            }
            Self::Loss => "a twentieth of the packets from and to a backend's sidecar is lost for 6 s",
            Self::Delay => "each packet of the mesh is 3 ms late, give or take 2 ms, for 6 s",
        }
    }

    /// The claim of its row.
    pub fn claim(self) -> Claim {
        match self {
            // Stock Envoy tries each request three times. Its retry budget depends on the requests
            // in flight, and there are next to none where connections are refused at once.
            Self::Blackout => Claim::Ours,
            // A sidecar without its application answers faster than all others.
            Self::KillApp => Claim::Untuned,
            _ => Claim::NoHarm,
        }
    }

    /// Whether nobody can take a request while it lasts.
    pub fn leaves_nobody(self) -> bool {
        matches!(self, Self::Blackout | Self::Frontends | Self::Gateway)
    }

    /// Whether it kills processes, and the requests in them.
    pub fn kills(self) -> bool {
        self.leaves_nobody() || matches!(self, Self::KillPod | Self::KillApp | Self::Sidecar | Self::Frontend)
    }

    /// Whether the counters of frontends start from zero.
    pub fn restarts_frontends(self) -> bool {
        matches!(self, Self::Frontend | Self::Frontends)
    }

    /// Whether it can be injected here.
    pub(super) async fn check(self) -> Result<(), Impossible> {
        match self {
            Self::Loss => network_faults::can_lose(),
            Self::Delay => network_faults::can_delay().await,
            _ => Ok(()),
        }
    }

    /// Injects it.
    pub(super) async fn inject(self, mesh: &mut Mesh, victim: Victim) -> Result<Broken, MeshError> {
        let Victim { backend, frontend } = victim;
        let mut broken = Broken::default();
        match self {
            Self::KillPod => {
                mesh.crash(Role::Sidecar(backend)).await;
                mesh.crash_backend(backend).await;
            }
            Self::KillApp => mesh.crash_backend(backend).await,
            Self::Blackout => {
                for n in 0..mesh.endpoints().len() {
                    mesh.crash(Role::Sidecar(n)).await;
                    mesh.crash_backend(n).await;
                }
            }
            Self::StopApp => mesh.freeze_backend(backend, true),
            Self::StopSidecar => mesh.freeze(Role::Sidecar(backend), true),
            Self::Slow => mesh.change_speed_of(backend, 0.1).await?,
            Self::Failing => mesh.change_behaviour_of(backend, Behaviour::Failing).await?,
            Self::Cutting => mesh.change_behaviour_of(backend, Behaviour::Cutting).await?,
            Self::Sidecar => mesh.crash(Role::Sidecar(backend)).await,
            Self::Frontend => mesh.crash(Role::Frontend(frontend)).await,
            Self::Frontends => {
                for n in 0..mesh.frontend_count() {
                    mesh.crash(Role::Frontend(n)).await;
                }
            }
            Self::Gateway => mesh.crash(Role::Gateway).await,
            Self::ControlPlaneDown => mesh.crash_control_plane().await,
            Self::ControlPlaneSilent => {
                broken.false_control_plane = FalseControlPlane::in_the_place_of(mesh, Answers::None).await?
            }
            Self::ControlPlaneLies => {
                broken.false_control_plane = FalseControlPlane::in_the_place_of(mesh, Answers::All).await?
            }
            Self::Clock => {
                for role in [Role::Frontend(frontend), Role::Sidecar(backend)] {
                    mesh.step_clock(role, HOUR).await?;
                }
                sleep(AHEAD).await;
                for role in [Role::Frontend(frontend), Role::Sidecar(backend)] {
                    mesh.step_clock(role, -HOUR).await?;
                }
            }
            Self::Loss => network_faults::lose(mesh.endpoints()[backend].port()),
            Self::Delay => {
                let delay = Delay::begin().map_err(|Impossible(why)| MeshError::Fault { fault: self.name(), why })?;
                broken.delay = Some(delay);
            }
        }
        Ok(broken)
    }

    /// Mends it.
    pub(super) async fn mend(self, mesh: &mut Mesh, victim: Victim, broken: Broken) -> Result<(), MeshError> {
        let Victim { backend, frontend } = victim;
        match self {
            Self::KillPod => {
                mesh.restart_backend(backend).await?;
                mesh.restart(&[Role::Sidecar(backend)]).await?;
            }
            Self::KillApp => mesh.restart_backend(backend).await?,
            Self::Blackout => {
                let all = mesh.endpoints().len();
                for n in 0..all {
                    mesh.restart_backend(n).await?;
                }
                mesh.restart(&(0..all).map(Role::Sidecar).collect::<Vec<_>>()).await?;
            }
            Self::StopApp => mesh.freeze_backend(backend, false),
            Self::StopSidecar => mesh.freeze(Role::Sidecar(backend), false),
            Self::Slow => mesh.change_speed_of(backend, 1.0).await?,
            Self::Failing | Self::Cutting => mesh.change_behaviour_of(backend, Behaviour::Normal).await?,
            Self::Sidecar => mesh.restart(&[Role::Sidecar(backend)]).await?,
            Self::Frontend => mesh.restart(&[Role::Frontend(frontend)]).await?,
            Self::Frontends => {
                let all: Vec<Role> = (0..mesh.frontend_count()).map(Role::Frontend).collect();
                mesh.restart(&all).await?;
            }
            Self::Gateway => mesh.restart(&[Role::Gateway]).await?,
            Self::ControlPlaneDown => mesh.restart_control_plane().await?,
            Self::ControlPlaneSilent | Self::ControlPlaneLies => {
                if let Some(false_control_plane) = broken.false_control_plane {
                    false_control_plane.end().await;
                }
                mesh.restart_control_plane().await?;
            }
            Self::Clock => {
                for role in [Role::Frontend(frontend), Role::Sidecar(backend)] {
                    mesh.step_clock(role, 0).await?;
                }
            }
            Self::Loss => network_faults::lose_nothing(),
            Self::Delay => {
                if let Some(delay) = broken.delay {
                    delay.end().await;
                }
            }
        }
        Ok(())
    }
}

/// The victim of a fault.
#[derive(Clone, Copy, Debug)]
pub struct Victim {
    /// The backend, with its sidecar.
    pub backend: usize,
    /// The frontend.
    pub frontend: usize,
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_fault_has_a_unique_name_and_description() {
        let names: BTreeSet<&str> = FAULTS.iter().map(|fault| fault.name()).collect();
        let whats: BTreeSet<&str> = FAULTS.iter().map(|fault| fault.what()).collect();
        assert_eq!((names.len(), whats.len()), (FAULTS.len(), FAULTS.len()));
    }
}
