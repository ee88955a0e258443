//! The soak: very many requests, servers that come and go, and requests that fail in every way,
//! while the guests' memory is watched.

use crate::calls::HttpCall;
use crate::exchange::server::Server;
use crate::exchange::{Caller, Response, RetryPolicy};
use crate::module::Module;
use crate::options::VmOptions;
use crate::process::Process;
use crate::vm::Vm;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::time::Duration;

const CLUSTER: &str = "bloc-control-plane";
const HOSTS: usize = 10;
/// The periods, in requests: the client leaves before the answer, the connection is refused, the
/// server sends false headers.
const CANCELLED: u64 = 50;
const REFUSED: u64 = 37;
const LIES: u64 = 41;

/// The lowest level of a log line that reports a problem.
const WARNING: u32 = 3;

/// How the caller learns of servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Servers {
    /// From answers.
    Learned,
    /// From the control plane.
    Announced,
}

/// A soak to run.
#[derive(Clone, Copy, Debug)]
pub struct Soak {
    /// The number of requests.
    pub requests: u64,
    /// The number of servers that come and go in that time.
    pub servers: u64,
    /// How the caller learns of them.
    pub from: Servers,
}

/// Pages of 64 KiB of linear memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pages {
    /// Of the caller's guest.
    pub caller: u64,
    /// Of the server's guest.
    pub server: u64,
}

/// The results.
#[derive(Clone, Debug)]
pub struct Seen {
    /// After a tenth of the requests.
    pub warm: Pages,
    /// At the end.
    pub end: Pages,
    /// Contexts of the two guests at the end, root contexts not counted.
    pub contexts: usize,
    /// Requests answered with a 200.
    pub served: u64,
    /// Attempts beyond each request's first.
    pub retried: u64,
}

impl Soak {
    /// Runs it.
    ///
    /// # Panics
    /// A guest made a call that Envoy refuses, or trapped.
    pub fn run(&self, module: &Module) -> Seen {
        let process = Process::new(module, 1).with_cluster(CLUSTER);
        let (calling, serving) = (process.vm(VmOptions::default()), process.vm(VmOptions::default()));
        let spec = r#""routing":"bid","capacity":{"estimator":"static","limit":3},"concurrency":2,"hold":false"#;
        let control_plane = match self.from {
            Servers::Learned => String::new(),
            Servers::Announced => format!(r#","controlPlane":{{"cluster":"{CLUSTER}","wait":"30s"}}"#),
        };
        let outbound = format!(r#"{{"services":{{"backend":{{{spec}}}}}{control_plane}}}"#);
        let inbound = format!(r#"{{"service":"backend","services":{{"backend":{{{spec}}}}}}}"#);
        let mut hosts: VecDeque<String> = (0..HOSTS as u64).map(address).collect();
        let named: Vec<&str> = hosts.iter().map(String::as_str).collect();
        let policy = RetryPolicy { on: "connect-failure", retries: None };
        let caller = Caller::new(&calling, "backend", &outbound, &named).expect("a valid configuration");
        let caller = caller.with_policy(policy);
        let server = Server::new(&serving, &inbound).expect("a valid configuration");
        let random = RefCell::new(fastrand::Rng::with_seed(2));
        let (mut served, mut retried, mut come) = (0, 0, 0);
        let mut warm = pages(&calling, &serving);
        for request in 1..=self.requests {
            if request * self.servers / self.requests > come {
                come += 1;
                hosts.pop_front();
                hosts.push_back(address(HOSTS as u64 + come));
                caller.edit_hosts(|all| *all = hosts.iter().cloned().collect());
                for call in process.http_calls() {
                    announce(&process, &call, come, spec, &hosts);
                }
            }
            let outcome = caller.send(GET, |_, sent| {
                if request % REFUSED == 0 {
                    return None;
                }
                // Other requests at the server, at times more than it admits.
                let others = random.borrow_mut().usize(0..5);
                let others: Vec<_> = (0..others).map(|_| server.root().stream()).map(begun).collect();
                let answer = server.handle(sent, |_| {
                    process.advance(Duration::from_micros(random.borrow_mut().u64(100..900)));
                    Response::new(200, &[], if request % 2 == 0 { b"" } else { b"body" })
                });
                drop(others);
                if request % LIES == 0 {
                    answer.headers.edit(|map| map.set("x-bloc-load", b"\xff=chip"));
                }
                (request % CANCELLED != 0).then_some(answer)
            });
            served += u64::from(outcome.response.status() == 200);
            retried += outcome.tried.len().saturating_sub(1) as u64;
            if request == self.requests / 10 {
                warm = pages(&calling, &serving);
            }
            for line in process.take_log() {
                assert!(line.level < WARNING, "{}", line.text);
            }
        }
        assert!(!calling.is_dead() && !serving.is_dead(), "a guest has trapped");
        // Three root contexts: outbound, attempt, inbound.
        let contexts = calling.contexts() + serving.contexts() - 3;
        Seen { warm, end: pages(&calling, &serving), contexts, served, retried }
    }
}

const GET: [(&str, &str); 3] = [(":method", "GET"), (":path", "/"), (":authority", "backend")];

fn begun(mut stream: crate::Stream) -> crate::Stream {
    let _ = stream.request_headers(GET, true);
    stream
}

fn pages(caller: &Vm, server: &Vm) -> Pages {
    Pages { caller: caller.memory_pages(), server: server.memory_pages() }
}

fn address(number: u64) -> String {
    format!("10.{}.{}.{}:8080", number >> 16 & 255, number >> 8 & 255, number & 255)
}

fn announce(process: &Process, call: &HttpCall, version: u64, spec: &str, hosts: &VecDeque<String>) {
    let hosts = hosts.iter().map(|host| format!(r#""{host}""#)).collect::<Vec<_>>().join(",");
    let body = format!(r#"{{"version":"{version}","services":{{"backend":{{{spec},"endpoints":[{hosts}]}}}}}}"#);
    process.answer(call, 200, &[], body.as_bytes());
}
