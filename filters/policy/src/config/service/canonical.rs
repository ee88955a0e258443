//! The meaning of a service as text, the same in every build that knows its parameters.

use super::{CapacityParameters, ServiceParameters, ServiceSpec};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

impl ServiceParameters {
    /// The values that differ from those of an empty spec, as text by name.
    ///
    /// Two services are equal if and only if these are. The names are those of the spec, with a
    /// key after a dot where there are several values (`endpointsByPort.80`). The texts depend
    /// neither on the notation in the spec nor on how the standard library prints a value:
    /// durations are nanoseconds, ratios the bits of an `f64` in hexadecimal. They are for
    /// comparisons, not for people. Changing a name or a text gives every service that has the
    /// value another version. A new parameter changes only the services that use it.
    pub fn canonical(&self) -> BTreeMap<String, String> {
        let mut texts = self.texts();
        if let Ok(default) = ServiceSpec::default().validate() {
            let default = default.texts();
            texts.retain(|name, text| default.get(name) != Some(text));
        }
        texts
    }

    /// All values by name. An absent value has a text too: otherwise a present default could not be
    /// told from an absent value.
    fn texts(&self) -> BTreeMap<String, String> {
        // Destructured in full, so that a new field cannot be forgotten.
        let Self {
            routing,
            retries,
            route_retries,
            retry_budget,
            bounce_price,
            reset_interval,
            capacity,
            headroom,
            max_chips,
            concurrency,
            hold,
            max_queue_wait,
            body_limit,
            stream_idle,
            slo,
            slo_grace,
            orca,
            debug_headers,
            endpoints,
            endpoints_by_port,
        } = self;
        let single = [
            ("routing", routing.name().to_owned()),
            ("retries", retries.to_string()),
            ("routeRetries", route_retries.default().to_string()),
            ("retryBudget", ratio(retry_budget.get())),
            ("bouncePrice", ratio(*bounce_price)),
            ("resetInterval", nanoseconds(*reset_interval)),
            ("capacity", capacity_text(*capacity)),
            ("headroom", ratio(headroom.get())),
            ("maxChips", max_chips.to_string()),
            ("concurrency", optional(concurrency.map(|places| places.get().to_string()))),
            ("hold", truth(*hold)),
            ("maxQueueWait", nanoseconds(*max_queue_wait)),
            ("bodyLimit", body_limit.to_string()),
            ("streamIdle", nanoseconds(*stream_idle)),
            ("slo", optional(slo.map(nanoseconds))),
            ("sloGrace", nanoseconds(*slo_grace)),
            ("orca", truth(*orca)),
            ("debugHeaders", truth(*debug_headers)),
            ("endpoints", optional(endpoints.as_deref().map(addresses))),
        ];
        let single = single.into_iter().map(|(name, text)| (name.to_owned(), text));
        let retries_by_name = (route_retries.named())
            .map(|(name, retries)| (format!("virtualServiceRetries.{name}"), retries.to_string()));
        let endpoints_by_port =
            endpoints_by_port.iter().map(|(port, list)| (format!("endpointsByPort.{port}"), addresses(list)));
        single.chain(retries_by_name).chain(endpoints_by_port).collect()
    }
}

fn capacity_text(capacity: CapacityParameters) -> String {
    match capacity {
        CapacityParameters::Unlimited => "unlimited".to_owned(),
        CapacityParameters::Static(limit) => format!("static {}", limit.get()),
        CapacityParameters::PerCore { per_core, limit } => {
            format!("per core {} {}", ratio(per_core), optional(limit.map(|limit| limit.get().to_string())))
        }
        CapacityParameters::Average(interval) => format!("average {}", nanoseconds(interval)),
        CapacityParameters::Slo(slo) => format!("slo {}", nanoseconds(slo)),
    }
}

fn nanoseconds(duration: Duration) -> String {
    duration.as_nanos().to_string()
}

fn ratio(ratio: f64) -> String {
    // -0 equals 0, and their sum is 0.
    format!("{:016x}", (ratio + 0.0).to_bits())
}

fn truth(value: bool) -> String {
    (if value { "true" } else { "false" }).to_owned()
}

fn optional(text: Option<String>) -> String {
    text.unwrap_or_else(|| "none".to_owned())
}

/// In the order of the parameters, which are sorted.
fn addresses(list: &[SocketAddr]) -> String {
    list.iter().map(|one| address(*one)).collect::<Vec<_>>().join(",")
}

fn address(address: SocketAddr) -> String {
    match address {
        SocketAddr::V4(v4) => format!("{:08x}:{}", u32::from(*v4.ip()), v4.port()),
        SocketAddr::V6(v6) => {
            format!("{:032x}%{}:{}", u128::from(*v6.ip()), v6.scope_id(), v6.port())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn canonical(json: &str) -> Vec<(String, String)> {
        let spec: ServiceSpec = serde_json::from_str(json).unwrap();
        spec.validate().unwrap().canonical().into_iter().collect()
    }

    fn pairs(expected: &[(&str, &str)]) -> Vec<(String, String)> {
        expected.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
    }

    #[test]
    fn omits_parameters_that_have_their_default() {
        assert_eq!(canonical("{}"), []);
        assert_eq!(canonical(r#"{"retries": 3, "resetInterval": "1000ms", "hold": true, "routing": "bloc"}"#), []);
    }

    #[test]
    fn writes_values_exactly_and_sorts_them_by_name() {
        let json = r#"{"bouncePrice": 0.5, "sloGrace": "3ns", "slo": "1500us", "headroom": 0.5, "capacity": {"estimator": "slo", "slo": "2s"},
            "concurrency": 4, "endpoints": ["[::1]:80", "10.0.0.2:81", "10.0.0.2:80"],
            "endpointsByPort": {"80": [], "443": ["1.2.3.4:5"]}, "virtualServiceRetries": {"b/x": 1, "a/y": 0}}"#;
        let expected = [
            ("bouncePrice", "3fe0000000000000"),
            ("capacity", "slo 2000000000"),
            ("concurrency", "4"),
            ("endpoints", "0a000002:80,0a000002:81,00000000000000000000000000000001%0:80"),
            ("endpointsByPort.443", "01020304:5"),
            ("endpointsByPort.80", ""),
            ("headroom", "3fe0000000000000"),
            ("hold", "true"),
            ("slo", "1500000"),
            ("sloGrace", "3"),
            ("virtualServiceRetries.a/y", "0"),
            ("virtualServiceRetries.b/x", "1"),
        ];
        assert_eq!(canonical(json), pairs(&expected));
    }

    #[test]
    fn writes_each_routing_as_a_user_does() {
        for routing in ["random", "round_robin", "least_request", "mu", "bid"] {
            let json = format!(r#"{{"routing": "{routing}", "hold": false}}"#);
            assert_eq!(canonical(&json), pairs(&[("routing", routing)]));
        }
    }

    #[test]
    fn writes_a_capacity_per_core_apart_from_one_that_is_fixed() {
        for (capacity, text) in [
            (r#"{"estimator": "static", "limit": 10}"#, "static 10"),
            (r#"{"estimator": "static", "perCore": 8}"#, "per core 4020000000000000 none"),
            (r#"{"estimator": "static", "perCore": 0.5, "limit": 10}"#, "per core 3fe0000000000000 10"),
        ] {
            assert_eq!(canonical(&format!(r#"{{"capacity": {capacity}}}"#)), pairs(&[("capacity", text)]));
        }
    }

    #[test]
    fn equal_values_have_equal_texts() {
        let zero = canonical(r#"{"retryBudget": 0}"#);
        assert_eq!(zero, pairs(&[("retryBudget", "0000000000000000")]));
        assert_eq!(canonical(r#"{"retryBudget": -0.0}"#), zero);
        assert_eq!(
            canonical(r#"{"endpoints": []}"#),
            pairs(&[("endpoints", "")]),
            "an empty list is not the same as no list"
        );
    }
}
