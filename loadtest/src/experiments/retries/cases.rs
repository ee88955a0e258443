//! The cases.

use bloc_mesh::envoy::ROUTE_RETRIES;

/// How the application fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// It answers with status 503.
    Status503,
    /// It answers too late.
    Slow,
    /// It answers after the time of two attempts. Envoy hedges: it lets the first attempt go on.
    Hedged,
    /// It does not fail.
    No,
    /// Nobody listens where the servers were.
    NoConnection,
}

/// A route's retry policy, and a request to an application that fails.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// A description for a reader.
    pub name: &'static str,
    /// The conditions of the route's policy; none: it has no policy.
    pub retry_on: Option<&'static str>,
    /// `num_retries` of the route, and `routeRetries` of the service; none: the defaults of Envoy
    /// and of our filters.
    pub retries: Option<u32>,
    /// Whether the route is from an Istio VirtualService, and `virtualServiceRetries` has the
    /// number instead.
    pub virtual_service: bool,
    /// `per_try_timeout` of the route, in milliseconds.
    pub per_try_timeout_ms: Option<u64>,
    /// `retries` of the service: those after a rejection.
    pub ours: u32,
    /// Headers of the request.
    pub asks: &'static [(&'static str, &'static str)],
    /// How the application fails.
    pub failure: Failure,
}

/// Istio's default policy with 503 among its codes, as until Istio 1.24.
const ISTIO: Case = Case {
    name: "Istio's default policy, two retries",
    retry_on: Some("connect-failure,refused-stream,unavailable,cancelled,retriable-status-codes"),
    retries: Some(ROUTE_RETRIES),
    virtual_service: false,
    per_try_timeout_ms: None,
    ours: 3,
    asks: &[],
    failure: Failure::Status503,
};

const NONE: Case = Case { name: "no policy", retry_on: None, retries: None, ..ISTIO };

/// The cases, in the order of the table.
pub const CASES: [Case; 17] = [
    NONE,
    ISTIO,
    Case { name: "`5xx`, one retry", retry_on: Some("5xx"), retries: Some(1), ..ISTIO },
    Case { name: "`5xx`, no number", retry_on: Some("5xx"), retries: None, ..ISTIO },
    Case { name: "`5xx`, ten retries", retry_on: Some("5xx"), retries: Some(10), ..ISTIO },
    Case {
        name: "`5xx`, five retries of a VirtualService",
        retry_on: Some("5xx"),
        retries: Some(5),
        virtual_service: true,
        ..ISTIO
    },
    Case {
        name: "two retries, `perTryTimeout` 0.3 s, slow application",
        retry_on: Some("5xx"),
        per_try_timeout_ms: Some(300),
        failure: Failure::Slow,
        ..ISTIO
    },
    Case {
        name: "one retry, hedged after 0.3 s, slow application",
        retry_on: Some("5xx"),
        retries: Some(1),
        per_try_timeout_ms: Some(300),
        failure: Failure::Hedged,
        ..ISTIO
    },
    Case {
        name: "`envoy-ratelimited`, `x-envoy-max-retries: 0`, no failure",
        retry_on: Some("envoy-ratelimited"),
        asks: &[("x-envoy-max-retries", "0")],
        failure: Failure::No,
        ..ISTIO
    },
    Case { name: "Istio's default, no connection", failure: Failure::NoConnection, ..ISTIO },
    Case { name: "Istio's default, `retries: 0` of ours", ours: 0, ..ISTIO },
    Case { name: "Istio's default, `x-envoy-max-retries: 0`", asks: &[("x-envoy-max-retries", "0")], ..ISTIO },
    Case { name: "Istio's default, `x-envoy-max-retries: 6`", asks: &[("x-envoy-max-retries", "6")], ..ISTIO },
    Case { name: "`x-envoy-retry-on: 5xx`", asks: &[("x-envoy-retry-on", "5xx")], ..NONE },
    Case {
        name: "`x-envoy-retry-on: 5xx`, `x-envoy-max-retries: 4`",
        asks: &[("x-envoy-retry-on", "5xx"), ("x-envoy-max-retries", "4")],
        ..NONE
    },
    Case {
        name: "`x-envoy-retry-on: retriable-status-codes`, 503",
        asks: &[("x-envoy-retry-on", "retriable-status-codes"), ("x-envoy-retriable-status-codes", "503")],
        ..NONE
    },
    Case {
        name: "`x-envoy-retry-on: retriable-headers`, names of its own",
        asks: &[("x-envoy-retry-on", "retriable-headers"), ("x-envoy-retriable-header-names", "x-app,x-other")],
        ..NONE
    },
];
