//! Services as texts that can be compared.

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
    assert_eq!(canonical(r#"{"retries": 3, "resetInterval": "1000ms", "hold": false, "routing": "bid"}"#), []);
}

#[test]
fn writes_values_exactly_and_sorts_them_by_name() {
    let json = r#"{"bouncePrice": 0.5, "slo": "1500us", "headroom": 0.5, "capacity": {"estimator": "slo", "slo": "2s"},
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
        ("slo", "1500000"),
        ("virtualServiceRetries.a/y", "0"),
        ("virtualServiceRetries.b/x", "1"),
    ];
    assert_eq!(canonical(json), pairs(&expected));
}

#[test]
fn writes_each_routing_as_a_user_does() {
    for routing in ["least_request", "mu", "bloc"] {
        let json = format!(r#"{{"routing": "{routing}", "hold": false}}"#);
        assert_eq!(canonical(&json), pairs(&[("routing", routing)]));
    }
    for baseline in ["random", "round_robin"] {
        let json = format!(r#"{{"routing": "{baseline}"}}"#);
        assert_eq!(canonical(&json), pairs(&[("routing", "least_request")]), "Envoy has {baseline}");
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
