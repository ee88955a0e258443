//! The names of the headers that the filters read, write and strip.

pub use bloc_policy::bid::BID_HEADER as BID;
pub use bloc_policy::load_report::LOAD_HEADER as LOAD;
pub use bloc_policy::orca::ORCA_HEADER as ORCA;
pub use bloc_policy::why::WHY_HEADER as WHY;

/// The ordered servers of a request; lives inside one Envoy only.
pub const ENDPOINTS: &str = "x-bloc-endpoints";
/// Why a request was bounced before the application saw it.
pub const REJECT: &str = "x-bloc-reject";

/// Envoy's router: how long it waits for the answer, in milliseconds.
pub const EXPECTED_TIMEOUT: &str = "x-envoy-expected-rq-timeout-ms";
/// Envoy's router: on what to retry.
pub const RETRY_ON: &str = "x-envoy-retry-on";
/// Envoy's router: which response headers ask for a retry.
pub const RETRIABLE_HEADER_NAMES: &str = "x-envoy-retriable-header-names";
/// Envoy's router: how often.
pub const MAX_RETRIES: &str = "x-envoy-max-retries";
