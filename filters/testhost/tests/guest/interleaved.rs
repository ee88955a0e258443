//! Requests of one thread that overtake each other where other filters wait: before the router, on
//! the way back, and at the servers.

use crate::support::{GET, caller, metric, process, server};
use bloc_testhost::{Attempt, Caller, Headers, Last, Process, Request, Response, Server};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;

const HOSTS: [&str; 4] = ["10.0.0.1:80", "10.0.0.2:80", "10.0.0.3:80", "10.0.0.4:80"];
const REQUESTS: usize = 300;
/// The most requests under way at once.
const AT_ONCE: usize = 12;

/// The state of a request.
enum Step<'a> {
    /// It waits between `bloc.outbound` and the router.
    Chosen(Request<'a>),
    /// On the network.
    Sent(Request<'a>, Attempt),
    /// Its answer waits between the router and `bloc.outbound`.
    Answered(Request<'a>, Last),
}

struct Mesh {
    process: Process,
    servers: BTreeMap<&'static str, Server>,
    rng: fastrand::Rng,
    /// Whether some requests are rejected.
    rejects: bool,
    /// Rejections without a retry.
    exhausted: u64,
    attempts: u64,
}

impl Mesh {
    /// A server's answer; some reject.
    fn network(&mut self, attempt: &Attempt) -> Option<Response> {
        self.attempts += 1;
        let sent = attempt.sent();
        assert!(!sent.text("x-bloc-endpoints").unwrap_or_default().contains('.'), "an address leaves the proxy");
        let server = &self.servers[attempt.server()];
        let rejects = self.rejects && self.rng.u32(0..4) == 0;
        // Fills the server first.
        let fills = rejects.then(|| {
            let mut stream = server.root().stream();
            assert!(stream.request_headers(GET, true).continues());
            stream
        });
        let response = server.handle(sent, |_| Response::new(200, &[], attempt.server().as_bytes()));
        drop(fills);
        Some(response)
    }

    fn step<'a>(&mut self, step: Step<'a>) -> Option<Step<'a>> {
        match step {
            Step::Chosen(mut request) => {
                let Ok(attempt) = request.attempt() else { panic!("answered by the filter") };
                Some(Step::Sent(request, attempt))
            }
            Step::Sent(request, attempt) => {
                let response = self.network(&attempt);
                Some(match request.answer(attempt, response) {
                    Some(last) => Step::Answered(request, last),
                    None => Step::Chosen(request),
                })
            }
            Step::Answered(request, last) => {
                self.exhausted += u64::from(last.response.headers.text("x-bloc-reject").is_some());
                let outcome = request.end(last);
                let names = outcome.response.headers.borrow().names("x-bloc");
                assert!(names.is_empty(), "the application sees {names:?}");
                if outcome.response.status() == 200 {
                    let server = outcome.tried.last().expect("a server");
                    assert_eq!(outcome.response.body, server.as_bytes());
                }
                None
            }
        }
    }

    /// Sends requests; each step may wait for any number of other steps.
    fn run(&mut self, caller: &Caller) {
        let mut going: Vec<Step<'_>> = Vec::new();
        let mut sent = 0;
        while sent < REQUESTS || !going.is_empty() {
            self.process.advance(Duration::from_micros(self.rng.u64(0..2000)));
            if sent < REQUESTS && (going.is_empty() || (going.len() < AT_ONCE && self.rng.bool())) {
                sent += 1;
                going.push(Step::Chosen(caller.begin(Headers::new(&GET)).expect("it is placed")));
                continue;
            }
            let step = going.swap_remove(self.rng.usize(..going.len()));
            going.extend(self.step(step));
        }
        self.process.advance(Duration::from_secs(10));
    }
}

fn mesh(seed: u64, rejects: bool) -> Mesh {
    let process = process(seed);
    let spec = json!({"capacity": {"estimator": "static", "limit": 1}});
    let servers = HOSTS.iter().map(|host| (*host, server(&process, &spec))).collect();
    Mesh { process, servers, rng: fastrand::Rng::with_seed(seed), rejects, exhausted: 0, attempts: 0 }
}

fn counted(mesh: &Mesh, name: &str) -> u64 {
    metric(&mesh.process, "outbound", name).unwrap_or(0)
}

/// If filters passed state on correctly only without interleaving, healthy servers would be marked
/// as missing, and attempts would be forced.
#[test]
fn hardly_any_attempt_is_forced_when_no_server_rejects() {
    for (seed, routing) in [(1, "bloc"), (2, "bid"), (3, "mu")] {
        let mut mesh = mesh(seed, false);
        let spec = json!({"routing": routing, "resetInterval": "1s", "endpoints": HOSTS});
        let caller = caller(&mesh.process, &spec, &HOSTS);
        // Attempts before the first answers may be forced.
        mesh.run(&caller);
        let cold = counted(&mesh, "forced");
        mesh.run(&caller);
        assert_eq!(counted(&mesh, "fallbacks"), 0, "{routing}");
        let forced = counted(&mesh, "forced") - cold;
        assert!(forced * 100 <= REQUESTS as u64, "{routing}: {forced} of {REQUESTS} forced");
    }
}

#[test]
fn counters_match_what_happened_to_interleaved_requests() {
    for (seed, routing, named) in [(4, "bloc", true), (5, "bid", true), (6, "mu", true), (7, "bloc", false)] {
        let mut mesh = mesh(seed, true);
        let endpoints = if named { json!(HOSTS) } else { json!(null) };
        let spec = json!({"routing": routing, "retries": 1, "resetInterval": "1ms", "endpoints": endpoints});
        let caller = caller(&mesh.process, &spec, &HOSTS);
        mesh.run(&caller);
        let what = format!("{routing}, named: {named}");
        assert_eq!(counted(&mesh, "requests"), REQUESTS as u64, "{what}");
        assert_eq!(counted(&mesh, "attempts"), mesh.attempts, "{what}");
        assert_eq!(counted(&mesh, "retries_exhausted"), mesh.exhausted, "{what}");
        assert_eq!(counted(&mesh, "failures"), 0, "{what}: each was answered");
        assert!(mesh.attempts > REQUESTS as u64, "{what}: there were retries");
        // Bids have five retries more.
        assert!(mesh.exhausted > 0 || routing == "bid", "{what}: some had no retry left");
    }
}
