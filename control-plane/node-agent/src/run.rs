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
use bloc_daemon::lock;
use bloc_daemon::server::{Limits, Port, scraped};
use bloc_daemon::watched::Watched;
use std::future::Future;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::io::AsyncReadExt;
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};

/// Without a step for this long, the agent is not healthy.
const LATE: Duration = Duration::from_secs(2);
/// How long giving leases back may take at the end. The guardian waits 10 s for everything.
const GIVES_BACK: Duration = Duration::from_millis(1_500);

#[derive(Debug)]
pub enum Pods {
    File(Watched<Vec<Pod>>),
    /// The initial value does not count. Pods of the namespace `without` are left out: the agent
    /// must not throttle itself.
    Told {
        pods: watch::Receiver<Arc<Vec<Pod>>>,
        without: String,
    },
}

#[derive(Debug)]
struct Shown {
    status: Status,
    config_ok: bool,
    stepped: Instant,
}

/// What the thread shares with tasks.
#[derive(Clone, Debug)]
pub struct Shared {
    shown: Arc<Mutex<Shown>>,
    stop: Arc<AtomicBool>,
    /// Failures of tasks, by kind, that the thread has not counted yet.
    errors: Arc<Mutex<Vec<(&'static str, String)>>>,
    /// What there is to report, if there is a control plane.
    told: Option<watch::Sender<Arc<Cpu>>>,
    /// Answers of pods that the thread has not counted yet.
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
    /// Returns what there is to report from now on, and where to add answers.
    pub fn report(&mut self) -> (watch::Receiver<Arc<Cpu>>, Heard) {
        let (sender, told) = watch::channel(Arc::default());
        self.told = Some(sender);
        (told, Arc::clone(&self.heard))
    }

    pub fn count_error(&self, kind: &'static str, error: impl ToString) {
        lock(&self.errors).push((kind, error.to_string()));
    }
}

/// Runs the agent until its input says `stop` or ends. Then it restores if `leaves`, else releases.
pub async fn run(
    agent: Agent,
    config: Watched<Config>,
    pods: Pods,
    shared: Shared,
    leaves: impl Future<Output = bool>,
) -> Result<()> {
    let (ended, has_ended) = oneshot::channel();
    let steps = Steps { agent, config, pods, shared: shared.clone() };
    let thread = std::thread::Builder::new().name("steps".to_owned()).spawn(move || {
        // Dropped after a panic, too.
        let _ended: oneshot::Sender<()> = ended;
        steps.run()
    });
    let thread = thread.context("the thread cannot be started")?;
    let told = tokio::select! {
        told = stopped() => told,
        _ = has_ended => false,
    };
    shared.stop.store(true, Ordering::Release);
    let (mut agent, problem) = tokio::task::spawn_blocking(move || thread.join())
        .await?
        .map_err(|_| anyhow!("the stepping thread panicked"))?;
    if let Some(problem) = problem {
        // The guardian releases.
        bail!(problem);
    }
    // This comes first: the agent may be killed.
    let mut errors = agent.release();
    // Without a guardian, the reason to stop is unknown: the agent may return.
    let restore = told && leaves.await;
    tracing::info!(restore, "stopping");
    if restore {
        errors = agent.restore();
        // Memory in use does not prevent this.
        if let Some(leases) = agent.leases()
            && errors.iter().all(GroupError::is_in_use)
            && !leases.give_back(GIVES_BACK).await
        {
            tracing::warn!("the control plane did not confirm that this node gives back its leases");
        }
    }
    match errors.first() {
        None => Ok(()),
        Some(error) => bail!("{} groups cannot be put back, such as {error}", errors.len()),
    }
}

/// Waits until the guardian says `stop`, or is gone. Returns whether it said so.
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

struct Steps {
    agent: Agent,
    config: Watched<Config>,
    pods: Pods,
    shared: Shared,
}

impl Steps {
    /// Runs until it is stopped, or cannot continue.
    fn run(mut self) -> (Agent, Option<&'static str>) {
        let began = Instant::now();
        let (mut next, mut config_ok, mut configured) = (began, true, false);
        let (mut apps, mut asks) = (Arc::default(), Arc::default());
        while !self.shared.stop.load(Ordering::Acquire) {
            let now = began.elapsed();
            if self.agent.is_due() {
                self.configure(&mut config_ok, &mut configured);
                if !self.read_pods() {
                    return (self.agent, Some("the pod source has ended"));
                }
                if !self.agent.has_tree() {
                    return (self.agent, Some("--cgroups: the directory is gone"));
                }
                for (kind, error) in lock(&self.shared.errors).drain(..) {
                    self.agent.count_error(kind, &error);
                }
                for (pod, more) in std::mem::take(&mut *lock(&self.shared.heard)) {
                    self.agent.answered(&pod, more);
                }
            }
            self.agent.step(now);
            // For the guardian. If it is gone, the input ends, too.
            let mut output = std::io::stdout();
            let _ = output.write_all(b".").and_then(|()| output.flush());
            if self.agent.is_due() {
                let status = self.agent.status();
                if self.shared.told.is_some() {
                    (apps, asks) = (Arc::new(report::apps(&status)), Arc::new(self.agent.asks()));
                }
                *lock(&self.shared.shown) = Shown { status, config_ok, stepped: Instant::now() };
            }
            if let Some(told) = &self.shared.told {
                let (apps, asks) = (Arc::clone(&apps), Arc::clone(&asks));
                told.send_replace(Arc::new(Cpu { pods: self.agent.pods().collect(), apps, asks }));
            }
            next += STEP;
            let now = Instant::now();
            if next < now {
                // Missed steps are skipped.
                next = now + STEP;
            }
            self.agent.wait(began, next);
        }
        (self.agent, None)
    }

    fn configure(&mut self, config_ok: &mut bool, configured: &mut bool) {
        match self.config.read() {
            Some(Ok(config)) => {
                (*config_ok, *configured) = (true, true);
                tracing::info!(mode = ?config.mode, apps = config.apps.len(), "configuration in force");
                self.agent.set_config(config);
            }
            Some(Err(error)) => {
                *config_ok = false;
                tracing::warn!(kind = "config", %error, "the configuration is refused");
                self.agent.count("config");
                if !*configured {
                    // A refused configuration must not keep an earlier agent's settings.
                    drop(self.agent.release());
                }
            }
            None => {}
        }
    }

    /// Returns whether the source still works.
    fn read_pods(&mut self) -> bool {
        match &mut self.pods {
            Pods::File(file) => match file.read() {
                Some(Ok(pods)) => self.agent.set_pods(Arc::new(pods)),
                Some(Err(error)) => self.agent.count_error("pods", &error),
                None => {}
            },
            Pods::Told { pods, without } => match pods.has_changed() {
                Ok(false) => {}
                Ok(true) => {
                    let pods = pods.borrow_and_update();
                    let others = pods.iter().filter(|pod| pod.namespace != *without).cloned().collect();
                    self.agent.set_pods(Arc::new(others));
                }
                Err(_) => return false,
            },
        }
        true
    }
}

/// Serves `GET /metrics` and `GET /healthz`; does not end.
pub async fn serve(listener: TcpListener, shared: Shared) {
    let router =
        Router::new().route("/metrics", get(show_metrics)).route("/healthz", get(show_health)).with_state(shared);
    Port::new(listener, router, Limits::SCRAPERS).serve().await;
}

async fn show_metrics(State(shared): State<Shared>) -> Response {
    let (status, config_ok) = {
        let shown = lock(&shared.shown);
        (shown.status.clone(), shown.config_ok)
    };
    scraped(metrics::encode(&status, config_ok))
}

async fn show_health(State(shared): State<Shared>) -> Response {
    let late = lock(&shared.shown).stepped.elapsed();
    if late <= LATE {
        "ok\n".into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, format!("the last step was {} ms ago\n", late.as_millis())).into_response()
    }
}
