//! A request through its caller's sidecar: it is held by one of two servers, bounced, and answered
//! by the other.

use super::{fill, has, is_empty, release};
use crate::support::bootstraps::manager;
use crate::support::{Answer, App, Place, Pod, eventually, metric, request, send, send_http2, single_sender};
use bloc_mesh::envoy::{Balancing, Envoy, Outbound, SERVICE, sidecar_inbound, sidecar_outbound};
use hyper::Request;
use hyper::body::Bytes;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::LazyLock;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};

/// A body that is shorter than the limit for bodies that are held.
static LONG: LazyLock<String> = LazyLock::new(|| (0..25_000).map(|n| format!("{:04}", n % 10_000)).collect());
/// Its bids are ten execution times and more, and requests are held for twice that.
const HELD: Duration = Duration::from_millis(400);
/// The requests of a caller before its servers are busy, so that it makes bids.
const WARM_UP: usize = 30;

/// The kinds of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Get,
    Post,
    Http2,
    Grpc,
}

impl Kind {
    fn body(self) -> &'static str {
        match self {
            Self::Get => "",
            Self::Post | Self::Http2 => &LONG,
            Self::Grpc => "\0\0\0\0\x05hello",
        }
    }

    async fn send(self, to: SocketAddr, path: &str) -> Result<Answer, String> {
        let http2 = Request::post(format!("http://{SERVICE}{path}"));
        let body = Bytes::from_static(self.body().as_bytes());
        match self {
            Self::Get => send(to, request(path), "").await,
            Self::Post => send(to, Request::post(path).header("host", SERVICE), self.body()).await,
            Self::Http2 => send_http2(to, http2, body).await,
            Self::Grpc => {
                let call = http2.header("content-type", "application/grpc").header("te", "trailers");
                send_http2(to, call, body).await
            }
        }
    }
}

/// A caller, and two servers that hold requests.
struct Stand {
    caller: Envoy,
    to: SocketAddr,
    pods: [Pod; 2],
    place: Place,
}

impl Stand {
    /// `edit` changes the bootstraps of the servers. At the end the caller bids about ten execution
    /// times of 20 ms, so a server with one request accepts.
    async fn start(edit: impl Fn(&mut Value)) -> Self {
        let place = Place::new();
        let spec = json!({"concurrency": 1, "hold": true, "routing": "bid"});
        let mut pods = Vec::new();
        for name in ["one", "two"] {
            pods.push(Pod::balanced(&place, name, spec.clone(), 2, &edit).await);
        }
        let pods: [Pod; 2] = pods.try_into().ok().unwrap();
        let endpoints = pods.each_ref().map(|pod| pod.address);
        let spec = json!({"routing": "bid", "bouncePrice": 10});
        let (caller, to) = single_sender(&place, "caller", &endpoints, spec).await;
        for _ in 0..WARM_UP {
            assert_eq!(send(to, request("/takes/20"), "").await.unwrap().status, 200);
        }
        Self { caller, to, pods, place }
    }

    /// The server that has bounced a request for its bid, and the other one.
    async fn bouncer(&self) -> (&Pod, &Pod) {
        let [one, two] = &self.pods;
        eventually("a bounce", async || match (one.metric("rejected_bid").await, two.metric("rejected_bid").await) {
            (0, 0) => None,
            (_, 0) => Some((one, two)),
            (0, _) => Some((two, one)),
            both => panic!("the last attempt makes no bid, but there were {both:?} bounces"),
        })
        .await
    }

    /// The counter of the caller has this value.
    async fn counts(&self, name: &str, value: u64) {
        let what = format!("{name} = {value} at the caller");
        eventually(&what, async || (metric(&self.caller, "outbound", name).await == value).then_some(())).await;
    }

    /// How Envoys without our filters answer.
    async fn stock(&self, kind: Kind, path: &str) -> Answer {
        let start = async |name: &str, bootstrap: &Value| {
            Envoy::start(&self.place.envoy, self.place.path(), name, bootstrap, 1).await.unwrap()
        };
        let app = App::start("stock").await;
        let server = start("stock-server", &sidecar_inbound(app.address, None)).await;
        let endpoints = [server.listener("inbound").unwrap()];
        let balancing = Balancing::RoundRobin;
        let stock = Outbound { cluster: SERVICE, endpoints: &endpoints, balancing, plugin: None };
        let caller = start("stock-caller", &sidecar_outbound(&stock)).await;
        kind.send(caller.listener("outbound").unwrap(), path).await.unwrap()
    }

    async fn is_empty(&self) {
        for pod in &self.pods {
            is_empty(pod, 1).await;
        }
    }
}

fn names(answer: &Answer) -> Vec<String> {
    let mut names: Vec<_> = answer.headers.keys().map(ToString::to_string).collect();
    names.sort();
    names
}

/// Both servers are busy when the request comes. `disturb` happens while one of them holds it.
async fn goes_on(kind: Kind, edit: impl Fn(&mut Value), disturb: impl AsyncFn(&mut [Pod; 2])) {
    let mut stand = Stand::start(edit).await;
    let [one, two] = &stand.pods;
    let inside = [fill(one, 1).await, fill(two, 1).await];
    let to = stand.to;
    let sent = tokio::spawn(async move { kind.send(to, "/x").await });
    eventually("its arrival", async || {
        (one.metric("in_flight").await + two.metric("in_flight").await == 3).then_some(())
    })
    .await;
    disturb(&mut stand.pods).await;
    let (first, other) = stand.bouncer().await;
    // It waits at the other, too, but without a bid.
    has(first, "in_flight", 1).await;
    has(other, "in_flight", 2).await;
    let [of_one, of_two] = inside;
    let (of_first, of_other) = if first.app.name() == "one" { (of_one, of_two) } else { (of_two, of_one) };
    release(other, of_other).await;

    let answer = sent.await.unwrap().unwrap();
    assert_eq!((answer.status.as_u16(), answer.app()), (200, Some(other.app.name())), "{kind:?}");
    assert_eq!(answer.body, kind.body(), "{kind:?}");
    assert_eq!(answer.ours(), Vec::<String>::new());
    assert_eq!(first.app.seen("/x").len(), 0, "{kind:?}: the application of the first has not seen it");
    let [seen]: [_; 1] = other.app.seen("/x").try_into().unwrap();
    assert_eq!(seen.body, kind.body());
    assert!(seen.headers.keys().all(|name| !name.as_str().starts_with("x-bloc")), "{:?}", seen.headers);
    stand.counts("bounces", 1).await;
    stand.counts("rejections", 0).await;
    stand.counts("retries_exhausted", 0).await;
    stand.counts("failures", 0).await;
    let stock = stand.stock(kind, "/x").await;
    assert_eq!((stock.status, &stock.body), (answer.status, &answer.body), "{kind:?}");
    assert_eq!(names(&stock), names(&answer), "{kind:?}");

    release(first, of_first).await;
    has(first, "rejected_bid", 1).await;
    has(other, "rejected_bid", 0).await;
    stand.is_empty().await;
    assert_eq!(stand.pods.each_ref().map(|pod| pod.app.most_at_once()), [1; 2]);
}

async fn nothing(_: &mut [Pod; 2]) {}

#[tokio::test(flavor = "multi_thread")]
async fn a_get_whose_promise_is_taken_back_goes_on_to_the_other_server() {
    goes_on(Kind::Get, |_| (), nothing).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_post_whose_promise_is_taken_back_reaches_the_other_server_with_its_body() {
    goes_on(Kind::Post, |_| (), nothing).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_http2_request_whose_promise_is_taken_back_reaches_the_other_server_with_its_body() {
    goes_on(Kind::Http2, |_| (), nothing).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_grpc_call_whose_promise_is_taken_back_goes_on_to_the_other_server() {
    goes_on(Kind::Grpc, |_| (), nothing).await;
}

/// Filters on both sides of ours wait with the request and with the answer.
fn among_others(bootstrap: &mut Value) {
    let chain = manager(&mut bootstrap["static_resources"]["listeners"][0])["http_filters"].as_array_mut().unwrap();
    let ask =
        r#"handle:httpCall("app", {[":method"] = "GET", [":path"] = "/fleeting", [":authority"] = "app"}, "", 20000)"#;
    let code = format!("function envoy_on_request(handle) {ask} end function envoy_on_response(handle) {ask} end");
    let lua = json!({"name": "lua", "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.lua.v3.Lua",
        "default_source_code": {"inline_string": code},
    }});
    let delay = json!({"name": "fault", "typed_config": {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.fault.v3.HTTPFault",
        "delay": {"fixed_delay": "0.010s", "percentage": {"numerator": 100}},
    }});
    chain.insert(0, lua);
    chain.insert(chain.len() - 1, delay);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_promise_is_taken_back_among_filters_that_wait() {
    for kind in [Kind::Post, Kind::Grpc] {
        goes_on(kind, among_others, nothing).await;
    }
}

/// When the server goes on, the bid is long over.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_goes_on_to_the_other_server_when_its_server_was_stopped_for_a_second() {
    for kind in [Kind::Post, Kind::Http2] {
        let stop = async |pods: &mut [Pod; 2]| {
            let mut signal = |signal| pods.iter_mut().for_each(|pod| pod.sidecar.process().signal(signal));
            signal(Signal::SIGSTOP);
            sleep(Duration::from_secs(1)).await;
            signal(Signal::SIGCONT);
        };
        goes_on(kind, |_| (), stop).await;
    }
}

/// One server is busy all the time. Requests that it does not answer in time are answered by the
/// other one, which is idle.
#[tokio::test(flavor = "multi_thread")]
async fn an_idle_server_answers_what_the_busy_one_held_too_long() {
    let stand = Stand::start(|_| ()).await;
    let [busy, idle] = &stand.pods;
    let inside = fill(busy, 1).await;
    let (mut sent, mut waited) = (0, 0);
    let bounces = loop {
        assert!(sent < 500, "the busy server was never chosen");
        let began = Instant::now();
        let answer = Kind::Post.send(stand.to, "/x").await.unwrap();
        assert_eq!((answer.status.as_u16(), answer.app()), (200, Some("two")));
        assert_eq!(answer.body, Kind::Post.body());
        sent += 1;
        waited += u64::from(began.elapsed() >= HELD);
        match busy.metric("rejected_bid").await {
            0 => {}
            bounces => break bounces,
        }
    };
    assert_eq!((busy.app.seen("/x").len(), idle.app.seen("/x").len()), (0, sent));
    assert!(waited >= bounces, "{waited} waited for twice their bids, and {bounces} were bounced");
    release(busy, inside).await;
    stand.is_empty().await;
}

/// Clients leave at random moments, many of them about when the request is bounced or arrives at
/// the other server.
#[tokio::test(flavor = "multi_thread")]
async fn clients_that_leave_at_the_moment_of_the_bounce_leave_nothing_behind() {
    let mut random = fastrand::Rng::with_seed(22);
    for kind in [Kind::Get, Kind::Post, Kind::Http2, Kind::Grpc] {
        let stand = Stand::start(|_| ()).await;
        let [one, two] = &stand.pods;
        let inside = [fill(one, 1).await, fill(two, 1).await];
        let mut requests = tokio::task::JoinSet::new();
        for n in 0..60 {
            let (to, path) = (stand.to, format!("/{kind:?}/{n}"));
            let patience = (n % 4 != 0).then(|| Duration::from_millis(random.u64(0..1200)));
            requests.spawn(async move {
                let answer = kind.send(to, &path);
                let answer = match patience {
                    Some(patience) => timeout(patience, answer).await.ok(),
                    None => Some(answer.await),
                };
                (path, answer)
            });
            sleep(Duration::from_millis(random.u64(0..20))).await;
        }
        sleep(Duration::from_millis(500)).await;
        let [of_one, of_two] = inside;
        tokio::join!(release(one, of_one), release(two, of_two));
        let (mut served, mut left) = (0, 0);
        for (path, answer) in requests.join_all().await {
            let times = one.app.seen(&path).len() + two.app.seen(&path).len();
            if let Some(answer) = answer {
                let answer = answer.unwrap();
                assert_eq!((answer.status.as_u16(), times), (200, 1), "{path}");
                assert_eq!(answer.body, kind.body(), "{path}");
                served += 1;
            } else {
                assert!(times <= 1, "{path}");
                left += 1;
            }
        }
        println!("{kind:?}: served {served}, left {left}");
        assert!(served >= 15 && served + left == 60);
        let bounced = one.metric("rejected_bid").await + two.metric("rejected_bid").await;
        assert!(bounced > 0, "{kind:?}");
        stand.is_empty().await;
    }
}
