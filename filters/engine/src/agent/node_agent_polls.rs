//! The polls at the node agent itself, over the unix socket of this pod.
//!
//! The leader of the control plane's polls keeps one open here, too. The node agent answers as soon
//! as the quota has changed, so that the capacity follows without the way over the control plane
//! ([`bloc_policy::cpu`]). Its [`Supply`](bloc_policy::cpu::Supply) takes the answer to all
//! threads, as the control plane's does. While the node agent says nothing, the control plane's
//! word counts.
//!
//! On failure: what was said holds for 20 s. There may be no agent on this node, or not yet. So
//! only the first failure in a row is a warning, and after some the ticks of an idle thread
//! suffice. That there is no such cluster is no warning: proxies with and without the socket may
//! have the same configuration.

use super::Agent;
use crate::host::{Call, CallAnswer, Host};
use bloc_policy::cpu::{SELF_PATH, ServerCpu};
use bloc_policy::polls::{self, Outcome, Question};
use bloc_policy::units::Timestamp;
use std::time::Duration;

/// A cluster's name is not always a valid authority.
const AUTHORITY: &str = "node-agent";

impl<H: Host> Agent<H> {
    /// Asks the node agent in this cluster from now on.
    pub(super) fn configure_node_agent(&mut self, cluster: Option<&str>) {
        let agent = &mut self.node_agent;
        if agent.cluster.as_deref() == cluster {
            return;
        }
        agent.cluster = cluster.map(str::to_owned);
        match cluster {
            // A poll under way cannot be cancelled. It goes on if the same cluster is configured
            // again.
            None => agent.supply.forget(),
            Some(now) if agent.asks != now => {
                now.clone_into(&mut agent.asks);
                agent.supply.follow(now);
                agent.polls.reset();
            }
            Some(_) => {}
        }
        self.vm.provide(self.cpu());
    }

    /// Asks the node agent, if that is due; only the leader does. False if that is left for the
    /// next tick.
    pub(super) fn poll_node_agent(&mut self, now: Timestamp) -> bool {
        if self.node_agent.is_due(now) {
            self.ask_node_agent(now);
        }
        self.node_agent.can_wait()
    }

    fn ask_node_agent(&mut self, now: Timestamp) {
        let agent = &mut self.node_agent;
        let Some(cluster) = &agent.cluster else { return };
        let wait = agent.supply.self_wait(now);
        let mut path = format!("{SELF_PATH}?wait={}s", wait.as_secs());
        if let Some(cores) = agent.supply.get().cores {
            path.push_str("&cores=");
            path.push_str(&serde_json::to_string(&cores).unwrap_or_default());
        }
        let timeout = polls::timeout(wait);
        match self.vm.host.call(Call { cluster, authority: AUTHORITY, path: &path, headers: &[], body: None, timeout })
        {
            Some(token) => {
                let question = Question { cpu: agent.supply.last(), wait, ..Question::default() };
                agent.polls.asked(token, question, now);
            }
            None => {
                let pause = agent.polls.failed_to_ask(now, &mut *self.vm.rng.borrow_mut());
                // Proxies without the socket have the same configuration, but no such cluster.
                log(log::Level::Debug, "no such cluster", pause);
            }
        }
    }

    /// The call with this token is over, which may have been a poll at the node agent. False if the
    /// next one is left for the next tick.
    pub(super) fn node_agent_answered(&mut self, token: u32, answer: Option<&CallAnswer>) -> bool {
        let Some(answered) = self.node_agent.polls.answered(token) else { return true };
        if self.node_agent.cluster.is_none() {
            self.step_down();
            return true;
        }
        let now = self.vm.host.now();
        let outcome = self.hear_node_agent(&answered.question, answer, now);
        let (outcome, why) = outcome.map_or_else(|why| (Outcome::Failed, why), |outcome| (outcome, String::new()));
        let agent = &mut self.node_agent;
        let settled = agent.polls.settle(answered.since, outcome, now, &mut *self.vm.rng.borrow_mut());
        if let Some(pause) = settled.pause {
            let level = if agent.polls.failures() == 1 { log::Level::Warn } else { log::Level::Debug };
            log(level, &why, pause);
        }
        if settled.at_once { !self.leads(now) || self.poll_node_agent(now) } else { self.node_agent.can_wait() }
    }

    /// What the answer to this question says; the error is a text for the log.
    fn hear_node_agent(
        &mut self,
        question: &Question,
        answer: Option<&CallAnswer>,
        now: Timestamp,
    ) -> Result<Outcome, String> {
        let answer = answer.ok_or("no answer")?;
        if answer.status == b"304" {
            // An agent that has just started does not know yet.
            return Ok(Outcome::Unchanged { retry_after: None });
        }
        if answer.status != b"200" {
            return Err(answer.to_string());
        }
        let said = ServerCpu::read_object(&answer.body).map_err(|error| format!("answer refused: {error}"))?;
        let supply = &self.node_agent.supply;
        let is_change = said.cores != supply.get().cores;
        // What is used changes all the time. The others hear of that with their next ticks.
        if supply.hear(&self.vm.host, question.cpu, said, now) && is_change {
            self.tell();
        }
        self.look_at_cpu();
        Ok(if is_change { Outcome::Cpu } else { Outcome::Unchanged { retry_after: None } })
    }
}

/// A poll has failed.
fn log(level: log::Level, why: &str, pause: Duration) {
    let pause = pause.as_millis();
    log::log!(level, "node agent: {why}; what it said last holds for 20 s, next try in {pause} ms");
}
