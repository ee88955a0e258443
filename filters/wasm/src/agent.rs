//! The agent: asks the control plane for parameters, once per Envoy process, and brings them to every thread.
//!
//! Every thread's VM ticks. One of them, the leader, holds a poll at the control plane, the next as soon as one is over; who leads, and whose answer counts, [`Follower`] decides.
//! The leader puts the answer into the shared data and announces it in the queues of the others; an announcement that is lost is made up for by the next tick, on which each
//! looks at the version. A service that is called for the first time is announced in the same way, so that the leader asks for it. A tick wakes a thread that may be idle, which
//! is what makes it dear (0.3 ms of CPU for each request, when fifty Envoys with little traffic ticked four times a second), hence only one in five seconds: in a VM without traffic, as
//! that of the main thread is, and in one with enough of it that requests hand the counters over by the way. In between, and while something is to be made up for, it is one a second.
//!
//! On failure: the last good state stays, and [`Polls`] says when the poll is repeated.

use crate::crash;
use crate::host::{self, Data, Headers};
use crate::message::Message;
use crate::state;
use bloc_policy::config::{ConfigError, ControlPlane};
use bloc_policy::follower::{Follower, News, Stamp};
use bloc_policy::polls::{self, Answered, Outcome, Polls, Question};
use bloc_policy::roster;
use bloc_policy::sync::{SYNC_PATH, ServiceLoad, SyncRequest};
use bloc_policy::units::Timestamp;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::time::Duration;

/// How often a thread looks that has a request now and then, or something to make up for; how often requests hand the counters over.
pub const TICK: Duration = Duration::from_secs(1);
/// How often any other thread looks; more often than [`LEASE`](bloc_policy::follower::LEASE).
const TICK_WHEN_IDLE: Duration = Duration::from_secs(5);
/// Ticks may come more often than [`TICK`], because of the line; the agent's work is not done twice within this time.
const LEAST_TICK: Duration = Duration::from_millis(900);

/// How much of a refusal is shown in the log, in bytes.
const MAX_SHOWN: usize = 256;

thread_local! {
    static AGENT: RefCell<Agent> = RefCell::new(Agent::new(state::with(|state| state.vm)));
}

/// Works on this VM's agent.
pub fn with<T>(work: impl FnOnce(&mut Agent) -> T) -> T {
    AGENT.with(|agent| work(&mut agent.borrow_mut()))
}

/// The agent of one VM.
pub struct Agent {
    /// This VM's number.
    vm: u64,
    /// The root context whose ticks count: the one that was configured last.
    owner: u32,
    control_plane: Option<ControlPlane>,
    /// What this VM has of the control plane's state.
    follower: Follower,
    polls: Polls,
    /// Whether this VM is among those that are told of news.
    listed: bool,
    /// When there is something to do again, and how often it is to be looked.
    due: Timestamp,
    period: Duration,
}

impl Agent {
    fn new(vm: u64) -> Self {
        Self {
            vm,
            owner: 0,
            control_plane: None,
            follower: Follower::new(vm),
            polls: Polls::default(),
            listed: false,
            due: Timestamp::ZERO,
            period: TICK,
        }
    }

    /// A plugin was configured; its root context carries the agent from now on, unless it says nothing of a control plane and another did.
    pub fn configure(&mut self, root: u32, control_plane: Option<&ControlPlane>) {
        if control_plane.is_some() || self.control_plane.is_none() {
            self.owner = root;
            self.control_plane = control_plane.cloned();
            // A poll of the root context before dies with it.
            self.polls.reset();
        }
    }

    /// Does what is due, if the ticks of this root context are those that count.
    pub fn tick(&mut self, root: u32) -> bool {
        if root != self.owner {
            return false;
        }
        let now = host::now();
        if now < self.due {
            if state::with(|state| state.has_counted()) {
                self.period = TICK;
            }
            return true;
        }
        self.due = now.after(LEAST_TICK);
        let (used, new) = state::with(|state| {
            // Requests that come often enough do it themselves.
            let by_request = state.was_handed_over();
            let used = state.flush() && !by_request;
            state.look_anew();
            (used, std::mem::take(&mut state.new_services))
        });
        let behind = self.control_plane.is_some() && !self.keep_up(new, now);
        self.period = if used || behind { TICK } else { TICK_WHEN_IDLE };
        true
    }

    /// How often this VM is to look.
    pub fn period(&self) -> Duration {
        self.period
    }

    /// Stays in touch with the control plane and the other threads; false if something is left for the next tick.
    fn keep_up(&mut self, new: BTreeSet<String>, now: Timestamp) -> bool {
        self.listed = self.listed || roster::list(&Data, self.vm);
        let mut done = self.listed;
        if !new.is_empty() {
            if roster::announce(&Data, &new) {
                self.tell();
            } else {
                // Another thread was faster: again on the next tick.
                state::with(|state| state.new_services.extend(new));
                done = false;
            }
        }
        self.catch_up();
        self.lead(now) && done
    }

    /// Holds a poll if this VM is the leader; false if it ought to and cannot yet.
    fn lead(&mut self, now: Timestamp) -> bool {
        if self.control_plane.is_none() || !self.follower.leads(&Data, now) {
            return true;
        }
        let services = roster::seen(&Data);
        if self.polls.is_due(&services, now) {
            self.ask(services, now);
        }
        self.polls.is_under_way()
    }

    /// Something was announced: by another thread a state, or a service that the leader does not ask for yet; by a request of this one a service that is new here. False if
    /// something is left for the next tick.
    pub fn hear(&mut self) -> bool {
        self.control_plane.is_none() || {
            let new = state::with(|state| std::mem::take(&mut state.new_services));
            self.keep_up(new, host::now())
        }
    }

    /// Tells the other threads that there is something to hear.
    fn tell(&self) {
        for vm in roster::vms(&Data).into_iter().filter(|vm| *vm != self.vm) {
            host::wake(vm, &Message::News.encode());
        }
    }

    fn ask(&mut self, services: BTreeSet<String>, now: Timestamp) {
        let Some(control_plane) = &self.control_plane else { return };
        let load: Vec<ServiceLoad> =
            state::with(|state| state.served().map(|(service, inbound)| inbound.borrow().load(service)).collect());
        let request = SyncRequest {
            proxy: host::text_property("xds\0node\0id").unwrap_or_default(),
            version: self.follower.version().to_owned(),
            services: services.iter().cloned().collect(),
            serves: load.iter().map(|load| load.service.clone()).collect(),
            wait: Some(format!("{}ms", control_plane.wait().as_millis())),
            load,
        };
        let Ok(body) = serde_json::to_vec(&request) else { return };
        let timeout = polls::timeout(control_plane.wait());
        match host::post_json(control_plane.cluster(), SYNC_PATH, &body, timeout) {
            Some(token) => {
                self.polls.asked(token, Question { services, stamp: self.follower.stamp() }, now);
            }
            None => {
                let pause = state::with(|state| self.polls.failed_to_ask(now, &mut state.rng));
                warn("no such cluster", pause);
            }
        }
    }

    /// The control plane has answered, or the call has failed. False if the next poll has to wait for a tick.
    pub fn answered(&mut self, token: u32, headers: usize, body_size: usize) -> bool {
        crash::point("call");
        let Some(Answered { question, since }) = self.polls.answered(token) else { return true };
        let now = host::now();
        let status = if headers == 0 { None } else { host::header(Headers::CallResponse, ":status") };
        let (outcome, why) = match status.as_deref() {
            Some(b"200") => match self.take(question.stamp, &host::call_response_body(body_size)) {
                Ok(()) => (Outcome::News, String::new()),
                Err(error) => (Outcome::Failed, format!("answer refused: {error}")),
            },
            Some(b"304") => (Outcome::Unchanged { retry_after: retry_after() }, String::new()),
            Some(status) => {
                let said = host::call_response_body(body_size.min(MAX_SHOWN));
                let (status, said) = (String::from_utf8_lossy(status), String::from_utf8_lossy(&said));
                (Outcome::Failed, format!("status {status}: {said}"))
            }
            None => (Outcome::Failed, "no answer".to_owned()),
        };
        let settled = state::with(|state| self.polls.settle(since, outcome, now, &mut state.rng));
        if let Some(pause) = settled.pause {
            warn(&why, pause);
        }
        settled.at_once && self.lead(now)
    }

    /// Takes the answer to what was asked with `stamp`.
    fn take(&mut self, stamp: Stamp, body: &[u8]) -> Result<(), ConfigError> {
        if let Some(news) = self.follower.answered(&Data, stamp, body)? {
            self.put_in_force(news);
        }
        Ok(())
    }

    /// Takes over what another thread has put into the shared data.
    fn catch_up(&mut self) {
        match self.follower.look(&Data) {
            Ok(Some(news)) => self.put_in_force(news),
            Ok(None) => {}
            Err(error) => log::warn!("control plane: {error}"),
        }
    }

    fn put_in_force(&mut self, news: News) {
        log::debug!("control plane: version {} in force", self.follower.version());
        if news.brought {
            self.tell();
        }
        state::with(|state| state.update(news.services));
    }
}

fn warn(why: &str, pause: Duration) {
    log::warn!("control plane: {why}; the last good state stays, next try in {} ms", pause.as_millis());
}

/// How long the control plane asks to be left alone, if it does.
fn retry_after() -> Option<Duration> {
    let seconds = host::header(Headers::CallResponse, "retry-after")?;
    let seconds = std::str::from_utf8(&seconds).ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds))
}
