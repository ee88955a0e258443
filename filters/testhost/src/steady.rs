//! The steady path: what one request costs in each filter once everything is warm.
//!
//! One caller and ten servers handle one request of a millisecond after the other, in virtual time
//! and with one seed. So the same module gives the same numbers on every machine.

use crate::cost::Cost;
use crate::exchange::server::Server;
use crate::exchange::{Caller, Response};
use crate::module::Module;
use crate::options::VmOptions;
use crate::process::Process;
use crate::vm::Vm;
use std::time::Duration;

/// The application's response, with what Envoy's router adds.
const ANSWER: [(&str, &str); 3] = [
    ("content-type", "text/plain"),
    ("date", "Fri, 20 Nov 2026 12:00:00 GMT"),
    ("x-envoy-upstream-service-time", "10"),
];

/// The routings that are measured.
pub const ROUTINGS: [&str; 3] = ["bloc", "bid", "mu"];
/// The number of requests measured.
pub const REQUESTS: u64 = 400;
/// Requests before that: enough to meet every server and to let every buffer reach its size.
const WARM_UP: usize = 2_500;
const SERVERS: usize = 10;
const TIME: Duration = Duration::from_millis(1);

/// What [`REQUESTS`] requests cost.
#[derive(Clone, Debug)]
pub struct Steady {
    /// `bloc.outbound`.
    pub outbound: Cost,
    /// `bloc.attempt`.
    pub attempt: Cost,
    /// `bloc.inbound`.
    pub inbound: Cost,
}

impl Steady {
    /// The filters by name.
    pub fn parts(&self) -> [(&'static str, &Cost); 3] {
        [("outbound", &self.outbound), ("attempt", &self.attempt), ("inbound", &self.inbound)]
    }
}

/// What requests leave behind, which must be the same after any number of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// Contexts of the caller's and the server's guest.
    pub contexts: [usize; 2],
    /// Pages of their memory.
    pub pages: [u64; 2],
    /// Host calls of a request, rounded, since some come once in an interval: outbound, attempt,
    /// inbound.
    pub host_calls: [u64; 3],
}

/// A caller and its servers after the warm-up: every further request costs the same.
pub struct SteadyPath {
    process: Process,
    caller: Caller,
    server: Server,
}

impl SteadyPath {
    /// Warms up with this routing, one of [`ROUTINGS`].
    ///
    /// # Panics
    /// The module does not take the configuration, or makes a call that Envoy refuses.
    pub fn new(module: &Module, routing: &str) -> Self {
        let hosts: Vec<String> = (1..=SERVERS).map(|i| format!("10.0.0.{i}:8080")).collect();
        let hosts: Vec<&str> = hosts.iter().map(String::as_str).collect();
        let capacity = r#""capacity":{"estimator":"static","limit":1000},"concurrency":4,"hold":false"#;
        let services =
            format!(r#"{{"backend":{{"routing":"{routing}",{capacity},"endpoints":["{}"]}}}}"#, hosts.join(r#"",""#));
        let process = Process::new(module, 1);
        let (calling, serving) = (process.vm(VmOptions::default()), process.vm(VmOptions::default()));
        let configuration = format!(r#"{{"services":{services}}}"#);
        let caller = Caller::new(&calling, "backend", &configuration, &hosts).expect("a valid configuration");
        let configuration = format!(r#"{{"service":"backend","services":{services}}}"#);
        let server = Server::new(&serving, &configuration).expect("a valid configuration");
        let path = Self { process, caller, server };
        for _ in 0..WARM_UP {
            path.request();
        }
        path
    }

    /// One request: out, one attempt, in, and back.
    ///
    /// # Panics
    /// It is not answered with a 200 at the first attempt.
    pub fn request(&self) {
        let request =
            [(":method", "GET"), (":path", "/"), (":authority", "backend"), (":scheme", "http"), ("user-agent", "wrk")];
        let outcome = self.caller.send(request, |_, request| {
            Some(self.server.handle(request, |_| {
                self.process.advance(TIME);
                Response::new(200, &ANSWER, b"ok")
            }))
        });
        assert_eq!((outcome.response.status(), outcome.tried.len()), (200, 1));
    }

    /// What [`REQUESTS`] requests cost, without ticks.
    ///
    /// # Panics
    /// As [`Self::request`].
    pub fn measure(&self) -> Steady {
        // Ticks come every second, and all requests fit between two.
        let past = Duration::from_nanos(self.process.now().subsec_nanos().into());
        self.process.advance(Duration::from_secs(1) - past + TIME);
        let _before = (self.caller.take_costs(), self.server.root().take_cost());
        for _ in 0..REQUESTS {
            self.request();
        }
        let [outbound, attempt] = self.caller.take_costs();
        Steady { outbound, attempt, inbound: self.server.root().take_cost() }
    }

    /// What the requests so far have left behind.
    ///
    /// # Panics
    /// As [`Self::request`].
    pub fn state(&self) -> State {
        let guests = [self.caller.vm(), self.server.root().vm()];
        let host_calls = self.measure().parts().map(|(_, cost)| (cost.calls() + REQUESTS / 2) / REQUESTS);
        State { contexts: guests.map(Vm::contexts), pages: guests.map(Vm::memory_pages), host_calls }
    }

    /// The caller, to read the costs of its filters.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// The server, to read the costs of its filter.
    pub fn server(&self) -> &Server {
        &self.server
    }
}
