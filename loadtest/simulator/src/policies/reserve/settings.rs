//! What callers and servers of the routing `reserve` are set to, and what goes wrong for them.

use serde::{Serialize, Serializer};
use std::time::Duration;

/// The settings of `reserve`. Nothing goes wrong by default.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Reserving {
    /// Servers at which a request reserves a place at once, `d`; 1 to 10. `best_of` looks at as
    /// many.
    pub servers: u32,
    /// Whether the first look is a question and not the request: it costs one more round trip, and
    /// the request itself is never sent twice.
    pub question: bool,
    /// Whether callers know the servers' speeds, and ask them in proportion.
    pub weighs: bool,
    /// How long a server keeps a place for a grant: several times the way there and back.
    #[serde(serialize_with = "time")]
    pub keep: Duration,
    /// How long a caller waits for the first grant until it reserves elsewhere. Only a caller whose
    /// grants were all lost needs it, so it is longer than any queue.
    #[serde(serialize_with = "time")]
    pub patience: Duration,
    /// Rounds of reservations, then the request goes anywhere without a limit; 1 to 5.
    pub rounds: u8,
    /// The share of the cancellations, refusals and grants that is lost; 0 to 1.
    pub lost: f64,
    /// The share of the grants at which the caller dies, silently: its request is gone, and nobody
    /// cancels its other reservations; 0 to 1.
    pub callers_die: f64,
}

impl Default for Reserving {
    fn default() -> Self {
        Self {
            servers: 3,
            question: false,
            weighs: false,
            keep: Duration::from_millis(10),
            patience: Duration::from_secs(10),
            rounds: 3,
            lost: 0.0,
            callers_die: 0.0,
        }
    }
}

fn time<S: Serializer>(value: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&humantime::format_duration(*value))
}
