//! The agent's process: a thread that steps, and a server for the metrics.

use crate::agent::{Agent, STEP, status::Status};
use crate::cgroup::GroupError;
use crate::config::Config;
use crate::guardian;
use crate::metrics;
use crate::pods::Pod;
use crate::report::{self, Cpu, Heard};
use anyhow::{Context, Result, anyhow, bail};
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use bloc_daemon::server::{Limits, Port, scraped};
use bloc_daemon::watched::Watched;
use std::future::Future;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};

/// Without a step for this long, the agent is not healthy.
const LATE: Duration = Duration::from_secs(2);

/// How long it may take to give back what is held of limits over nodes, at the end: with all else
/// the guardian waits for 10 s.
const GIVES_BACK: Duration = Duration::from_millis(1_500);

/// Where pods come from.
#[derive(Debug)]
pub enum Pods {
    /// A file.
    File(Watched<Vec<Pod>>),
    /// Something that tells them; what it has at first does not count.
    Told {
        /// The pods.
        pods: watch::Receiver<Arc<Vec<Pod>>>,
        /// Whose pods are left out: the agent must not throttle itself.
        without: String,
    },
}

/// What the thread shows to the server.
#[derive(Debug)]
pub struct Shown {
    status: Status,
    config_ok: bool,
    stepped: Instant,
}

/// The state of an agent that runs.
#[derive(Clone, Debug)]
pub struct Shared {
    shown: Arc<Mutex<Shown>>,
    stop: Arc<AtomicBool>,
    /// Errors of a source, by kind, that the thread has not counted yet.
    errors: Arc<Mutex<Vec<(&'static str, String)>>>,
    /// What the control plane is told, if there is one.
    told: Option<watch::Sender<Arc<Cpu>>>,
    /// What the control plane has said that pods answered, which the thread has not counted yet.
    heard: Heard,
}

impl Default for Shared {
    fn default() -> Self {
        let shown = Shown { status: Status::default(), config_ok: true, stepped: Instant::now() };
        Self {
            shown: Arc::new(Mutex::new(shown)),
            stop: Arc::default(),
            errors: Arc::default(),
            told: None,
            heard: Heard::default(),
        }
    }
}

impl Shared {
    /// What the control plane is to be told from now on.
    pub fn tell(&mut self) -> watch::Receiver<Arc<Cpu>> {
        let (sender, told) = watch::channel(Arc::default());
        self.told = Some(sender);
        told
    }

    /// Where answers of pods are to be added.
    pub fn heard(&self) -> Heard {
        Arc::clone(&self.heard)
    }

    /// Counts the failure of a source.
    pub fn count_error(&self, kind: &'static str, error: impl ToString) {
        self.errors.lock().unwrap_or_else(PoisonError::into_inner).push((kind, error.to_string()));
    }
}

/// Runs the agent until its input says `stop` or ends; then it restores if `leaves`, else releases.
///
/// # Errors
/// The thread cannot be started, or has panicked.
pub async fn run(
    agent: Agent,
    config: Watched<Config>,
    pods: Pods,
    shared: Shared,
    leaves: impl Future<Output = bool>,
) -> Result<()> {
    let (ended, has_ended) = oneshot::channel();
    let thread = std::thread::Builder::new()
        .name("steps".to_owned())
        .spawn({
            let shared = shared.clone();
            move || {
                // Also at a panic.
                let _ended: oneshot::Sender<()> = ended;
                steps(agent, config, pods, &shared)
            }
        })
        .context("the thread cannot be started")?;
    let told = tokio::select! {
        told = stopped() => told,
        _ = has_ended => false,
    };
    shared.stop.store(true, Ordering::Release);
    let (mut agent, problem) = tokio::task::spawn_blocking(move || thread.join())
        .await?
        .map_err(|_| anyhow!("the thread of the steps has panicked"))?;
    if let Some(problem) = problem {
        // The guardian releases.
        bail!(problem);
    }
    // At once: who ends it may not wait.
    let mut errors = agent.release();
    // Without a guardian nobody says why: it may come back.
    let restore = told && leaves.await;
    tracing::info!(restore, "ends");
    if restore {
        errors = agent.restore();
        // Memory that is in use holds no CPU.
        if let Some(leases) = agent.leases()
            && errors.iter().all(GroupError::is_in_use)
            && !leases.give_back(GIVES_BACK).await
        {
            tracing::warn!("the control plane does not know that this node gives back what it holds of limits");
        }
    }
    match errors.first() {
        None => Ok(()),
        Some(error) => bail!("{} groups are not as they should be, such as {error}", errors.len()),
    }
}

/// Waits until the guardian says `stop`, or is gone. Returns whether it has said so.
async fn stopped() -> bool {
    let mut word = Vec::new();
    let mut input = tokio::io::stdin();
    loop {
        match input.read_buf(&mut word).await {
            Ok(0) | Err(_) => return false,
            Ok(_) if word.ends_with(guardian::STOP_WORD) => return true,
            Ok(_) => {}
        }
    }
}

/// The steps, until it shall stop, or cannot go on.
fn steps(
    mut agent: Agent,
    mut config: Watched<Config>,
    mut pods: Pods,
    shared: &Shared,
) -> (Agent, Option<&'static str>) {
    let began = Instant::now();
    let (mut next, mut config_ok) = (began, true);
    let mut configured = false;
    let (mut apps, mut asks) = (Arc::default(), Arc::default());
    while !shared.stop.load(Ordering::Acquire) {
        let now = began.elapsed();
        if agent.is_due() {
            match config.read() {
                Some(Ok(config)) => {
                    (config_ok, configured) = (true, true);
                    tracing::info!(mode = ?config.mode, apps = config.apps.len(), "configuration in force");
                    agent.set_config(config);
                }
                Some(Err(error)) => {
                    config_ok = false;
                    // Each: a text comes here once.
                    tracing::warn!(kind = "config", %error, "the configuration is refused");
                    agent.count("config");
                    if !configured {
                        // What an earlier agent has left must not depend on this one.
                        drop(agent.release());
                    }
                }
                None => {}
            }
            if !read_pods(&mut agent, &mut pods) {
                return (agent, Some("the source of the pods has ended"));
            }
            if !agent.has_tree() {
                return (agent, Some("--cgroups: the directory is gone"));
            }
            for (kind, error) in shared.errors.lock().unwrap_or_else(PoisonError::into_inner).drain(..) {
                agent.count_error(kind, &error);
            }
            let heard = std::mem::take(&mut *shared.heard.lock().unwrap_or_else(PoisonError::into_inner));
            for (pod, more) in heard {
                agent.answered(&pod, more);
            }
        }
        agent.step(now);
        beat();
        if agent.is_due() {
            let status = agent.status();
            if shared.told.is_some() {
                (apps, asks) = (Arc::new(report::apps(&status)), Arc::new(agent.asks()));
            }
            let mut shown = shared.shown.lock().unwrap_or_else(PoisonError::into_inner);
            *shown = Shown { status, config_ok, stepped: Instant::now() };
        }
        if let Some(told) = &shared.told {
            told.send_replace(Arc::new(Cpu::new(agent.pods(), Arc::clone(&apps), Arc::clone(&asks))));
        }
        next += STEP;
        let now = Instant::now();
        if next < now {
            // Steps that were missed are not made up for, and none follows at once.
            next = now + STEP;
        }
        agent.wait(began, next);
    }
    (agent, None)
}

/// Tells the guardian that the agent works. If that is gone, the input ends too.
fn beat() {
    let mut output = std::io::stdout();
    let _ = output.write_all(b".").and_then(|()| output.flush());
}

/// Returns whether the source still works.
fn read_pods(agent: &mut Agent, pods: &mut Pods) -> bool {
    match pods {
        Pods::File(file) => match file.read() {
            Some(Ok(pods)) => agent.set_pods(Arc::new(pods)),
            Some(Err(error)) => agent.count_error("pods", &error),
            None => {}
        },
        Pods::Told { pods, without } => match pods.has_changed() {
            Ok(false) => {}
            Ok(true) => {
                let others = pods.borrow_and_update().iter().filter(|pod| pod.namespace != *without).cloned().collect();
                agent.set_pods(Arc::new(others));
            }
            Err(_) => return false,
        },
    }
    true
}

/// Serves `GET /metrics` and `GET /healthz`; does not end.
pub async fn serve(listener: TcpListener, shared: Shared) {
    let router =
        Router::new().route("/metrics", get(show_metrics)).route("/healthz", get(show_health)).with_state(shared);
    Port::new(listener, router, Limits::SCRAPERS).serve().await;
}

async fn show_metrics(State(shared): State<Shared>) -> Response {
    let (status, config_ok) = {
        let shown = shared.shown.lock().unwrap_or_else(PoisonError::into_inner);
        (shown.status.clone(), shown.config_ok)
    };
    scraped(metrics::encode(&status, config_ok))
}

async fn show_health(State(shared): State<Shared>) -> Response {
    let late = shared.shown.lock().unwrap_or_else(PoisonError::into_inner).stepped.elapsed();
    if late <= LATE {
        "ok\n".into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, format!("the last step was {} ms ago\n", late.as_millis())).into_response()
    }
}
