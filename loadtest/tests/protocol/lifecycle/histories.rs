//! Random histories on a real Envoy: ten of those that the test host plays, a few seconds each.

use super::testbed::{Probe, Stand, caller_of};
use crate::support::traffic::send_known;
use crate::support::{Answer, Place, Tally, eventually};
use bloc_mesh::envoy::CONTROL_PLANE_CLUSTER;
use bloc_testhost::history::{
    Configuration, Direction, History, SERVICES, SLOTS, Services, Shape, Slot, Step, Terms, Timed, services_json,
};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

/// About fifteen steps within this time; some requests outlive a drain of a second or two.
const SHAPE: Shape =
    Shape { listeners: SLOTS.len(), duration: Duration::from_secs(4), longest_drain: 2, largest_burst: 20, scale: 0.2 };
/// The longest that a request may be held, and what it may take beyond that on a busy machine.
const LONGEST_WAIT: Duration = Duration::from_secs(3);
const SLACK: Duration = Duration::from_secs(4);
/// How much earlier than expected a drain may seem to end.
const EARLY: Duration = Duration::from_millis(100);

/// A request that is over.
struct Done {
    slot: Slot,
    began: Instant,
    ended: Instant,
    id: u64,
    answer: Result<Answer, String>,
}

/// A listener in force.
#[derive(Clone)]
struct Set {
    configuration: Configuration,
    address: SocketAddr,
}

struct Player {
    stand: Stand,
    drain: Duration,
    set: BTreeMap<Slot, Set>,
    announced: Services,
    /// When a listener's previous version was replaced or removed, and began to drain.
    went: Vec<(Slot, Instant)>,
    requests: JoinSet<Done>,
}

impl Player {
    async fn step(&mut self, step: Step) {
        match step {
            Step::Announce(services) => {
                self.stand.control_plane.set(services_json(&services));
                self.announced = services;
            }
            Step::Set { slot, configuration } => {
                let configuration = Configuration::of(slot.direction, configuration);
                let listener = listener(&self.stand.place, slot, &configuration);
                self.went.push((slot, Instant::now()));
                self.stand.sidecar.put(listener).await;
                let address = self.stand.sidecar.address(slot.name).await;
                self.set.insert(slot, Set { configuration, address });
            }
            Step::Remove { slot } => {
                self.set.remove(&slot);
                self.went.push((slot, Instant::now()));
                self.stand.sidecar.remove(slot.name).await;
            }
            Step::Requests { slot, count, takes } => {
                let Some(set) = self.set.get(&slot) else { return };
                let takes = takes.mul_f64(0.3);
                // Stock Envoy, too, would lose a request on its way to a listener that is being
                // removed.
                let come = format!("http.{}.downstream_rq_total", slot.name);
                let come = async |stand: &Stand| stand.sidecar.stat(&come).await;
                let before = come(&self.stand).await;
                for _ in 0..count {
                    self.requests.spawn(exchange(slot, set.address, takes));
                }
                eventually("requests", async || (come(&self.stand).await >= before + count as u64).then_some(())).await;
            }
        }
    }

    /// Waits for all requests, and notes what is wrong with their answers.
    async fn settle(&mut self) {
        let (mut tally, mut cut) = (Tally::default(), 0);
        while let Some(done) = self.requests.join_next().await {
            let Done { slot, began, ended, id, answer } = done.unwrap();
            // Its connection was closed at the end of a drain, as in Envoy without filters.
            let drained = |(listener, when): &(Slot, Instant)| {
                *listener == slot && *when + EARLY >= began && ended + EARLY >= *when + self.drain
            };
            if answer.as_ref().is_err_and(|why| !why.contains("no answer within")) && self.went.iter().any(drained) {
                cut += 1;
            } else {
                tally.count(id, answer, ended - began);
            }
        }
        println!("{cut} were cut off by the end of a drain");
        self.stand.note_tally("requests", &tally);
        self.stand.sidecar.drained().await;
    }

    /// The parameters in force for an inbound listener; none: everything passes.
    fn terms(&self, configuration: &Configuration) -> Option<Terms> {
        let service = configuration.service?;
        let announced = self.announced.get(service).filter(|_| self.is_polling());
        announced.or_else(|| configuration.services.get(service)).copied()
    }

    /// Whether a configuration in force names the control plane.
    fn is_polling(&self) -> bool {
        self.set.values().any(|set| set.configuration.control_plane)
    }

    /// Checks what is left at the end.
    async fn examine(mut self) {
        if self.is_polling() {
            self.stand.follows("at the end").await;
        } else {
            self.stand
                .soon("nobody names a control plane", async |stand| {
                    let now = stand.control_plane.under_way();
                    if now == 0 { Ok(()) } else { Err(format!("{now} polls under way")) }
                })
                .await;
        }
        for (slot, set) in self.set.clone() {
            let when = format!("at {} with {:?} of {:?}", slot.name, set.configuration, self.announced);
            match slot.direction {
                Direction::Inbound => {
                    let limits = self.terms(&set.configuration);
                    let capacity = limits.map(|terms| terms.capacity as usize);
                    self.stand.all_workers_have(&when, slot.name, capacity).await;
                    let limits = limits.map_or((20, 20), |terms| (terms.capacity, terms.concurrency));
                    let probe = Probe::new(slot.name, limits.0 as usize, limits.1 as usize);
                    self.stand.bursts(&when, &probe).await;
                }
                Direction::Outbound => {
                    let done = exchange(slot, set.address, Duration::ZERO).await;
                    let mut tally = Tally::default();
                    tally.count(done.id, done.answer, done.ended - done.began);
                    self.stand.note_tally(&when, &tally);
                }
            }
        }
        if self.is_polling() {
            self.stand.polled("at the end").await;
        }
        self.stand.end(&SERVICES).await;
    }
}

async fn exchange(slot: Slot, to: SocketAddr, takes: Duration) -> Done {
    let began = Instant::now();
    let path = format!("/takes/{}", takes.as_millis());
    let (id, answer, took) = send_known(to, &path, LONGEST_WAIT + takes + SLACK).await;
    Done { slot, began, ended: began + took, id, answer }
}

/// A listener as Envoy gets it. Inbound listeners lead to one application, outbound ones to the
/// other.
fn listener(place: &Place, slot: Slot, configuration: &Configuration) -> Value {
    let mut json: Value = serde_json::from_str(&configuration.json(CONTROL_PLANE_CLUSTER)).unwrap();
    if configuration.control_plane {
        // So that the test soon sees whether polling goes on.
        json["controlPlane"]["wait"] = json!("1s");
    }
    match slot.direction {
        Direction::Inbound => super::testbed::listener(place, slot.name, "app", Some(&json), 0),
        Direction::Outbound => {
            let service = configuration.services.keys().next().copied().unwrap_or(SERVICES[0]);
            caller_of(place, slot.name, service, &json)
        }
    }
}

async fn play(seed: u64) {
    let history = History::new(seed, SHAPE);
    println!("{history:#?}");
    // The first two steps are at the start.
    let [Timed { step: Step::Announce(announced), .. }, Timed { step: Step::Set { slot, configuration }, .. }, ..] =
        &history.steps[..]
    else {
        panic!("a history begins with services and a listener")
    };
    let configuration = Configuration::of(slot.direction, *configuration);
    let listeners = |place: &_| vec![listener(place, *slot, &configuration)];
    let stand = Stand::draining(history.drain, listeners, services_json(announced)).await;
    let address = stand.sidecar.address(slot.name).await;
    let mut player = Player {
        stand,
        drain: history.drain,
        set: BTreeMap::from([(*slot, Set { configuration, address })]),
        announced: announced.clone(),
        went: Vec::new(),
        requests: JoinSet::new(),
    };
    let began = Instant::now();
    for Timed { at, step } in history.steps.into_iter().skip(2) {
        sleep_until(began + at).await;
        println!("{:?} {step:?}", began.elapsed());
        player.step(step).await;
    }
    player.settle().await;
    player.examine().await;
    println!("over after {:?}", began.elapsed());
}

macro_rules! histories {
    ($($name:ident: $seed:literal,)*) => {$(
        #[tokio::test(flavor = "multi_thread")]
        async fn $name() {
            play($seed).await;
        }
    )*};
}

// Of the first sixty histories, those that found most faults in a module in which the newest
// configuration applied everywhere, and whose root contexts passed nothing on.
histories! {
    loses_no_request_in_random_history_3: 3,
    loses_no_request_in_random_history_4: 4,
    loses_no_request_in_random_history_6: 6,
    loses_no_request_in_random_history_15: 15,
    loses_no_request_in_random_history_31: 31,
    loses_no_request_in_random_history_45: 45,
    loses_no_request_in_random_history_47: 47,
    loses_no_request_in_random_history_49: 49,
    loses_no_request_in_random_history_53: 53,
    loses_no_request_in_random_history_55: 55,
}
