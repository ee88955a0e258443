//! The messages of agents and replicas.

use crate::part::Part;
use serde::{Deserialize, Serialize};

pub const LEASE_PATH: &str = "/v1/lease";

/// A request for one application. All parts are 0 if the node has left it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Ask {
    /// `namespace/name`.
    pub name: String,
    /// The number of falls in this life.
    pub number: u64,
    /// What the node holds.
    pub part: Part,
    /// What its containers could use now, with some slack.
    pub wants: Part,
    /// Its containers' guaranteed minimum.
    pub least: Part,
    /// The sum of the containers' own limits; none: one is unlimited, or the application's limit
    /// may exceed them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub own: Option<Part>,
}

impl Ask {
    /// Whether the node holds, wants and keeps nothing.
    pub fn is_nothing(&self) -> bool {
        [self.part, self.wants, self.least] == [Part::ZERO; 3]
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Asks {
    pub node: String,
    /// The number of the agent's start: each start has a larger one.
    pub life: u64,
    pub apps: Vec<Ask>,
}

/// The answer of a replica for one application.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Told {
    /// `namespace/name`.
    pub name: String,
    /// The life and number that this is about. If they are later than the agent's, the agent must
    /// start a later life.
    pub life: u64,
    pub number: u64,
    /// What the node holds.
    pub part: Part,
    /// The part to shrink to, because others need the rest.
    pub goal: Part,
}

/// The answer of a replica, without applications whose record it could not write.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tolds {
    pub apps: Vec<Told>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asks_are_read_strictly() {
        let text = r#"{"node":"n1","life":1764200000000,"apps":[{"name":"shop/checkout","number":3,"part":250000,"wants":300000,"least":50000,"own":400000}]}"#;
        let asks: Asks = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&asks).unwrap(), text);
        let text = text.replace(r#","own":400000"#, "");
        let asks: Asks = serde_json::from_str(&text).unwrap();
        assert_eq!((asks.apps[0].own, serde_json::to_string(&asks).unwrap()), (None, text.clone()));
        for (old, new) in [
            (r#""life""#, r#""more":1,"life""#),
            (r#""number""#, r#""more":1,"number""#),
            (r#""wants":300000,"#, ""),
            ("250000", "-1"),
            ("250000", "4294967296"),
            ("1764200000000", "1.5"),
        ] {
            assert!(serde_json::from_str::<Asks>(&text.replace(old, new)).is_err(), "{new} for {old}");
        }
    }

    #[test]
    fn tolds_may_have_fields_of_a_later_version() {
        let text = r#"{"apps":[{"name":"shop/checkout","life":1764200000000,"number":3,"part":300000,"goal":250000}]}"#;
        let tolds: Tolds = serde_json::from_str(text).unwrap();
        assert_eq!(serde_json::to_string(&tolds).unwrap(), text);
        let later = text.replace(r#""goal""#, r#""more":1,"goal""#).replace(r#""apps""#, r#""more":{},"apps""#);
        assert_eq!(serde_json::from_str::<Tolds>(&later).unwrap(), tolds);
    }
}
