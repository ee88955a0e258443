//! A whole request: what Envoy's router does between the filters, as far as this project depends on
//! it.
//!
//! [`Caller`] is the caller's sidecar: `bloc.outbound`, then the router. The router tries the
//! servers of `x-bloc-endpoints` in order, each attempt through `bloc.attempt`. It removes the
//! headers that the route configuration names, and skips servers that the cluster does not have.
//! After the list, the fallback policy takes the hosts in turn. [`Server`](server::Server) is the
//! server's sidecar: `bloc.inbound`, then the application. The network between them is a closure of
//! the test.

pub mod server;

use crate::cost::Cost;
use crate::headers::Headers;
use crate::root::Root;
use crate::stream::Flow;
use crate::vm::{Refused, Vm};
use std::cell::{Cell, RefCell};

/// Request headers that tell Envoy's router what to retry; it does not pass them on.
const ROUTER_HEADERS: [&str; 3] = ["x-envoy-retry-on", "x-envoy-retriable-header-names", "x-envoy-max-retries"];
/// The headers that the route configurations remove, as in the project's manifests: from a request
/// after the filters before the router, from a response before those filters.
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

/// The body of requests, whatever length they claim.
const BODY: &[u8] = b"a body";

/// Whether a request ends with its headers.
fn ends(request: &Headers) -> bool {
    ["content-length", "content-type", "transfer-encoding"].iter().all(|name| request.text(name).is_none())
}

/// How often Envoy's router retries if a request asks for retries without a number.
const DEFAULT_RETRIES: usize = 1;

/// The retry policy of a route: what Envoy's router retries even if the request asks for nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct RetryPolicy {
    /// The conditions: `connect-failure`, `5xx`, `retriable-headers`.
    pub on: &'static str,
    /// The number of retries; none: one.
    pub retries: Option<usize>,
}

/// A response on the wire.
#[derive(Clone, Debug)]
pub struct Response {
    /// Its headers, `:status` among them.
    pub headers: Headers,
    /// Its body.
    pub body: Vec<u8>,
    /// Its trailers, if it has any.
    pub trailers: Option<Headers>,
}

impl Response {
    /// A response with this status, these headers and this body.
    pub fn new(status: u32, headers: &[(&str, &str)], body: &[u8]) -> Self {
        let all = Headers::new(&[(":status", &status.to_string())]);
        all.edit(|map| headers.iter().for_each(|(name, value)| map.add(name, value)));
        Self { headers: all, body: body.to_vec(), trailers: None }
    }

    /// Adds trailers.
    #[must_use]
    pub fn with_trailers(self, trailers: &[(&str, &str)]) -> Self {
        Self { trailers: Some(Headers::new(trailers)), ..self }
    }

    /// The HTTP status; 0 if there is none.
    pub fn status(&self) -> u32 {
        self.headers.text(":status").and_then(|status| status.parse().ok()).unwrap_or(0)
    }
}

/// The result of a request.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What the caller's application receives.
    pub response: Response,
    /// The servers that were tried, in order.
    pub tried: Vec<String>,
}

/// A caller's sidecar on one thread.
pub struct Caller {
    outbound: Root,
    attempt: Root,
    cluster: String,
    hosts: RefCell<Vec<String>>,
    next_host: Cell<usize>,
    policy: RetryPolicy,
}

impl Caller {
    /// Puts the filters into a VM. `hosts`: the servers (`ip:port`) that Envoy's cluster of this
    /// name has.
    ///
    /// # Errors
    /// The configuration was refused.
    pub fn new(vm: &Vm, cluster: &str, configuration: &str, hosts: &[&str]) -> Result<Self, Refused> {
        let (outbound, attempt) = (vm.root("bloc.outbound", configuration)?, vm.root("bloc.attempt", "")?);
        let hosts = RefCell::new(hosts.iter().map(ToString::to_string).collect());
        let (cluster, next_host, policy) = (cluster.to_owned(), Cell::new(0), RetryPolicy::default());
        Ok(Self { outbound, attempt, cluster, hosts, next_host, policy })
    }

    /// Sets the route's retry policy; without it, the route has none.
    #[must_use]
    pub fn with_policy(self, policy: RetryPolicy) -> Self {
        Self { policy, ..self }
    }

    /// The VM of both filters.
    pub fn vm(&self) -> &Vm {
        self.outbound.vm()
    }

    /// Changes the hosts of the cluster.
    pub fn edit_hosts(&self, work: impl FnOnce(&mut Vec<String>)) {
        work(&mut self.hosts.borrow_mut());
    }

    /// What `bloc.outbound` and `bloc.attempt` have cost since the last reading.
    pub fn take_costs(&self) -> [Cost; 2] {
        [self.outbound.take_cost(), self.attempt.take_cost()]
    }

    /// The server of the next attempt, and how much of the list is used up.
    fn place(&self, listed: &[String], used: usize) -> (String, usize) {
        let hosts = self.hosts.borrow();
        for (place, server) in listed.iter().enumerate().skip(used) {
            if hosts.iter().any(|host| host == server) {
                return (server.clone(), place + 1);
            }
        }
        let next = self.next_host.get();
        self.next_host.set(next + 1);
        let host = hosts.get(next % hosts.len().max(1)).expect("a cluster with hosts");
        (host.clone(), listed.len())
    }

    /// Sends a request, with a body if its headers announce one. `network` carries an attempt to a
    /// server and returns its response; none if there is no connection.
    ///
    /// # Panics
    /// A filter made a call that Envoy refuses, or paused the request; or the cluster has no hosts.
    pub fn send(
        &self,
        request: impl Into<Headers>,
        mut network: impl FnMut(&str, Headers) -> Option<Response>,
    ) -> Outcome {
        let mut request = match self.begin(request) {
            Ok(request) => request,
            Err(response) => return Outcome { response, tried: Vec::new() },
        };
        loop {
            let attempt = match request.attempt() {
                Ok(attempt) => attempt,
                Err(last) => return request.end(*last),
            };
            let response = network(attempt.server(), attempt.sent());
            if let Some(last) = request.answer(attempt, response) {
                return request.end(last);
            }
        }
    }

    /// A request arrives and passes `bloc.outbound`. Filters between that and the router may pause
    /// it here.
    ///
    /// # Errors
    /// No error: the response, if `bloc.outbound` answers the request.
    ///
    /// # Panics
    /// The filter made a call that Envoy refuses, or paused the request.
    pub fn begin(&self, request: impl Into<Headers>) -> Result<Request<'_>, Response> {
        let request = request.into();
        let mut stream = self.outbound.stream().with_property("xds\0cluster_name", &self.cluster);
        match stream.request_headers(&request, ends(&request)) {
            Flow::Continue => {}
            Flow::Reply(reply) => return Err(Response { headers: reply.headers, body: reply.body, trailers: None }),
            other => panic!("bloc.outbound: {other:?}"),
        }
        if !ends(&request) {
            assert!(stream.request_body(BODY, true).continues());
        }
        let retry = Retry::read(self.policy, &request);
        strip(&request, STRIPPED_FROM_REQUESTS.outbound);
        Ok(Request { caller: self, stream, headers: request, retry, listed: None, used: 0, tried: Vec::new() })
    }
}

/// A request under way, among others: anything may happen between its steps.
pub struct Request<'a> {
    caller: &'a Caller,
    stream: crate::Stream,
    headers: Headers,
    retry: Retry,
    /// The list as Envoy reads it, once.
    listed: Option<Vec<String>>,
    used: usize,
    tried: Vec<String>,
}

/// An attempt under way.
pub struct Attempt {
    stream: crate::Stream,
    server: String,
    sent: Headers,
}

impl Attempt {
    /// The server that it goes to.
    pub fn server(&self) -> &str {
        &self.server
    }

    /// Its headers on the wire.
    pub fn sent(&self) -> Headers {
        self.sent.clone()
    }
}

/// A response on its way to the client. Filters between the router and `bloc.outbound` may pause it
/// here.
pub struct Last {
    /// The response, as the router passes it on.
    pub response: Response,
    attempt: Attempt,
}

impl Request<'_> {
    /// The router sends the request, for the first time or again.
    ///
    /// # Errors
    /// No error: the response, if `bloc.attempt` answers the attempt; the router does not retry
    /// that.
    ///
    /// # Panics
    /// The filter made a call that Envoy refuses, or paused the attempt; or the cluster has no
    /// hosts.
    pub fn attempt(&mut self) -> Result<Attempt, Box<Last>> {
        let (caller, headers) = (self.caller, &self.headers);
        let listed = self.listed.get_or_insert_with(|| {
            let list = headers.text("x-bloc-endpoints").unwrap_or_default();
            list.split(',').filter(|server| !server.is_empty()).map(str::to_owned).collect()
        });
        let server;
        (server, self.used) = caller.place(listed, self.used);
        let mut stream = caller.attempt.attempt().with_property("xds\0cluster_name", &caller.cluster);
        stream.set_property("upstream\0address", &server);
        stream.set_property("upstream\0request_attempt_count", (self.tried.len() as u64 + 1).to_le_bytes());
        match stream.request_headers(headers, ends(headers)) {
            Flow::Continue => {}
            Flow::Reply(reply) => {
                let response = Response { headers: reply.headers, body: reply.body, trailers: None };
                let attempt = Attempt { stream, server, sent: Headers::default() };
                return Err(Box::new(Last { response, attempt }));
            }
            other => panic!("bloc.attempt: {other:?}"),
        }
        self.tried.push(server.clone());
        if !ends(headers) {
            assert!(stream.request_body(BODY, true).continues());
        }
        // A copy, as on the wire: what the server's sidecar changes stays there.
        let sent = Headers::from(headers.borrow().clone());
        Ok(Attempt { stream, server, sent })
    }

    /// The response to an attempt, or none if there is no connection. Returns none if the router
    /// retries.
    ///
    /// # Panics
    /// The filter made a call that Envoy refuses.
    pub fn answer(&self, mut attempt: Attempt, response: Option<Response>) -> Option<Last> {
        if let Some(response) = &response {
            let end = response.body.is_empty() && response.trailers.is_none();
            assert!(attempt.stream.response_headers(&response.headers, end).continues());
            if !response.body.is_empty() {
                let end = response.trailers.is_none();
                assert!(attempt.stream.response_body(&response.body, end).continues());
            }
            if let Some(trailers) = &response.trailers {
                assert!(attempt.stream.response_trailers(trailers).continues());
            }
        }
        let retried = match &response {
            Some(response) => self.retry.wants(response),
            None => self.retry.asks("connect-failure"),
        };
        if retried && self.tried.len() <= self.retry.most {
            attempt.stream.done();
            return None;
        }
        let response =
            response.unwrap_or_else(|| Response::new(503, &[("content-type", "text/plain")], b"no connection"));
        strip(&response.headers, STRIPPED_FROM_ANSWERS.outbound);
        Some(Last { response, attempt })
    }

    /// The response passes `bloc.outbound` and reaches the client.
    ///
    /// # Panics
    /// The filter made a call that Envoy refuses.
    pub fn end(mut self, last: Last) -> Outcome {
        let Last { response, attempt } = last;
        let end = response.body.is_empty();
        assert!(self.stream.response_headers(&response.headers, end).continues());
        if !end {
            assert!(self.stream.response_body(&response.body, true).continues());
        }
        attempt.stream.done();
        self.stream.done();
        Outcome { response, tried: self.tried }
    }
}

/// What Envoy's router retries: on the conditions of the route and of the request together, as
/// often as the request says, or else the route.
struct Retry {
    on: String,
    headers: Vec<String>,
    most: usize,
}

impl Retry {
    fn read(policy: RetryPolicy, request: &Headers) -> Self {
        let [on, names, most] = ROUTER_HEADERS.map(|name| request.text(name).unwrap_or_default());
        request.edit(|map| ROUTER_HEADERS.map(|name| map.remove(name)));
        let most = most.parse().ok().or(policy.retries).unwrap_or(DEFAULT_RETRIES);
        let headers = names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
        Self { on: format!("{},{on}", policy.on), headers, most }
    }

    fn asks(&self, what: &str) -> bool {
        self.on.split(',').any(|condition| condition == what)
    }

    fn wants(&self, response: &Response) -> bool {
        let has = |name: &str| response.headers.borrow().get(name).is_some();
        if has("x-envoy-ratelimited") {
            return self.asks("envoy-ratelimited");
        }
        self.asks("5xx") && response.status() >= 500
            || self.asks("retriable-headers") && self.headers.iter().any(|name| has(name))
    }
}
