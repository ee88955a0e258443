//! The names of the headers that the filters read, write and strip, in lower case.

/// The longest expected response time that an attempt accepts, in milliseconds.
pub const BID: &str = "x-bloc-bid";
/// What a server reports of its load.
pub const LOAD: &str = "x-bloc-load";
/// The same in the format that other servers and balancers use.
pub const ORCA: &str = "endpoint-load-metrics";
/// Why a request was rejected, in words for people.
pub const WHY: &str = "x-bloc-why";
/// The ordered servers of a request; lives inside one Envoy only.
pub const ENDPOINTS: &str = "x-bloc-endpoints";
/// Why a request was rejected before the application saw it.
pub const REJECT: &str = "x-bloc-reject";

/// What the answers of a server carry that wants no requests: Envoy's health checks take it for
/// unhealthy or degraded. Those are Envoy's own health checks, whose results a filter cannot see.
pub const MARKS: [&str; 2] = ["x-envoy-immediate-health-check-fail", "x-envoy-degraded"];

/// How many bytes the body has.
pub const CONTENT_LENGTH: &str = "content-length";
/// What the body is.
pub const CONTENT_TYPE: &str = "content-type";
/// Whether the client sends the body only when it is asked to.
pub const EXPECT: &str = "expect";
/// Envoy's router: how long it waits for the answer, in milliseconds.
pub const EXPECTED_TIMEOUT: &str = "x-envoy-expected-rq-timeout-ms";
/// Envoy's router: on what to retry.
pub const RETRY_ON: &str = "x-envoy-retry-on";
/// Envoy's router: which response headers ask for a retry.
pub const RETRIABLE_HEADER_NAMES: &str = "x-envoy-retriable-header-names";
/// Envoy's router: an answer with it is not retried, except on `envoy-ratelimited`.
pub const RATE_LIMITED: &str = "x-envoy-ratelimited";
/// Envoy's router: how often to retry.
pub const MAX_RETRIES: &str = "x-envoy-max-retries";
