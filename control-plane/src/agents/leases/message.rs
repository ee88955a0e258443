//! What an agent asks, checked.

use bloc_daemon::ranges::{app, count, name, refused, within};
use bloc_leases::{Ask, Asks, MOST_COUNT, Part};
use bloc_policy::config::ConfigError;
use std::collections::BTreeSet;

/// The most applications of a message.
const MOST_APPS: usize = 100;

/// Reads and checks a message.
///
/// # Errors
/// The first value that is not allowed, with its path and what is allowed.
pub fn read(body: &[u8]) -> Result<Asks, ConfigError> {
    let asks: Asks = ConfigError::read_json(body)?;
    name("node", &asks.node)?;
    within("life", asks.life, 0, MOST_COUNT)?;
    count("apps", asks.apps.len(), MOST_APPS)?;
    let mut names = BTreeSet::new();
    for (index, Ask { name, number, part, .. }) in asks.apps.iter().enumerate() {
        app(format_args!("apps[{index}].name"), name)?;
        within(format_args!("apps[{index}].number"), *number, 0, MOST_COUNT)?;
        within(format_args!("apps[{index}].part"), part.get(), 0, Part::WHOLE.get())?;
        if !names.insert(name) {
            return Err(refused(format_args!("apps[{index}].name"), format!("{name:?}"), "each application once"));
        }
    }
    Ok(asks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn message(member: &str, value: Value) -> Value {
        let mut ask = json!({"name": "shop/checkout", "number": 3, "part": 250_000, "wants": 300_000, "least": 1});
        ask[member] = value;
        json!({"node": "n1", "life": 7, "apps": [ask]})
    }

    fn said(message: &Value) -> Result<Asks, String> {
        read(message.to_string().as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn takes_all_that_is_within_the_ranges() {
        let (node, app) = ("a".repeat(253), format!("{}/{}", "a-9".repeat(21), "a".repeat(176)));
        for good in [
            message("own", json!(400_000)),
            message("part", json!(1_000_000)),
            message("wants", json!(u32::MAX)),
            message("number", json!(MOST_COUNT)),
            message("name", json!("a/a.b-9.c")),
            message("name", json!(app)),
            json!({"node": node, "life": MOST_COUNT, "apps": []}),
        ] {
            assert!(said(&good).is_ok(), "{good} {:?}", said(&good));
        }
    }

    #[test]
    fn a_refusal_names_path_value_and_what_is_allowed() {
        let long = format!("a/{}", "a".repeat(239));
        let many: Vec<Value> = (0..101).map(|n| message("name", json!(format!("a/a{n}")))["apps"][0].clone()).collect();
        let one = message("name", json!("a/a"))["apps"][0].clone();
        for (bad, path, value, allowed) in [
            (json!({"node": "", "life": 1, "apps": []}), "node", "\"\"", "a to z"),
            (json!({"node": "a/b", "life": 1, "apps": []}), "node", "\"a/b\"", "a to z"),
            (json!({"node": "a".repeat(254), "life": 1, "apps": []}), "node", "\"aaa", "1 to 253"),
            (json!({"node": "n", "life": 1u64 << 53, "apps": []}), "life", "9007199254740992", "0 to 9007199254740991"),
            (json!({"node": "n", "life": 1, "apps": many}), "apps", "a list of 101 entries", "at most 100"),
            (json!({"node": "n", "life": 1, "apps": [one, one]}), "apps[1].name", "\"a/a\"", "once"),
            (message("name", json!("checkout")), "apps[0].name", "\"checkout\"", "namespace/name"),
            (message("name", json!("a.b/c")), "apps[0].name", "\"a.b/c\"", "no dots"),
            (message("name", json!("a/b..c")), "apps[0].name", "\"a/b..c\"", "beside each dot"),
            (message("name", json!("a/b-")), "apps[0].name", "\"a/b-\"", "at each end"),
            (message("name", json!("a/B")), "apps[0].name", "\"a/B\"", "a to z"),
            (message("name", json!("a/b/c")), "apps[0].name", "\"a/b/c\"", "namespace/name"),
            (message("name", json!(format!("{}/a", "a".repeat(64)))), "apps[0].name", "\"aaa", "63 bytes"),
            (message("name", json!(long)), "apps[0].name", "\"a/aaa", "240 bytes"),
            (message("part", json!(1_000_001)), "apps[0].part", "1000001", "0 to 1000000"),
            (message("number", json!(u64::MAX)), "apps[0].number", "18446744073709551615", "0 to 9007199254740991"),
        ] {
            let error = said(&bad).unwrap_err();
            assert!(error.starts_with(&format!("{path}: {value}")), "{error}");
            assert!(error.contains(" is not allowed; allowed: ") && error.contains(allowed), "{error}");
        }
        for (bad, start) in [
            (message("part", json!(-1)), "apps[0].part: invalid value"),
            (message("part", json!(1.5)), "apps[0].part: invalid type"),
            (message("number", Value::Null), "apps[0].number: invalid type"),
            (message("more", json!(1)), "apps[0].more: unknown field"),
            (json!({"node": "n", "apps": []}), ".: missing field `life`"),
        ] {
            let error = said(&bad).unwrap_err();
            assert!(error.starts_with(start), "{error}");
        }
    }
}
