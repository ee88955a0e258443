//! Who sets the shares.

use serde::Serialize;

/// A way to set shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum QosCase {
    /// They stay as the `requests` give them.
    Shares,
    /// The node agent.
    Agent,
}

impl QosCase {
    /// In the order of tables.
    pub const ALL: [Self; 2] = [Self::Shares, Self::Agent];

    /// Its name on the command line and in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Shares => "qos-shares",
            Self::Agent => "qos-agent",
        }
    }
}
