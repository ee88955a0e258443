//! Crashes of the module, in each of its callbacks: `target/crash.wasm` panics where a request's
//! header `x-bloc-crash` says.
//!
//! A crash costs only the requests that are in that worker at that moment, and they get an answer.
//! Within 2 s the worker has a new VM, the count of requests in flight is right and held requests
//! are answered. The other worker is not affected. The tests print these times and only wait for
//! the effects.

mod load;

use crate::support::{
    Answer, App, Place, Pod, Workers, balance, eventually, from_sidecar, inbound, metric, outbound, request, send,
    sender,
};
use crate::{control_plane, control_plane::ControlPlane};
use bloc_mesh::envoy::{Envoy, SERVICE};
use load::Load;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::Instant;

const CAPACITY: u32 = 20;

async fn pod(place: &Place, spec: Value) -> Pod {
    let app = App::start("pod").await;
    let configuration = json!({"service": SERVICE, "services": {SERVICE: spec}});
    let mut bootstrap = inbound(place, app.address, &configuration, None);
    balance(&mut bootstrap);
    let sidecar = Envoy::start(&place.envoy, place.path(), "pod", &bootstrap, 2).await.unwrap();
    let address = sidecar.listener("inbound").unwrap();
    Pod { app, sidecar, address }
}

fn capacity() -> Value {
    json!({"capacity": {"estimator": "static", "limit": CAPACITY}})
}

fn crash(path: &str, place: &str) -> hyper::http::request::Builder {
    request(path).header("x-bloc-crash", place)
}

type Pending = JoinHandle<Result<Answer, String>>;

/// Sends a request to `/hold` on a new connection to this worker, and waits until the sidecar
/// counts it.
async fn hold(pod: &Pod, workers: &mut Workers<'_>, worker: usize) -> Pending {
    let before = pod.metric("in_flight").await;
    let mut connection = workers.connect(worker).await;
    let pending = tokio::spawn(async move { connection.send(from_sidecar("/hold"), "").await });
    eventually("a request in flight", async || (pod.metric("in_flight").await > before).then_some(())).await;
    pending
}

async fn crashes(envoy: &Envoy) -> u64 {
    envoy.stats("^wasmcustom.bloc.crashes$").await.unwrap().values().copied().sum()
}

/// The sequence for one crash point of the inbound filter. `expected`: the status of the request
/// that crashes.
async fn inbound_crash(at: &str, expected: &[u16]) {
    let place = Place::crashing();
    let pod = pod(&place, capacity()).await;
    let mut workers = Workers::new(&pod.sidecar, pod.address);
    let mine = [hold(&pod, &mut workers, 0).await, hold(&pod, &mut workers, 0).await];
    let others = [hold(&pod, &mut workers, 1).await, hold(&pod, &mut workers, 1).await];
    let (mut here, mut there) = (workers.connect(0).await, workers.connect(1).await);
    eventually("all at the application", async || (pod.app.seen("/hold").len() == 4).then_some(())).await;

    let answer = here.send(crash("/x", at), "").await.expect("an answer");
    assert!(expected.contains(&answer.status.as_u16()), "{at}: {answer:?}");
    eventually("the crash", async || (crashes(&pod.sidecar).await == 1).then_some(())).await;
    let crashed = Instant::now();
    eventually("the true count", async || (pod.metric("in_flight").await == 2).then_some(())).await;
    let counted = crashed.elapsed();
    let neighbours = there.send(from_sidecar("/y"), "").await.unwrap().load().map(|load| (load.1, load.2));
    assert_eq!(neighbours, Some((Some(2), Some(CAPACITY))), "{at}: queue and capacity");
    // A VM that has its parameters reports a queue of 2 and the capacity.
    eventually("a new VM", async || {
        let answer = here.send(from_sidecar("/y"), "").await.expect("an answer");
        assert!([200, 503].contains(&answer.status.as_u16()), "{at}: {answer:?}");
        answer.load().is_some_and(|load| (load.1, load.2) == (Some(2), Some(CAPACITY))).then_some(())
    })
    .await;
    println!("{at}: the count was true after {counted:?}, a new VM was there after {:?}", crashed.elapsed());

    for _ in 0..4 {
        pod.app.release();
    }
    for pending in others {
        assert_eq!(pending.await.unwrap().unwrap().app(), Some("pod"), "{at}: the other worker notices nothing");
    }
    for pending in mine {
        let status = pending.await.unwrap().expect("an answer").status.as_u16();
        assert!([200, 503].contains(&status), "{at}: {status}");
    }
    eventually("an empty server", async || (pod.metric("in_flight").await == 0).then_some(())).await;
    assert_eq!(here.send(from_sidecar("/y"), "").await.unwrap().load(), Some((true, Some(0), Some(CAPACITY))), "{at}");
    assert_eq!(crashes(&pod.sidecar).await, 1, "{at}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_on_request_headers_costs_only_requests_of_its_worker() {
    inbound_crash("inbound.request", &[503]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_after_counting_a_request_costs_only_requests_of_its_worker() {
    inbound_crash("inbound.arrive", &[503]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_on_response_headers_costs_only_requests_of_its_worker() {
    inbound_crash("inbound.response", &[503]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_after_a_response_costs_only_other_requests_of_its_worker() {
    inbound_crash("inbound.done", &[200]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_crash_on_a_tick_costs_only_requests_of_its_worker() {
    inbound_crash("tick", &[200]).await;
}

/// Held requests of the worker that crashes are answered; those of the other worker get the slots.
#[tokio::test(flavor = "multi_thread")]
async fn a_crash_answers_held_requests_and_frees_their_slots() {
    let place = Place::crashing();
    let pod = pod(&place, json!({"concurrency": 1, "hold": true})).await;
    let mut workers = Workers::new(&pod.sidecar, pod.address);
    let inside = hold(&pod, &mut workers, 0).await;
    let mine = [hold(&pod, &mut workers, 0).await, hold(&pod, &mut workers, 0).await];
    let others = [hold(&pod, &mut workers, 1).await, hold(&pod, &mut workers, 1).await];
    let mut here = workers.connect(0).await;
    assert_eq!(pod.app.seen("/hold").len(), 1, "the application works on one at once");

    let crashed = Instant::now();
    assert_eq!(here.send(crash("/x", "inbound.request"), "").await.unwrap().status.as_u16(), 503);
    for pending in mine {
        assert_eq!(pending.await.unwrap().expect("an answer").status.as_u16(), 503);
    }
    println!("held requests were answered after {:?}", crashed.elapsed());
    eventually("the other worker's turn", async || (pod.app.seen("/hold").len() == 2).then_some(())).await;
    println!("the other worker had the place after {:?}", crashed.elapsed());
    eventually("the true count", async || (pod.metric("in_flight").await == 2).then_some(())).await;
    for _ in 0..3 {
        pod.app.release();
    }
    for pending in others {
        assert_eq!(pending.await.unwrap().unwrap().app(), Some("pod"), "the other worker notices nothing");
    }
    let status = inside.await.unwrap().expect("an answer").status.as_u16();
    assert!([200, 503].contains(&status), "{status}");
    eventually("an empty server", async || (pod.metric("in_flight").await == 0).then_some(())).await;
    eventually("a new VM that admits requests", async || {
        (here.send(request("/brief"), "").await.unwrap().app() == Some("pod")).then_some(())
    })
    .await;
}

/// The same for the filters in a sender's sidecar.
#[tokio::test(flavor = "multi_thread")]
async fn a_crash_in_the_senders_sidecar_costs_only_requests_of_its_worker() {
    let place = Place::crashing();
    let pods = [Pod::with_capacity(&place, "one", 10).await, Pod::with_capacity(&place, "two", 10).await];
    let addresses = [pods[0].address, pods[1].address];
    let configuration = json!({"services": {SERVICE: {"endpoints": addresses.map(|at| at.to_string())}}});
    for (at, expected) in [
        ("outbound.request", 503),
        ("outbound.response", 503),
        ("attempt.request", 503),
        ("attempt.response", 503),
        ("attempt.done", 503),
    ] {
        let mut bootstrap = outbound(&place, &addresses, &configuration, None);
        balance(&mut bootstrap);
        let (envoy, to) = sender(&place, &bootstrap).await;
        let mut workers = Workers::new(&envoy, to);
        let (mut here, mut there) = (workers.connect(0).await, workers.connect(1).await);
        for connection in [&mut here, &mut there] {
            assert!(connection.send(request("/x"), "").await.unwrap().app().is_some());
        }
        let answer = here.send(crash("/x", at), "").await.expect("an answer");
        assert_eq!(answer.status.as_u16(), expected, "{at}: {answer:?}");
        assert_eq!(answer.ours(), Vec::<String>::new(), "{at}");
        eventually("the crash", async || (crashes(&envoy).await == 1).then_some(())).await;
        assert!(there.send(request("/x"), "").await.unwrap().app().is_some(), "{at}: the other worker notices nothing");
        let crashed = Instant::now();
        eventually("a served request", async || {
            here.send(request("/x"), "").await.expect("an answer").app().map(|_| ())
        })
        .await;
        println!("{at}: served again after {:?}", crashed.elapsed());
        let before = metric(&envoy, "outbound", "requests").await;
        eventually("a VM that counts its requests", async || {
            assert!(here.send(request("/x"), "").await.unwrap().app().is_some(), "{at}");
            (metric(&envoy, "outbound", "requests").await > before).then_some(())
        })
        .await;
        assert_eq!(crashes(&envoy).await, 1, "{at}");
        envoy.end().await;
    }
    for pod in &pods {
        assert_eq!(crashes(&pod.sidecar).await, 0);
        eventually("an empty server", async || (pod.metric("in_flight").await == 0).then_some(())).await;
    }
}

const CRASHES: usize = 50;
/// Clients of each worker.
const CLIENTS: usize = 4;

/// Each crash finds a new VM, and the filters stay active.
#[tokio::test(flavor = "multi_thread")]
async fn fifty_crashes_that_are_far_apart_cost_the_requests_inside() {
    let place = Place::crashing();
    let pod = pod(&place, capacity()).await;
    let mut workers = Workers::new(&pod.sidecar, pod.address);
    let load = Load::start(&mut workers, CLIENTS).await;
    let mut killers = [workers.connect(0).await, workers.connect(1).await];
    let mut crashed = 0;
    while crashed < CRASHES {
        load.serves(10).await;
        let killer = &mut killers[crashed % 2];
        // So that the last crash seems long ago.
        if killer.send(crash("/x", "forget"), "").await.unwrap().status.as_u16() != 200 {
            continue;
        }
        let answer = killer.send(crash("/x", "inbound.arrive"), "").await.expect("an answer");
        assert_eq!(answer.status.as_u16(), 503);
        crashed += 1;
    }
    load.serves(100).await;
    let (served, refused) = load.end().await;
    println!("{CRASHES} crashes: {served} requests served, {refused} refused");
    assert_eq!(crashes(&pod.sidecar).await, CRASHES as u64);
    // At most one request inside for each client of that worker, and one more within the
    // millisecond after a VM was made.
    assert!(refused <= 2 * CRASHES * CLIENTS, "{refused} refused");
    eventually("an empty server", async || (pod.metric("in_flight").await == 0).then_some(())).await;
    for killer in &mut killers {
        assert_eq!(killer.send(from_sidecar("/y"), "").await.unwrap().load(), Some((true, Some(0), Some(CAPACITY))));
    }
}

/// A trap without a panic runs no crash recovery, so the count of that worker's requests is not
/// taken back. The other workers recount while traffic goes on.
#[tokio::test(flavor = "multi_thread")]
async fn the_in_flight_count_recovers_under_load_after_an_allocation_trap() {
    const STAYING: [usize; 2] = [12, 2];
    let place = Place::crashing();
    let pod = pod(&place, json!({"capacity": {"estimator": "static", "limit": 1000}})).await;
    let mut workers = Workers::new(&pod.sidecar, pod.address);
    let (mut lost, mut staying) = (Vec::new(), Vec::new());
    for _ in 0..STAYING[0] {
        lost.push(hold(&pod, &mut workers, 0).await);
    }
    for _ in 0..STAYING[1] {
        staying.push(hold(&pod, &mut workers, 1).await);
    }
    let load = Load::start(&mut workers, CLIENTS).await;
    load.serves(100).await;
    let mut killer = workers.connect(0).await;
    let answer = killer.send(crash("/x", "memory"), "").await.expect("an answer");
    assert_eq!(answer.status.as_u16(), 503);
    let crashed = Instant::now();
    // Those that stay, and at most one of each client. The count is higher while it includes the
    // lost ones.
    let most = (STAYING[1] + 2 * CLIENTS) as u64;
    eventually("a count that can be true", async || (pod.metric("in_flight").await <= most).then_some(())).await;
    println!("the count was true after {:?}", crashed.elapsed());
    let before = crashed.elapsed();
    while crashed.elapsed() < before + Duration::from_secs(2) {
        let counted = pod.metric("in_flight").await + pod.metric("in_flight_recount").await;
        assert!((STAYING[1] as u64..=most).contains(&counted), "{counted}");
    }
    load.serves(100).await;
    load.end().await;
    eventually("those that stay", async || (pod.metric("in_flight").await == STAYING[1] as u64).then_some(())).await;
    for _ in 0..STAYING[0] + STAYING[1] {
        pod.app.release();
    }
    for pending in staying {
        assert_eq!(pending.await.unwrap().unwrap().app(), Some("pod"), "the other worker notices nothing");
    }
    for pending in lost {
        let status = pending.await.unwrap().expect("an answer").status.as_u16();
        assert!([200, 503].contains(&status), "{status}");
    }
    eventually("an empty server", async || (pod.metric("in_flight").await == 0).then_some(())).await;
    assert_eq!(crashes(&pod.sidecar).await, 0, "a trap without crash recovery is not counted");
}

/// After too many crashes within a short time traffic passes without the filters, so nothing
/// crashes any more.
#[tokio::test(flavor = "multi_thread")]
async fn fails_open_after_a_few_crashes_in_a_row() {
    let place = Place::crashing();
    let pod = pod(&place, capacity()).await;
    let mut workers = Workers::new(&pod.sidecar, pod.address);
    let load = Load::start(&mut workers, CLIENTS).await;
    let mut killers = [workers.connect(0).await, workers.connect(1).await];
    let mut killed = 0;
    for i in 0..CRASHES {
        let answer = killers[i % 2].send(crash("/x", "inbound.arrive"), "").await.expect("an answer");
        killed += usize::from(answer.status.as_u16() != 200);
    }
    load.serves(100).await;
    let (served, refused) = load.end().await;
    let crashes = crashes(&pod.sidecar).await;
    println!("{CRASHES} killers: {killed} killed, {crashes} crashes, {served} requests served, {refused} refused");
    // The limit, and one more in the other worker, which crashes before it looks at the limit.
    assert!((3..=4).contains(&crashes), "{crashes} crashes");
    assert!(refused <= 2 * 4 * CLIENTS && killed <= 2 * 4, "{refused} refused, {killed} killed");
    for killer in &mut killers {
        let answer = killer.send(from_sidecar("/y").header("x-bloc-endpoints", "127.0.0.1:1"), "").await.unwrap();
        assert_eq!(
            (answer.status.as_u16(), answer.app(), answer.load()),
            (200, Some("pod"), None),
            "passed without the filters"
        );
    }
    assert!(pod.app.seen("/y").iter().all(|seen| seen.headers.keys().all(|name| !name.as_str().starts_with("x-bloc"))));
    eventually("an empty server", async || (pod.metric("in_flight").await == 0).then_some(())).await;
}

/// The VM that polls crashes while it handles the control plane's response; polling goes on.
#[tokio::test(flavor = "multi_thread")]
async fn polling_continues_after_a_crash_on_a_control_plane_response() {
    let place = Place::crashing();
    control_plane::write(&place, "10", &[]);
    let asked = ControlPlane::start(&place, "127.0.0.1:0").await;
    let pod = control_plane::pod(&place, "one", asked.address).await;
    let capacity = async || {
        let answer = send(pod.address, from_sidecar("/x"), "").await.unwrap();
        answer.load().and_then(|load| load.2)
    };
    eventually("the capacity from the control plane", async || (capacity().await == Some(10)).then_some(())).await;
    let answer = send(pod.address, crash("/x", "call"), "").await.unwrap();
    assert_eq!(answer.app(), Some("one"));
    control_plane::write(&place, "20", &[]);
    eventually("the crash", async || (crashes(&pod.sidecar).await == 1).then_some(())).await;
    eventually("the new capacity all the same", async || (capacity().await == Some(20)).then_some(())).await;
    // Every worker has the capacity.
    for _ in 0..20 {
        assert_eq!(capacity().await, Some(20));
    }
    assert_eq!(crashes(&pod.sidecar).await, 1);
}

/// The shipped module does not contain the header's name.
#[tokio::test(flavor = "multi_thread")]
async fn the_module_that_is_shipped_does_not_crash_on_demand() {
    let place = Place::new();
    let pod = pod(&place, capacity()).await;
    for at in
        ["inbound.request", "inbound.arrive", "inbound.response", "inbound.done", "tick", "call", "forget", "memory"]
    {
        for _ in 0..4 {
            assert_eq!(send(pod.address, crash("/x", at), "").await.unwrap().app(), Some("pod"));
        }
    }
    // Some ticks.
    eventually("the count of the tick", async || (pod.metric("admitted").await == 32).then_some(())).await;
    assert_eq!(crashes(&pod.sidecar).await, 0);
    let crashing = std::fs::read(place.module.with_file_name("crash.wasm")).unwrap();
    let shipped = std::fs::read(&place.module).unwrap();
    let knows = |module: &[u8]| module.windows(12).any(|bytes| bytes == b"x-bloc-crash");
    assert_eq!(
        (knows(&crashing), knows(&shipped)),
        (true, false),
        "only the crashing module contains the header's name"
    );
}
