//! A whole request: what Envoy's router does between the filters, as far as this project depends on it.
//!
//! [`Caller`] is the sidecar of who calls: `bloc.outbound`, then the router, which tries the servers of `x-bloc-endpoints` in their order, each attempt through
//! `bloc.attempt`; headers that the route configuration has it take away are taken away; servers that the cluster does not have are skipped, and when the list is used up the fallback policy takes the hosts in turn. [`Server`] is the sidecar of who is called: `bloc.inbound`, then the application. The network between them is a closure of the test.

use crate::cost::Cost;
use crate::headers::Headers;
use crate::root::Root;
use crate::stream::Flow;
use crate::vm::{Refused, Vm};
use std::cell::{Cell, RefCell};

/// Request headers that tell Envoy's router what to retry; it keeps them to itself.
const ROUTER_HEADERS: [&str; 3] = ["x-envoy-retry-on", "x-envoy-retriable-header-names", "x-envoy-max-retries"];
/// What the route configurations around the filters take from a request after the filters in front of the router, and from an answer before them, as the project's manifests say.
const STRIPPED_FROM_REQUESTS: Sides = Sides {
    inbound: &["x-bloc-bid", "x-bloc-endpoints", "x-bloc-load", "x-bloc-reject"],
    outbound: &["x-bloc-bid", "x-bloc-load", "x-bloc-reject"],
};
const STRIPPED_FROM_ANSWERS: Sides = Sides {
    inbound: &["x-bloc-bid", "x-bloc-endpoints", "x-bloc-load", "x-bloc-reject"],
    outbound: &["x-bloc-bid", "x-bloc-endpoints", "x-bloc-load"],
};

struct Sides {
    inbound: &'static [&'static str],
    outbound: &'static [&'static str],
}

fn strip(headers: &Headers, names: &[&str]) {
    headers.edit(|map| {
        for name in names {
            map.remove(name);
        }
    });
}

/// What requests have as a body, whatever length they claim.
const BODY: &[u8] = b"a body";

/// Whether a request ends with its headers.
fn ends(request: &Headers) -> bool {
    ["content-length", "content-type", "transfer-encoding"].iter().all(|name| request.text(name).is_none())
}

/// How often Envoy's router retries if a request asks for retries without saying how many.
const DEFAULT_RETRIES: usize = 1;

/// An answer on the wire.
#[derive(Clone, Debug)]
pub struct Response {
    /// Its headers, `:status` among them.
    pub headers: Headers,
    /// Its body.
    pub body: Vec<u8>,
}

impl Response {
    /// An answer with this status, these headers and this body.
    pub fn new(status: u32, headers: &[(&str, &str)], body: &[u8]) -> Self {
        let all = Headers::new(&[(":status", &status.to_string())]);
        all.edit(|map| headers.iter().for_each(|(name, value)| map.add(name, value)));
        Self { headers: all, body: body.to_vec() }
    }

    /// The HTTP status; 0 if there is none.
    pub fn status(&self) -> u32 {
        self.headers.text(":status").and_then(|status| status.parse().ok()).unwrap_or(0)
    }
}

/// What became of a request.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What the caller's application got.
    pub response: Response,
    /// The servers that were tried, in order.
    pub tried: Vec<String>,
}

/// The sidecar of a caller, as one of its threads has it.
pub struct Caller {
    outbound: Root,
    attempt: Root,
    cluster: String,
    hosts: RefCell<Vec<String>>,
    next_host: Cell<usize>,
}

impl Caller {
    /// Puts the filters into a VM. `hosts`: the servers (`ip:port`) that Envoy's cluster of this name has.
    ///
    /// # Errors
    /// The configuration was refused.
    pub fn new(vm: &Vm, cluster: &str, configuration: &str, hosts: &[&str]) -> Result<Self, Refused> {
        let (outbound, attempt) = (vm.root("bloc.outbound", configuration)?, vm.root("bloc.attempt", "")?);
        let hosts = RefCell::new(hosts.iter().map(ToString::to_string).collect());
        Ok(Self { outbound, attempt, cluster: cluster.to_owned(), hosts, next_host: Cell::new(0) })
    }

    /// Changes the hosts of the cluster.
    pub fn edit_hosts(&self, work: impl FnOnce(&mut Vec<String>)) {
        work(&mut self.hosts.borrow_mut());
    }

    /// What `bloc.outbound` and `bloc.attempt` have cost since the last look.
    pub fn take_costs(&self) -> [Cost; 2] {
        [self.outbound.take_cost(), self.attempt.take_cost()]
    }

    /// The server of the next attempt, and how much of the list is used up.
    fn place(&self, listed: &[&str], used: usize) -> (String, usize) {
        let hosts = self.hosts.borrow();
        for (place, server) in listed.iter().enumerate().skip(used) {
            if hosts.iter().any(|host| host == server) {
                return ((*server).to_owned(), place + 1);
            }
        }
        let next = self.next_host.get();
        self.next_host.set(next + 1);
        let host = hosts.get(next % hosts.len().max(1)).expect("a cluster with hosts");
        (host.clone(), listed.len())
    }

    /// Sends a request, with a body if its headers speak of one. `network` carries an attempt to a server and gives its answer; none if there is no connection.
    ///
    /// # Panics
    /// A filter made a call that Envoy refuses, or paused the request; or the cluster has no hosts.
    pub fn send(
        &self,
        request: impl Into<Headers>,
        mut network: impl FnMut(&str, Headers) -> Option<Response>,
    ) -> Outcome {
        let request = request.into();
        let mut stream = self.outbound.stream().with_property("xds\0cluster_name", &self.cluster);
        let mut tried = Vec::new();
        match stream.request_headers(&request, ends(&request)) {
            Flow::Continue => {}
            Flow::Reply(reply) => {
                let response = Response { headers: reply.headers, body: reply.body };
                return Outcome { response, tried };
            }
            other => panic!("bloc.outbound: {other:?}"),
        }
        if !ends(&request) {
            assert!(stream.request_body(BODY, true).continues());
        }
        let retry = Retry::read(&request);
        strip(&request, STRIPPED_FROM_REQUESTS.outbound);
        let listed = request.text("x-bloc-endpoints").unwrap_or_default();
        let listed: Vec<&str> = listed.split(',').filter(|server| !server.is_empty()).collect();
        let (mut count, mut used) = (0, 0);
        let response = loop {
            let (server, now_used) = self.place(&listed, used);
            used = now_used;
            count += 1;
            let (attempt, response) = self.attempt(&server, count, &request, &mut network);
            tried.push(server);
            let retried = match &response {
                Some(response) => retry.wants(response),
                None => retry.connect_failure,
            };
            if !retried || count > retry.most {
                let response =
                    response.unwrap_or_else(|| Response::new(503, &[("content-type", "text/plain")], b"no connection"));
                let end = response.body.is_empty();
                strip(&response.headers, STRIPPED_FROM_ANSWERS.outbound);
                assert!(stream.response_headers(&response.headers, end).continues());
                if !end {
                    assert!(stream.response_body(&response.body, true).continues());
                }
                attempt.done();
                break response;
            }
            attempt.done();
        };
        stream.done();
        Outcome { response, tried }
    }

    /// One attempt, its stream still open.
    fn attempt(
        &self,
        server: &str,
        count: usize,
        request: &Headers,
        network: &mut impl FnMut(&str, Headers) -> Option<Response>,
    ) -> (crate::Stream, Option<Response>) {
        let mut attempt = self.attempt.attempt().with_property("xds\0cluster_name", &self.cluster);
        attempt.set_property("upstream\0address", server);
        attempt.set_property("upstream\0request_attempt_count", (count as u64).to_le_bytes());
        assert!(attempt.request_headers(request, ends(request)).continues());
        if !ends(request) {
            assert!(attempt.request_body(BODY, true).continues());
        }
        // On the wire it is a copy: what the server's sidecar changes stays there.
        let sent = Headers::from(request.borrow().clone());
        let response = network(server, sent);
        if let Some(response) = &response {
            let end = response.body.is_empty();
            assert!(attempt.response_headers(&response.headers, end).continues());
            if !end {
                assert!(attempt.response_body(&response.body, true).continues());
            }
        }
        (attempt, response)
    }
}

/// What the request asks Envoy's router to retry.
struct Retry {
    headers: Vec<String>,
    connect_failure: bool,
    most: usize,
}

impl Retry {
    fn read(request: &Headers) -> Self {
        let [on, names, most] = ROUTER_HEADERS.map(|name| request.text(name).unwrap_or_default());
        request.edit(|map| ROUTER_HEADERS.map(|name| map.remove(name)));
        let asks = |what: &str| on.split(',').any(|condition| condition == what);
        let headers =
            if asks("retriable-headers") { names.split(',').map(str::to_owned).collect() } else { Vec::new() };
        let any = !on.is_empty();
        let most = if any { most.parse().unwrap_or(DEFAULT_RETRIES) } else { 0 };
        Self { headers, connect_failure: asks("connect-failure"), most }
    }

    fn wants(&self, response: &Response) -> bool {
        self.headers.iter().any(|name| response.headers.borrow().get(name).is_some())
    }
}

/// The sidecar of a server, as one of its threads has it.
pub struct Server {
    inbound: Root,
}

impl Server {
    /// Puts the filter into a VM.
    ///
    /// # Errors
    /// The configuration was refused.
    pub fn new(vm: &Vm, configuration: &str) -> Result<Self, Refused> {
        Ok(Self { inbound: vm.root("bloc.inbound", configuration)? })
    }

    /// The root context.
    pub fn root(&self) -> &Root {
        &self.inbound
    }

    /// Takes a request without a body to the application, unless the filter answers it.
    ///
    /// # Panics
    /// The filter made a call that Envoy refuses, or held the request (a test of that works with streams).
    pub fn handle(&self, request: impl Into<Headers>, application: impl FnOnce(&Headers) -> Response) -> Response {
        let request = request.into();
        let mut stream = self.inbound.stream();
        let response = match stream.request_headers(&request, true) {
            Flow::Continue => {
                strip(&request, STRIPPED_FROM_REQUESTS.inbound);
                let response = application(&request);
                strip(&response.headers, STRIPPED_FROM_ANSWERS.inbound);
                let end = response.body.is_empty();
                assert!(stream.response_headers(&response.headers, end).continues());
                if !end {
                    assert!(stream.response_body(&response.body, true).continues());
                }
                response
            }
            Flow::Reply(reply) => Response { headers: reply.headers, body: reply.body },
            other => panic!("bloc.inbound: {other:?}"),
        };
        stream.done();
        response
    }
}
