//! A sidecar that stalls with requests in its wait queue: stopped as a whole, or throttled by its
//! cgroup. Each request is answered, by the application or with a rejection.

use crate::support::{Answer, Connection, Place, Pod, eventually, request, send};
use bloc_mesh::process::{Process, Program};
use bloc_mesh::throttle::Throttle;
use nix::sys::signal::Signal;
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::sleep;

const CLIENTS: usize = 16;
/// After the stop: the longest that a request may be held, and extra time for a slow machine.
const ANSWERED_WITHIN: Duration = Duration::from_secs(40);

/// A pod with two workers whose application works on one request at a time.
async fn pod(place: &Place) -> Pod {
    Pod::balanced(place, "pod", json!({"concurrency": 1, "hold": true}), 2, |_| ()).await
}

/// The results of the requests.
#[derive(Debug, Default, PartialEq)]
struct Answers {
    served: usize,
    rejected: usize,
    lost: usize,
}

impl Answers {
    fn count(&mut self, answer: Result<Answer, String>) {
        match answer.map(|answer| (answer.status.as_u16(), answer.app().is_some())) {
            Ok((200, true)) => self.served += 1,
            Ok((429, false)) => self.rejected += 1,
            other => {
                println!("{other:?}");
                self.lost += 1;
            }
        }
    }
}

/// Clients that send requests of 100 ms each, one after the other on connections of their own,
/// while `disturb` happens to the sidecar; at least one each.
async fn all_are_answered(pod: &mut Pod, disturb: impl AsyncFnOnce(&mut Pod)) -> Answers {
    let over = Arc::new(AtomicBool::new(false));
    let mut clients = tokio::task::JoinSet::new();
    for _ in 0..CLIENTS {
        let (over, mut connection) = (Arc::clone(&over), Connection::open(pod.address).await);
        clients.spawn(async move {
            let mut answers = Answers::default();
            while answers.lost == 0 && (answers == Answers::default() || !over.load(Ordering::Relaxed)) {
                answers.count(connection.send_within(ANSWERED_WITHIN, request("/slow"), "").await);
            }
            answers
        });
    }
    eventually("a second request inside", async || (pod.app.seen("/slow").len() >= 2).then_some(())).await;
    disturb(pod).await;
    over.store(true, Ordering::Relaxed);
    let mut all = Answers::default();
    while let Some(answers) = clients.join_next().await {
        let Answers { served, rejected, lost } = answers.unwrap();
        all = Answers { served: all.served + served, rejected: all.rejected + rejected, lost: all.lost + lost };
    }
    println!("{all:?}");
    assert_eq!(all.lost, 0);
    assert!(all.served + all.rejected >= CLIENTS);
    // No request is left in the queue: the next one is admitted, and the count is right.
    assert_eq!(send(pod.address, request("/brief"), "").await.unwrap().app(), Some("pod"));
    eventually("an empty server", async || (pod.metric("in_flight").await == 0).then_some(())).await;
    all
}

async fn stopped_for(time: Duration) {
    let place = Place::new();
    let mut pod = pod(&place).await;
    all_are_answered(&mut pod, async |pod| {
        pod.sidecar.process().signal(Signal::SIGSTOP);
        sleep(time).await;
        pod.sidecar.process().signal(Signal::SIGCONT);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_every_request_after_a_stop_of_1_s() {
    stopped_for(Duration::from_secs(1)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_every_request_after_a_stop_of_2_5_s() {
    stopped_for(Duration::from_millis(2_500)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_every_request_after_a_stop_of_3_s() {
    stopped_for(Duration::from_secs(3)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_every_request_after_a_stop_of_6_s() {
    stopped_for(Duration::from_secs(6)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_every_request_after_a_stop_of_20_s() {
    stopped_for(Duration::from_secs(20)).await;
}

/// In each of the kernel's periods the sidecar runs for 5 ms and stalls for 95. With busy
/// neighbours in its cgroup it stalls for seconds.
async fn throttled(neighbours: usize) {
    let place = Place::new();
    let mut pod = pod(&place).await;
    let mut busy = Vec::new();
    for i in 0..neighbours {
        let arguments = vec!["-c".into(), "while :; do :; done".into()];
        let program = Program { name: format!("busy-{i}"), executable: "/bin/sh".into(), arguments };
        busy.push(Process::start(program, place.path()).await.unwrap());
    }
    all_are_answered(&mut pod, async |pod| {
        let mut all: Vec<u32> = busy.iter().filter_map(Process::id).collect();
        all.extend(pod.sidecar.process().id());
        let throttle = Throttle::new(&all, 0.05).unwrap();
        sleep(Duration::from_secs(10)).await;
        busy.clear();
        drop(throttle);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_every_request_when_throttled_to_a_twentieth_of_a_core() {
    throttled(0).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_every_request_when_throttled_with_twenty_neighbours() {
    throttled(20).await;
}
