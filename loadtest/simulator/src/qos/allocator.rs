//! Who sets the shares: the node agent, and what it is compared with.

use super::case::Case;
use bloc_node_agent::qos::{Answers, App, LEAST, LEAST_ANSWERS, MOST, Rule, Start};
use std::time::Duration;

/// A way to set shares.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Allocator {
    /// They stay at what the requests give.
    Requests,
    /// The node agent.
    Agent(Rule),
    /// Each second in proportion to the CPU time that will be wanted in it, with the agent's sum
    /// and floors.
    Oracle,
    /// As the agent, but all steps are equal, in shares, those that are in time offer one at any
    /// time, and what was given comes back only as another one offers it.
    Steps(Rule),
    /// The paper's: each answer that is late gives its container a step, each other one takes it,
    /// from 2 to 10,240 shares. No sum.
    Paper(Rule),
}

/// What an [`Allocator`] remembers.
pub(super) enum State {
    /// Nothing.
    Fixed,
    /// The agent's.
    Agent(App<usize>),
    /// What each container has, and answers since it was judged.
    Steps { rule: Rule, least: f64, containers: Vec<(f64, Answers)> },
    /// What each container has at first.
    Oracle(Start),
    /// The shares of each.
    Paper(Rule, Vec<f64>),
}

impl Allocator {
    pub(super) fn start(self, case: &Case) -> State {
        let start = case.start();
        match self {
            Self::Requests => State::Fixed,
            Self::Agent(rule) => {
                let mut app = App::new(rule);
                (0..case.containers).for_each(|key| app.attach(key, start));
                State::Agent(app)
            }
            Self::Steps(rule) => {
                let containers = vec![(start.own, Answers::default()); case.containers];
                State::Steps { rule, least: start.least, containers }
            }
            Self::Oracle => State::Oracle(start),
            Self::Paper(rule) => State::Paper(rule, vec![start.own; case.containers]),
        }
    }
}

impl State {
    /// A second begins: what the agent has heard of each container since the last one, and the CPU
    /// time that will be wanted in it. Returns new shares, if there are any.
    pub fn second(&mut self, heard: &[Answers], wanted: &[f64]) -> Option<Vec<f64>> {
        match self {
            Self::Fixed | Self::Paper(..) => None,
            Self::Agent(app) => {
                heard.iter().enumerate().for_each(|(key, more)| app.count(&key, *more));
                app.step();
                // As they are written.
                Some((0..heard.len()).filter_map(|key| app.shares(&key)).map(f64::round).collect())
            }
            Self::Steps { rule, least, containers } => {
                for ((_, answers), more) in containers.iter_mut().zip(heard) {
                    answers.count += more.count;
                    answers.time += more.time;
                }
                equal_steps(rule, *least, containers);
                Some(containers.iter().map(|(shares, _)| shares.round()).collect())
            }
            Self::Oracle(start) => Some(in_proportion(*start, wanted)),
        }
    }

    /// A container has answered. Returns its new shares, if they are.
    pub fn answered(&mut self, key: usize, took: f64) -> Option<f64> {
        let Self::Paper(rule, shares) = self else { return None };
        let late = Duration::from_secs_f64(took) > rule.target.mul_f64(rule.threshold);
        let step = if late { rule.step } else { -rule.step };
        shares[key] = (shares[key] + step).clamp(LEAST, MOST);
        Some(shares[key])
    }
}

/// A step to each that is late, from those in time.
fn equal_steps(rule: &Rule, least: f64, containers: &mut [(f64, Answers)]) {
    let wishes: Vec<(f64, f64)> = containers
        .iter_mut()
        .map(|(shares, answers)| {
            let Answers { count, time } = *answers;
            if count < LEAST_ANSWERS {
                return (0.0, 0.0);
            }
            *answers = Answers::default();
            let late = time.as_secs_f64() / count as f64 > rule.target.as_secs_f64() * rule.threshold;
            if late { (rule.step.min(MOST - *shares), 0.0) } else { (0.0, rule.step.min(*shares - least)) }
        })
        .collect();
    let (asked, offered) = wishes.iter().fold((0.0, 0.0), |sum, wish| (sum.0 + wish.0, sum.1 + wish.1));
    let moved = f64::min(asked, offered);
    if moved > 0.0 {
        for ((shares, _), (asks, offers)) in containers.iter_mut().zip(wishes) {
            *shares += moved * (asks / asked - offers / offered);
        }
    }
}

/// Shares in proportion to what is wanted, none below what it keeps, with the sum of the requests.
fn in_proportion(start: Start, wanted: &[f64]) -> Vec<f64> {
    let sum = start.own * wanted.len() as f64;
    let with = |factor: f64| wanted.iter().map(move |wanted| (wanted * factor).max(start.least));
    let (mut low, mut high) = (0.0, 1e12);
    for _ in 0..100 {
        let middle = (low + high) / 2.0;
        if with(middle).sum::<f64>() < sum { low = middle } else { high = middle }
    }
    with(low).collect()
}
