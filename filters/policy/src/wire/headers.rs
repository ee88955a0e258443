//! The names of the headers that the filters read, write and strip, in lower case.

/// The longest expected response time that an attempt accepts, in milliseconds.
pub const BID: &str = "x-bloc-bid";
/// A server's load report.
pub const LOAD: &str = "x-bloc-load";
/// The load report in the format of other servers and balancers.
pub const ORCA: &str = "endpoint-load-metrics";
/// Why a request was rejected, for people.
pub const WHY: &str = "x-bloc-why";
/// The ordered servers of a request; never leaves its Envoy.
pub const ENDPOINTS: &str = "x-bloc-endpoints";
/// Why a request was rejected before the application saw it.
pub const REJECT: &str = "x-bloc-reject";

/// In answers of a server that wants no requests: Envoy's health checks then treat it as unhealthy
/// or degraded, but filters cannot see their results.
pub const MARKS: [&str; 2] = ["x-envoy-immediate-health-check-fail", "x-envoy-degraded"];

/// The length of the body in bytes.
pub const CONTENT_LENGTH: &str = "content-length";
/// The type of the body.
pub const CONTENT_TYPE: &str = "content-type";
/// Whether the client waits to be asked for the body.
pub const EXPECT: &str = "expect";
/// Envoy's router: the timeout in milliseconds.
pub const EXPECTED_TIMEOUT: &str = "x-envoy-expected-rq-timeout-ms";
/// Envoy's router: retry conditions.
pub const RETRY_ON: &str = "x-envoy-retry-on";
/// Envoy's router: response headers that trigger a retry.
pub const RETRIABLE_HEADER_NAMES: &str = "x-envoy-retriable-header-names";
/// Envoy's router: prevents a retry of this answer, except on `envoy-ratelimited`.
pub const RATE_LIMITED: &str = "x-envoy-ratelimited";
/// Envoy's router: the number of retries.
pub const MAX_RETRIES: &str = "x-envoy-max-retries";
