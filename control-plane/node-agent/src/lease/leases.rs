//! What this node holds, shared by the thread that steps and the task that asks.

use super::file::Contents;
use bloc_daemon::lock;
use bloc_leases::{Ask, Holder, Lease, Part, Told};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

/// An application on this node after a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// What its containers could use, with some slack.
    pub wants: Part,
    /// Its containers' guaranteed minimum.
    pub least: Part,
    /// The sum of its containers' own limits; none: one is unlimited, or the limit may exceed them.
    pub own: Option<Part>,
    /// What is in force until the next step.
    pub held: Part,
    /// The lease that the step was based on.
    pub under: Lease,
}

#[derive(Debug)]
struct State {
    holder: Holder,
    uses: BTreeMap<String, Use>,
    /// Applications for which this node no longer holds a part, until all replicas know.
    left: BTreeSet<String>,
    /// Configured applications that replicas were asked about in this life.
    met: BTreeSet<String>,
    /// When a replica last answered about an application, or when it was added.
    said: BTreeMap<String, Instant>,
}

impl State {
    /// Gives back what no application uses. Returns whether something was given back.
    fn leave(&mut self, is_in_use: impl Fn() -> bool) -> bool {
        let unused = |name: &String| !self.uses.contains_key(name);
        let names: Vec<String> = self.holder.parts().into_keys().filter(unused).collect();
        if names.is_empty() || is_in_use() {
            return false;
        }
        for name in &names {
            self.holder.lower(name, Part::ZERO);
        }
        self.left.extend(names);
        true
    }

    /// The message about an application that this node has left.
    fn leaving(&self, name: &str) -> Ask {
        self.holder.ask(name, Part::ZERO, Part::ZERO, None)
    }
}

#[derive(Clone, Debug)]
pub struct Leases {
    state: Arc<Mutex<State>>,
    /// A part fell.
    fell: Arc<Notify>,
}

/// What to ask, and what must be on disk first.
#[derive(Debug)]
pub(crate) struct Due {
    pub(crate) contents: Contents,
    pub(crate) asks: Vec<Ask>,
}

impl Leases {
    /// For an agent that starts with this content on disk.
    pub fn new(saved: &Contents) -> Self {
        let clock = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
        // The clock may have been set back.
        let life = u64::try_from(clock).unwrap_or(0).max(saved.life.saturating_add(1));
        let left = saved.parts.iter().filter(|(_, part)| **part == Part::ZERO).map(|(name, _)| name.clone()).collect();
        let holder = Holder::new(life, saved.parts.clone());
        let state = State { holder, uses: BTreeMap::new(), left, met: BTreeSet::new(), said: BTreeMap::new() };
        Self { state: Arc::new(Mutex::new(state)), fell: Arc::default() }
    }

    /// What this node holds of an application. It may be used until [`Self::settle`] is called.
    pub fn lease(&self, app: &str) -> Lease {
        lock(&self.state).holder.lease(app)
    }

    /// Ends a step. `uses` has all applications that this node holds or wants a part of. It leaves
    /// the others: their containers have their own quotas already. If `is_in_use`, quotas may be in
    /// force that no application counts, so no part falls. It is called only if one would fall.
    pub fn settle(&self, uses: BTreeMap<String, Use>, is_in_use: impl Fn() -> bool) {
        let now = Instant::now();
        let mut state = lock(&self.state);
        let mut fell = false;
        for (name, of) in &uses {
            // An answer during the step counts from the next step on.
            if of.held < of.under.part && state.holder.lease(name) == of.under && !is_in_use() {
                state.holder.lower(name, of.held);
                fell = true;
            }
            state.said.entry(name.clone()).or_insert(now);
        }
        state.left.retain(|name| !uses.contains_key(name));
        state.said.retain(|name, _| uses.contains_key(name));
        state.uses = uses;
        fell |= state.leave(is_in_use);
        if fell {
            self.fell.notify_one();
        }
    }

    /// Names configured applications without containers here. After a lost disk or a late message,
    /// a record may still have a part for this node. Each is therefore asked about once in a life,
    /// as if left.
    pub fn meet<'a>(&self, names: impl Iterator<Item = &'a str>) {
        let mut state = lock(&self.state);
        for name in names {
            if !state.met.contains(name) {
                state.met.insert(name.to_owned());
                state.left.insert(name.to_owned());
            }
        }
    }

    /// How long no replica has answered about an application.
    pub fn age(&self, app: &str) -> Duration {
        lock(&self.state).said.get(app).map_or(Duration::ZERO, Instant::elapsed)
    }

    /// Gives everything back; all containers must have their own quotas. Waits until all replicas
    /// know, but at most `at_most`. Returns whether they do.
    pub async fn give_back(&self, at_most: Duration) -> bool {
        self.settle(BTreeMap::new(), || false);
        let all_know = async {
            while !lock(&self.state).left.is_empty() {
                sleep(Duration::from_millis(20)).await;
            }
        };
        timeout(at_most, all_know).await.is_ok()
    }

    /// Waits until a part falls.
    pub(crate) async fn fall(&self) {
        self.fell.notified().await;
    }

    pub(crate) fn due(&self) -> Due {
        let state = lock(&self.state);
        let mut parts = state.holder.parts();
        parts.extend(state.left.iter().map(|name| (name.clone(), Part::ZERO)));
        let of = |(name, of): (&String, &Use)| state.holder.ask(name, of.wants, of.least, of.own);
        let mut asks: Vec<Ask> = state.uses.iter().map(of).collect();
        asks.extend(state.left.iter().map(|name| state.leaving(name)));
        Due { contents: Contents { life: state.holder.life(), parts }, asks }
    }

    /// Applies the answers of the replicas; none: no answer.
    pub(crate) fn receive(&self, answers: &[Option<Vec<Told>>]) {
        let now = Instant::now();
        let mut state = lock(&self.state);
        let life = state.holder.life();
        for told in agreed(answers) {
            state.holder.receive(&told);
            if let Some(said) = state.said.get_mut(&told.name) {
                *said = now;
            }
        }
        let known: Vec<String> = state.left.iter().filter(|name| all_know(&state, name, answers)).cloned().collect();
        state.left.retain(|name| !known.contains(name));
        if state.holder.life() != life {
            state.met.clear();
            self.fell.notify_one();
        }
    }
}

/// For each application, life and number: the largest part, since parts only rise, and the smallest
/// goal of the replicas that know it. A replica that does not hear the node in need thus cannot
/// overrule one that does.
fn agreed(answers: &[Option<Vec<Told>>]) -> impl Iterator<Item = Told> {
    let mut agreed: BTreeMap<(&str, u64, u64), Told> = BTreeMap::new();
    for told in answers.iter().flatten().flatten() {
        let best = agreed.entry((&told.name, told.life, told.number)).or_insert_with(|| told.clone());
        if told.part > best.part {
            best.clone_from(told);
        } else if told.part == best.part {
            best.goal = best.goal.min(told.goal);
        }
    }
    agreed.into_values()
}

/// Whether all replicas know that this node no longer holds a part of an application. A replica
/// with an old record may not have known that something was held.
fn all_know(state: &State, name: &str, answers: &[Option<Vec<Told>>]) -> bool {
    let (now, life) = (state.leaving(name), state.holder.life());
    let knows =
        |told: &Told| told.name == name && (told.life, told.number) == (life, now.number) && told.part == Part::ZERO;
    let all = answers.iter().all(|answer| answer.iter().flatten().any(knows));
    all && !answers.is_empty() && now.part == Part::ZERO
}
