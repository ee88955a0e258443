//! The agent: asks the control plane for parameters, once per proxy, and passes them to every
//! thread.
//!
//! Every thread's VM ticks. One of them, the leader, keeps a poll open at the control plane, and
//! sends the next as soon as one ends. [`Follower`] decides who leads and whose answer counts;
//! [`Polls`] decides when the next poll is due. The leader puts the answer into the shared data and
//! announces it in the queues of the others. If an announcement is lost, the next tick of each VM
//! finds the new version. A service that is called for the first time is announced in the same way,
//! so that the leader asks for it. So is a service that a thread stands in front of, so that the
//! leader [reports](crate::reporter) its load. What the control plane says of the CPU takes the
//! same way ([`Supply`]); it is forgotten when nothing was said of it for 90 s, or when another
//! control plane is asked.
//!
//! A tick is expensive because it wakes a thread that may be idle: it cost 0.3 ms of CPU per
//! request when fifty Envoys with little traffic ticked four times a second. So a VM ticks once in
//! five seconds if it has no traffic (like the main thread's), or so much that its requests hand
//! over the counters. Otherwise, and while something is left to do, it ticks once a second.
//!
//! On failure: the last good state stays, and the poll is repeated.

mod cpu;

use crate::crash;
use crate::host::{Host, Post, PostAnswer};
use crate::message::Message;
use crate::names::TICK;
use crate::reporter::Reporter;
use crate::vm::Vm;
use bloc_policy::config::cluster_name::service_of;
use bloc_policy::config::features::{FEATURES_HEADER, Features, MODULE_HEADER};
use bloc_policy::config::{ConfigError, ControlPlane, Services};
use bloc_policy::proxy::cpu::Supply;
use bloc_policy::proxy::roster::{self, Added};
use bloc_policy::sync::follower::{Follower, News};
use bloc_policy::sync::polls::{self, Outcome, Polls, Question};
use bloc_policy::sync::{Answer, SYNC_PATH, SyncRequest};
use bloc_policy::units::Timestamp;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

/// The tick period of all other VMs; less than [`LEASE`](bloc_policy::sync::follower::LEASE).
const TICK_WHEN_IDLE: Duration = Duration::from_secs(5);
/// Ticks may come more often than [`TICK`], because of the queue. The agent works at most once
/// within this time.
const LEAST_TICK: Duration = Duration::from_millis(900);
/// How long the control plane may hold a poll if there is more to report; the least that it allows.
const LEAST_WAIT: Duration = Duration::from_secs(1);
/// How many bytes of an error response the log shows.
const MAX_SHOWN: usize = 256;

/// The agent of one VM.
pub struct SyncClient<H: Host> {
    vm: Rc<Vm<H>>,
    control_plane: Option<ControlPlane>,
    /// The cluster asked last; empty: none yet.
    asks: String,
    /// What this VM has of the control plane's state.
    follower: Follower,
    /// Likewise of the CPU.
    supply: Supply,
    polls: Polls,
    reporter: Reporter<H>,
    /// How many of the services that this VM stands in front of have been announced.
    served: usize,
    /// Whether this VM is listed among those to be told of news.
    listed: bool,
    /// When the next work is due, and how often to tick.
    due: Timestamp,
    period: Duration,
}

impl<H: Host> SyncClient<H> {
    /// The agent of a VM, without a control plane yet.
    pub fn new(vm: &Rc<Vm<H>>) -> Self {
        Self {
            vm: Rc::clone(vm),
            control_plane: None,
            asks: String::new(),
            follower: Follower::new(vm.number),
            supply: Supply::default(),
            polls: Polls::default(),
            reporter: Reporter::new(&vm.host, vm.number),
            served: 0,
            listed: false,
            due: Timestamp::ZERO,
            period: TICK,
        }
    }

    /// Asks this control plane from now on.
    pub fn configure(&mut self, control_plane: Option<&ControlPlane>) {
        if self.control_plane.as_ref() == control_plane {
            return;
        }
        self.control_plane = control_plane.cloned();
        let Some(control_plane) = control_plane else {
            // Without a control plane, nothing would ever revoke its parameters.
            self.follower.forget();
            self.supply.forget();
            self.vm.provide(self.supply.get());
            self.vm.update(Services::new(), &[]);
            self.step_down();
            return;
        };
        let (before, now) = (&*self.asks, control_plane.cluster());
        if before != now {
            if !before.is_empty() {
                log::warn!("control plane: polling {now:?} instead of {before:?}, because a proxy polls one");
            }
            self.asks = now.to_owned();
            // The parameters in force stay until the new one has answered.
            self.follower.follow(now);
            self.supply.follow(now);
            self.vm.provide(self.supply.get());
            self.polls.reset();
        }
    }

    /// The last root context ends, and this VM with it: it gives up the lead and leaves the list at
    /// once.
    pub fn leave(&mut self) {
        self.configure(None);
        self.moved();
        if std::mem::take(&mut self.listed) {
            roster::unlist(&self.vm.host, self.vm.number);
        }
    }

    /// The root context that made the calls has ended, and the poll under way with it.
    pub fn moved(&mut self) {
        self.polls.reset();
        self.reporter.lost();
        self.due = Timestamp::ZERO;
        self.step_down();
    }

    /// Gives up the lead if there is no control plane, but not while a poll is under way: it cannot
    /// be cancelled, and there would be two if a control plane were configured again.
    fn step_down(&self) {
        if self.control_plane.is_none() && !self.polls.is_under_way() && self.follower.resign(&self.vm.host) {
            self.tell();
        }
    }

    /// Does what is due.
    pub fn tick(&mut self) {
        let now = self.vm.host.now();
        if now < self.due {
            if self.vm.has_counted() {
                self.period = TICK;
            }
            return;
        }
        self.due = now.after(LEAST_TICK);
        // If requests come often enough, they hand over the counters.
        let by_request = self.vm.was_handed_over();
        let used = self.vm.flush() && !by_request;
        self.vm.forget_clusters();
        self.polls.give_up(now);
        let behind = if self.control_plane.is_some() {
            let new = self.vm.take_new_services();
            !self.keep_up(new, now)
        } else {
            if self.polls.is_under_way() {
                self.follower.try_lead(&self.vm.host, now);
            }
            self.step_down();
            false
        };
        self.period = if used || behind { TICK } else { TICK_WHEN_IDLE };
    }

    /// How often this VM must tick.
    pub fn period(&self) -> Duration {
        self.period
    }

    /// Keeps in step with the control plane and the other threads; false if something is left for
    /// the next tick.
    fn keep_up(&mut self, new: BTreeSet<String>, now: Timestamp) -> bool {
        self.listed = self.listed || roster::list(&self.vm.host, self.vm.number);
        let mut done = self.listed & self.serve();
        if !new.is_empty() {
            match roster::announce(&self.vm.host, &new) {
                Added::Some => self.tell(),
                Added::Nothing => {}
                Added::NoRoom => {
                    log::warn!(
                        "control plane: a poll cannot ask for all services; of {new:?}, some stay without parameters"
                    );
                    self.tell();
                }
                Added::NotYet => {
                    self.vm.give_back_new_services(new);
                    done = false;
                }
            }
        }
        self.catch_up();
        self.lead(now) && done
    }

    /// Announces the services that this VM stands in front of; false if that is left for the next
    /// tick.
    fn serve(&mut self) -> bool {
        let count = self.vm.serves_count();
        if self.served == count {
            return true;
        }
        let serves = self.vm.serves();
        let done = match roster::serve(&self.vm.host, &serves) {
            Added::Some => {
                self.tell();
                true
            }
            Added::NoRoom => {
                log::warn!("control plane: a poll cannot report all services; of {serves:?}, some report no load");
                self.tell();
                true
            }
            Added::Nothing => true,
            Added::NotYet => false,
        };
        if done {
            self.served = count;
        }
        done
    }

    /// Polls if this VM is the leader; false if it leads but has no poll under way.
    fn lead(&mut self, now: Timestamp) -> bool {
        if self.control_plane.is_none() || !self.follower.try_lead(&self.vm.host, now) {
            return true;
        }
        let services = roster::seen(&self.vm.host);
        let serves = roster::served(&self.vm.host);
        if self.polls.is_due(&services, &serves, now) {
            self.ask(services, serves, now);
        }
        self.polls.is_under_way()
    }

    /// There was an announcement: from another thread a new state, or a service that the leader
    /// does not ask for yet; from a request of this thread a service that is new here. False if
    /// something is left for the next tick.
    pub fn observe(&mut self) -> bool {
        self.control_plane.is_none() || {
            let new = self.vm.take_new_services();
            self.keep_up(new, self.vm.host.now())
        }
    }

    /// Tells the other threads that there is news.
    fn tell(&self) {
        for vm in roster::vms(&self.vm.host).into_iter().filter(|vm| *vm != self.vm.number) {
            self.vm.host.wake(vm, &Message::News.encode());
        }
    }

    fn ask(&mut self, services: BTreeSet<String>, serves: BTreeSet<String>, now: Timestamp) {
        let Some(control_plane) = &self.control_plane else { return };
        let wait = if self.reporter.has_more() { LEAST_WAIT } else { control_plane.wait() };
        let cluster = control_plane.cluster();
        let (mut report, mut load, last) = self.reporter.begin(cluster, &serves, wait, now);
        let calls = self.reporter.latencies(&mut report, &mut load, &services, now);
        let request = SyncRequest {
            proxy: self.vm.host.node(),
            version: self.follower.version().to_owned(),
            services: services.iter().cloned().collect(),
            serves: serves.iter().cloned().collect(),
            wait: Some(format!("{}ms", wait.as_millis())),
            load,
            last: Some(last),
            unread: self.follower.unread().to_vec(),
            calls,
            cpu: self.supply.get().cores,
        };
        let features = Features::own().to_string();
        let body = serde_json::to_vec(&request).unwrap_or_default();
        let token = self.vm.host.post(Post {
            cluster,
            // An Istio cluster's name is not a valid authority: a sidecar in front of the control
            // plane would answer 400.
            authority: service_of(cluster),
            path: SYNC_PATH,
            headers: &[(FEATURES_HEADER, &features), (MODULE_HEADER, env!("CARGO_PKG_VERSION"))],
            body: &body,
            timeout: polls::timeout(wait),
        });
        self.reporter.sent(report, token);
        match token {
            Some(token) => {
                let (stamp, cpu) = (self.follower.stamp(), self.supply.last());
                self.polls.asked(token, Question { services, serves, stamp, cpu, wait }, now);
            }
            None => {
                let pause = self.polls.failed_to_ask(now, &mut *self.vm.rng.borrow_mut());
                warn("no such cluster", pause);
            }
        }
    }

    /// The control plane has answered, or (none) the call has failed. False if the next poll has to
    /// wait for a tick.
    pub fn answered(&mut self, token: u32, answer: Option<&PostAnswer>) -> bool {
        crash::point(&self.vm.host, "call");
        self.reporter.answered(token, answer);
        let Some(answered) = self.polls.answered(token) else { return true };
        if self.control_plane.is_none() {
            self.step_down();
            return true;
        }
        let now = self.vm.host.now();
        let outcome = self.outcome(&answered.question, answer);
        let (outcome, why) = outcome.map_or_else(|why| (Outcome::Failed, why), |outcome| (outcome, String::new()));
        let settled = self.polls.settle(answered.since, outcome, now, &mut *self.vm.rng.borrow_mut());
        if let Some(pause) = settled.pause {
            warn(&why, pause);
        }
        settled.at_once && self.lead(now)
    }

    /// What the answer to this question says; the error is a text for the log.
    fn outcome(&mut self, question: &Question, answer: Option<&PostAnswer>) -> Result<Outcome, String> {
        let answer = answer.ok_or("no answer")?;
        match &*answer.status {
            b"200" => self.take(question, &answer.body).map_err(|error| format!("answer refused: {error}")),
            b"304" => Ok(Outcome::Unchanged { retry_after: answer.retry_after() }),
            status => {
                let said = answer.body.get(..MAX_SHOWN).unwrap_or(&answer.body);
                let (status, said) = (String::from_utf8_lossy(status), String::from_utf8_lossy(said));
                Err(format!("status {status}: {said}"))
            }
        }
    }

    /// Takes the answer to this question.
    fn take(&mut self, question: &Question, body: &[u8]) -> Result<Outcome, ConfigError> {
        let Answer { state, cpu } = Answer::read(body)?;
        if let Some(cpu) = cpu {
            self.observe_of_cpu(question, cpu);
        }
        let Some(state) = state else { return Ok(Outcome::Cpu) };
        if let Some(news) = self.follower.answered_with(&self.vm.host, question.stamp, state, body)? {
            for (_, why) in &news.unread {
                log::warn!("control plane: {why}; the last good parameters of this service stay, if there are any");
            }
            self.put_in_force(news);
        }
        Ok(Outcome::News)
    }

    /// Takes over what another thread has put into the shared data.
    fn catch_up(&mut self) {
        match self.follower.look(&self.vm.host) {
            Ok(Some(news)) => self.put_in_force(news),
            Ok(None) => {}
            Err(error) => log::warn!("control plane: {error}"),
        }
        self.look_at_cpu();
    }

    fn put_in_force(&mut self, news: News) {
        log::debug!("control plane: version {} in force", self.follower.version());
        if news.brought {
            self.tell();
        }
        self.vm.update(news.services, self.follower.unread());
    }
}

fn warn(why: &str, pause: Duration) {
    log::warn!("control plane: {why}; the last good state stays, next try in {} ms", pause.as_millis());
}
