//! What counts as a server's failure, and what does not.

use crate::support::{GET, caller, metric, process};
use bloc_testhost::{Process, Response};
use serde_json::json;
use std::time::Duration;

const ONE: &str = "10.0.0.1:80";
const OTHER: &str = "10.0.0.2:80";

fn counted(process: &Process, name: &str) -> u64 {
    process.advance(Duration::from_secs(1));
    metric(process, "outbound", name).unwrap_or(0)
}

/// How often the first of two servers, which responds like this, is tried for 40 requests; and how
/// many errors were counted.
fn tried(seed: u64, answer: impl Fn() -> Response) -> (usize, u64) {
    let sender = process(seed);
    let spec = json!({"endpoints": [ONE, OTHER], "resetInterval": "1h"});
    let caller = caller(&sender, &spec, &[ONE, OTHER]);
    let mut tried = 0;
    for _ in 0..40 {
        let outcome =
            caller.send(GET, |address, _| Some(if address == ONE { answer() } else { Response::new(200, &[], b"") }));
        tried += outcome.tried.iter().filter(|address| *address == ONE).count();
    }
    (tried, counted(&sender, "errors"))
}

#[test]
fn avoids_a_server_that_answers_5xx_unavailable_or_internal() {
    let grpc = |status: &'static str| {
        [
            Response::new(200, &[("content-type", "application/grpc"), ("grpc-status", status)], b""),
            Response::new(200, &[("content-type", "application/grpc")], b"").with_trailers(&[("grpc-status", status)]),
            Response::new(200, &[("content-type", "application/grpc")], b"1").with_trailers(&[("grpc-status", status)]),
        ]
    };
    let errors = [Response::new(500, &[], b""), Response::new(503, &[], b"no")];
    for (seed, error) in (1..).zip(errors.into_iter().chain(grpc("14")).chain(grpc("13"))) {
        assert_eq!(tried(seed, || error.clone()), (1, 1), "{error:?}");
    }
    for (seed, answer) in (11..).zip(grpc("0")) {
        let (tried, errors) = tried(seed, || answer.clone());
        assert!(tried > 10 && errors == 0, "{tried}, {errors}: {answer:?}");
    }
    // Its peer gives no such error. In trailers, the good status before it counts a little.
    let others = [Response::new(404, &[], b""), Response::new(429, &[], b"")];
    for (seed, answer) in (21..).zip(others.into_iter().chain(grpc("5"))) {
        let (tried, errors) = tried(seed, || answer.clone());
        assert!([4, 5].contains(&tried) && errors == 0, "{tried}, {errors}: {answer:?}");
    }
}

#[test]
fn an_error_from_all_servers_does_not_change_their_shares() {
    let sender = process(21);
    let servers = ["10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80", "10.0.0.4:80"];
    let caller = caller(&sender, &json!({"endpoints": servers, "resetInterval": "200ms"}), &servers);
    let mut shares = [0; 4];
    for _ in 0..2_000 {
        let outcome = caller.send(GET, |_, _| Some(Response::new(500, &[], b"")));
        let tried = servers.iter().position(|server| outcome.tried[0] == *server).unwrap();
        shares[tried] += 1;
        sender.advance(Duration::from_millis(10));
    }
    assert!(shares.iter().all(|share| (400..600).contains(share)), "{shares:?}");
    let forced = counted(&sender, "forced");
    assert!(forced < 20, "{forced} attempts found no server with a chip");
}

/// How many attempts failed, were given up, and were forced, of 1,000 requests whose callers give
/// up as `gives_up` says.
fn given_up(seed: u64, routing: &str, gives_up: impl Fn(u32) -> bool) -> [u64; 3] {
    let sender = process(seed);
    let servers: Vec<String> = (1..=10).map(|n| format!("10.0.0.{n}:80")).collect();
    let hosts: Vec<&str> = servers.iter().map(String::as_str).collect();
    let caller = caller(&sender, &json!({"endpoints": servers, "routing": routing}), &hosts);
    for number in 0..1_000 {
        let mut request = caller.begin(GET).unwrap();
        let attempt = request.attempt().ok().unwrap();
        if gives_up(number) {
            // Envoy ends the request's own filters first.
            drop(request);
            drop(attempt);
        } else if let Some(last) = request.answer(attempt, Some(Response::new(200, &[], b""))) {
            request.end(last);
        }
    }
    ["failures", "given_up", "forced"].map(|name| counted(&sender, name))
}

#[test]
fn a_request_that_its_caller_gave_up_is_no_failure() {
    for (seed, routing) in (31..).zip(["bloc", "bid", "mu"]) {
        let [.., forced] = given_up(seed, routing, |_| false);
        assert_eq!(given_up(seed, routing, |number| number % 10 == 0), [0, 100, forced], "{routing}");
    }
}

#[test]
fn a_connection_that_breaks_is_a_failure() {
    let sender = process(41);
    let spec = json!({"endpoints": [ONE, OTHER], "resetInterval": "1h"});
    let caller = caller(&sender, &spec, &[ONE, OTHER]);
    for _ in 0..40 {
        caller.send(GET, |address, _| (address == OTHER).then(|| Response::new(200, &[], b"")));
    }
    assert_eq!([counted(&sender, "failures"), counted(&sender, "given_up")], [1, 0]);
}
