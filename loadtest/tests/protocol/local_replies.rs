//! Answers of a server's Envoy and those of its application: whose an answer is depends on what
//! Envoy says, not on its headers, to which users may add their own.

use crate::support::bootstraps::manager;
use crate::support::fleet::{
    Plan, ROUTINGS, STOCK, Way, addresses, applications, places, send_to_all, without_user_retries,
};
use crate::support::{Answer, Fleet, eventually, grpc, request, send};
use bloc_mesh::envoy::{SERVICE, route_configuration};
use futures_util::future::join_all;
use hyper::Request;
use serde_json::{Value, json};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// Of the servers of a way, those that have lost their application. Their users, each in another
/// way, have headers added to answers.
const GONE: [fn(&mut Value); 3] = [adds_headers, counts_attempts, rewrites_local_replies];
/// The server that has its application.
const WELL: usize = GONE.len();

fn added(names: std::ops::Range<u32>) -> Value {
    names.map(|n| json!({"header": {"key": format!("x-user-{n}"), "value": "added"}})).collect()
}

fn adds_headers(bootstrap: &mut Value) {
    let routes = route_configuration(bootstrap);
    routes["virtual_hosts"][0]["routes"][0]["response_headers_to_add"] = added(0..3);
    routes["virtual_hosts"][0]["response_headers_to_add"] = added(3..5);
    routes["response_headers_to_add"] = added(5..7);
}

fn counts_attempts(bootstrap: &mut Value) {
    route_configuration(bootstrap)["virtual_hosts"][0]["include_attempt_count_in_response"] = json!(true);
}

/// Gives Envoy's own answers another body, and headers.
fn rewrites_local_replies(bootstrap: &mut Value) {
    let errors = json!({"op": "GE", "value": {"default_value": 400, "runtime_key": "none"}});
    manager(&mut bootstrap["static_resources"]["listeners"][0])["local_reply_config"] = json!({
        "mappers": [{"filter": {"status_code_filter": {"comparison": errors}}, "headers_to_add": added(0..3)}],
        "body_format": {"json_format": {"flags": "%RESPONSE_FLAGS%"}},
    });
}

/// Sends requests over both protocols; returns those that were not served.
async fn failed(way: &Way, requests: usize) -> Vec<String> {
    let (served, mut failed) = (WELL.to_string(), Vec::new());
    for n in 0..requests {
        let post = Request::post("/takes/10").header("host", SERVICE);
        let to = way.callers[n % way.callers.len()];
        let http = send(to, post, "body").await.unwrap();
        let grpc = grpc(to, "/takes/10").await.unwrap();
        for answer in [http, grpc] {
            assert_eq!(answer.ours(), Vec::<String>::new(), "{}", way.name);
            if (answer.status.as_u16(), answer.app()) != (200, Some(&*served)) {
                failed.push(format!("request {n}: {} {:?}", answer.status, answer.headers));
            }
        }
    }
    failed
}

#[tokio::test(flavor = "multi_thread")]
async fn loses_no_request_to_lost_applications_whatever_headers_users_add() {
    const REQUESTS: usize = 30;
    let apps = applications(&ROUTINGS, GONE.len() + 1).await;
    let spec = |way: &str| {
        let mut spec = places(way, 20);
        spec["resetInterval"] = json!("100ms");
        spec
    };
    let edit = |n: usize, part: &mut Value| GONE.get(n).into_iter().for_each(|edit| edit(part));
    let plan =
        Plan { callers: 2, apart: true, spec: &spec, server: &edit, caller: &without_user_retries, ..Plan::default() };
    let fleet = Fleet::start(&addresses(&apps), plan).await;
    for app in apps.iter().flat_map(|(_, apps)| &apps[..WELL]) {
        app.crash().await;
    }
    let all = join_all(fleet.ways.iter().map(|way| failed(way, REQUESTS))).await;
    let mut wrong = Vec::new();
    for (Way { name, servers, .. }, failed) in fleet.ways.iter().zip(all) {
        // All counters lag alike.
        let served = (2 * REQUESTS - failed.len()) as u64;
        eventually("all requests counted", async || {
            (fleet.inbound(name, WELL, "departed").await >= served).then_some(())
        })
        .await;
        let counted = async |what| join_all((0..=WELL).map(|n| fleet.inbound(name, n, what))).await;
        let [attempts, unreachable, departed] = [
            join_all((0..=WELL).map(|n| fleet.attempts(name, n))).await,
            counted("rejected_unreachable").await,
            counted("departed").await,
        ];
        let text = format!(
            "{name}: {} failed, attempts {attempts:?}, unreachable {unreachable:?}, departed {departed:?}",
            failed.len()
        );
        println!("{text}");
        let are_known = unreachable[..WELL].iter().all(|count| *count > 0) && unreachable[WELL] == 0;
        if !failed.is_empty() || !are_known || departed[..WELL] != [0; WELL] {
            wrong.push(format!("{text}; {:?}", failed.first()));
        }
        // A caller without our filters gets Envoy's answer unchanged.
        for (at, header) in servers.iter().zip(["x-user-6", "x-envoy-attempt-count", "x-user-2"]) {
            let plain = send(*at, request("/x"), "").await.unwrap();
            assert_eq!((plain.status.as_u16(), plain.ours()), (503, vec![]), "{name}");
            assert!(plain.header(header).is_some(), "{name}: {plain:?}");
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// One of four servers passes two requests at once to its application, and Envoy answers all others
/// there at once.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_circuit_breaker_is_open_loses_no_request_and_gets_no_more_than_its_share() {
    const SERVERS: usize = 4;
    const CLIENTS: usize = 16;
    const REQUESTS: usize = 600;
    let apps = applications(&ROUTINGS, SERVERS).await;
    let narrow = |n: usize, part: &mut Value| {
        if n == 0 {
            part["static_resources"]["clusters"][0]["circuit_breakers"]["thresholds"][0]["max_requests"] = json!(2);
        }
    };
    let spec = |way: &str| places(way, 8);
    let fleet = Fleet::start(
        &addresses(&apps),
        Plan { callers: 2, apart: true, spec: &spec, server: &narrow, ..Plan::default() },
    )
    .await;
    let one_way = async |way: &Way| send_to_all(&way.callers, CLIENTS, REQUESTS, |_| request("/takes/50")).await;
    let all = join_all(fleet.ways.iter().map(one_way)).await;
    let mut wrong = Vec::new();
    for (way, answers) in ROUTINGS.into_iter().zip(all) {
        let failed = answers.iter().filter(|answer| answer.status != 200).count();
        assert!(answers.iter().all(|answer| answer.ours().is_empty()), "{way}");
        let attempts = join_all((0..SERVERS).map(|n| fleet.attempts(way, n))).await;
        let share = attempts[0] as f64 / attempts.iter().sum::<u64>() as f64;
        let served: usize =
            apps.iter().filter(|(name, _)| *name == way).map(|(_, apps)| apps[0].all_seen().len()).sum();
        let known = eventually("counters", async || {
            let known = fleet.inbound(way, 0, "rejected_unreachable").await;
            let departed = fleet.inbound(way, 0, "departed").await;
            (known + departed >= attempts[0]).then_some(known)
        })
        .await;
        let text = format!("{way}: {failed} failed, attempts {attempts:?}, served {served}, unreachable {known}");
        println!("{text}");
        if failed > 0 || share > 1.2 / SERVERS as f64 || known == 0 {
            wrong.push(text);
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Answers of an application, byte for byte, by the path.
const ANSWERS: [(&str, &str); 4] = [
    ("/bare", "HTTP/1.1 503 Service Unavailable\r\n\r\n"),
    (
        "/few",
        "HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-length: 0\r\n\
         x-envoy-overloaded: true\r\n\r\n",
    ),
    (
        "/many",
        "HTTP/1.1 503 Service Unavailable\r\nconnection: close\r\ncontent-type: text/plain\r\n\
         content-length: 5\r\na: 1\r\nb: 2\r\nc: 3\r\nd: 4\r\ne: 5\r\nf: 6\r\ng: 7\r\nh: 8\r\n\r\nsorry",
    ),
    // It has seen the request, which nobody may send elsewhere.
    ("/closes", ""),
];

/// An application that gives these answers, and closes the connection after each.
struct Fixed {
    address: SocketAddr,
    requests: Arc<AtomicUsize>,
}

impl Fixed {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, requests) = (listener.local_addr().unwrap(), Arc::<AtomicUsize>::default());
        let seen = Arc::clone(&requests);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let seen = Arc::clone(&seen);
                tokio::spawn(async move {
                    let (mut head, mut more) = (Vec::new(), [0; 1024]);
                    while !head.ends_with(b"\r\n\r\n") {
                        match stream.read(&mut more).await {
                            Ok(length) if length > 0 => head.extend_from_slice(&more[..length]),
                            _ => return,
                        }
                    }
                    seen.fetch_add(1, Ordering::Relaxed);
                    let path = head.split(|byte| *byte == b' ').nth(1).unwrap();
                    let (_, answer) = ANSWERS.iter().find(|(known, _)| known.as_bytes() == path).unwrap();
                    // The sidecar may have left.
                    let _ = stream.write_all(answer.as_bytes()).await;
                });
            }
        });
        Self { address, requests }
    }
}

/// What a client sees of an answer, without what Envoy adds to each.
fn seen(answer: &Answer) -> (u16, Vec<(String, String)>, Vec<u8>) {
    let own = |name: &str| !["date", "server", "x-envoy-upstream-service-time"].contains(&name);
    let headers = answer.headers.iter().filter(|(name, _)| own(name.as_str()));
    let mut headers: Vec<_> =
        headers.map(|(name, value)| (name.to_string(), value.to_str().unwrap().to_owned())).collect();
    headers.sort();
    (answer.status.as_u16(), headers, answer.body.to_vec())
}

/// Each answer is the same as with stock Envoy, and of one attempt. `edit` changes the sidecars of
/// the two servers of each way.
async fn all_pass_as_with_stock_envoy(edit: fn(&mut Value)) {
    const REQUESTS: usize = 10;
    let mut apps = Vec::new();
    for way in [STOCK, ROUTINGS[0], ROUTINGS[1], ROUTINGS[2]] {
        apps.push((way, [Fixed::start().await, Fixed::start().await]));
    }
    let ways: Vec<_> = apps.iter().map(|(way, apps)| (*way, apps.iter().map(|app| app.address).collect())).collect();
    let fleet = Fleet::start(&ways, Plan { server: &|_, part| edit(part), ..Plan::default() }).await;
    let mut stock = HashMap::new();
    for (way, (name, apps)) in fleet.ways.iter().zip(&apps) {
        let mut sent = 0;
        for (path, _) in ANSWERS {
            for _ in 0..REQUESTS {
                let answer = seen(&send(way.to, request(path), "").await.unwrap());
                sent += 1;
                assert_eq!(answer.0, 503, "{name} {path}");
                assert_eq!(&answer, stock.entry(path).or_insert(answer.clone()), "{name} {path}");
                let attempts: usize = apps.iter().map(|app| app.requests.load(Ordering::Relaxed)).sum();
                assert_eq!(attempts, sent, "{name} {path}: one attempt each");
            }
        }
        if *name != STOCK {
            let counted = async |what| fleet.inbound(name, 0, what).await + fleet.inbound(name, 1, what).await;
            eventually("all requests counted", async || (counted("admitted").await == sent as u64).then_some(())).await;
            assert_eq!(counted("rejected_unreachable").await, 0, "{name}");
            assert_eq!(counted("departed").await, 0, "{name}: an error says nothing of speed");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_applications_own_503_is_passed_on_and_not_retried_whatever_its_headers() {
    all_pass_as_with_stock_envoy(adds_headers).await;
}

/// A sidecar first tries a port that refuses connections, or the application at once.
#[tokio::test(flavor = "multi_thread")]
async fn an_applications_own_503_after_a_refused_connection_is_passed_on_and_not_retried() {
    all_pass_as_with_stock_envoy(|bootstrap| {
        let dead = json!({"socket_address": {"address": "127.0.0.1", "port_value": 1}});
        let app = &mut bootstrap["static_resources"]["clusters"][0]["load_assignment"];
        app["endpoints"][0]["lb_endpoints"].as_array_mut().unwrap().push(json!({"endpoint": {"address": dead}}));
        let route = &mut route_configuration(bootstrap)["virtual_hosts"][0]["routes"][0]["route"];
        route["retry_policy"]["retry_on"] = json!("connect-failure");
    })
    .await;
}
