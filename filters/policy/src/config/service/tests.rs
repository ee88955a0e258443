//! The parameters of a service: defaults, ranges, and what an error says.

use super::*;

fn refusal(json: &str) -> String {
    let spec: Result<ServicesSpec, _> = ConfigError::read_json(json.as_bytes());
    match spec.and_then(|spec| spec.validate().map(|_| ())) {
        Ok(()) => panic!("accepted: {json}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn an_empty_spec_takes_the_defaults() {
    let parameters = ServiceSpec::default().validate().unwrap();
    assert_eq!(parameters.routing(), RoutingKind::Bid);
    assert_eq!((parameters.retries(), parameters.route_retries()), (3, 1));
    assert_eq!(parameters.reset_interval(), Duration::from_secs(1));
    assert_eq!(parameters.capacity(), CapacityParameters::Unlimited);
    assert_eq!(parameters.headroom(), 0.8);
    assert_eq!(parameters.bounce_price(), 0.2);
    assert_eq!(parameters.endpoints(), None);
    assert_eq!((parameters.body_limit(), parameters.max_queue_wait()), (1_048_576, Duration::from_secs(15)));
    assert_eq!((parameters.hold(), parameters.stream_idle()), (false, Duration::from_secs(1)));
    assert_eq!((parameters.orca(), parameters.debug_headers()), (false, false));
    let spec = ServiceSpec { concurrency: Some(1), orca: Some(false), ..ServiceSpec::default() };
    assert!(!spec.validate().unwrap().orca());
    assert!(!spec.validate().unwrap().hold(), "bloc and bid hold nothing unless told to");
    let mu = ServiceSpec { routing: Some(RoutingKind::Mu), ..spec };
    assert!(mu.validate().unwrap().hold());
    let without_places = ServiceSpec { concurrency: None, ..mu };
    assert!(!without_places.validate().unwrap().hold(), "only with a concurrency there is something to hold");
}

#[test]
fn a_service_name_has_1_to_253_printable_ascii_characters() {
    let validated = |name: &str| {
        let services = BTreeMap::from([(name.to_owned(), ServiceSpec::default())]);
        ServicesSpec { services }.validate().map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!((validated("a"), validated(&"a".repeat(253))), (Ok(()), Ok(())));
    for name in ["".to_owned(), "a".repeat(254), "a b".to_owned(), "ä".to_owned()] {
        let allowed = "allowed: a name of 1 to 253 printable ASCII characters, no spaces";
        let shown = if name.len() < 60 { format!("{name:?}") } else { format!("\"{0}…{0}\"", "a".repeat(28)) };
        assert_eq!(validated(&name), Err(format!("services.{name}: {shown} is not allowed; {allowed}")));
    }
}

#[test]
fn the_price_of_a_bounce_is_0_to_10_execution_times() {
    let price = |bounce_price: f64| {
        let spec = ServiceSpec { bounce_price: Some(bounce_price), ..ServiceSpec::default() };
        spec.validate().map(|parameters| parameters.bounce_price()).map_err(|error| error.to_string())
    };
    assert_eq!([0.0, 0.25, 10.0].map(price), [0.0, 0.25, 10.0].map(Ok));
    for wrong in [-0.01, 10.01, f64::INFINITY, f64::NAN] {
        let refused = format!("bouncePrice: {wrong} is not allowed; allowed: a number from 0 to 10");
        assert_eq!(price(wrong), Err(refused));
    }
    let spec = |price| ServiceSpec { bounce_price: price, ..ServiceSpec::default() };
    assert_eq!(spec(Some(0.5)).or(spec(Some(2.0))).bounce_price, Some(0.5));
    assert_eq!(spec(None).or(spec(Some(2.0))).bounce_price, Some(2.0));
}

#[test]
fn a_validation_error_names_path_value_and_range() {
    assert_eq!(
        refusal(r#"{"services":{"a.b":{"retries":11}}}"#),
        "services.a.b.retries: 11 is not allowed; allowed: 0 to 10"
    );
    assert_eq!(
        refusal(r#"{"services":{"a":{"resetInterval":"2h"}}}"#),
        "services.a.resetInterval: \"2h\" is not allowed; allowed: a duration with its unit (such as 250ms), 1ms to 1h"
    );
    assert_eq!(
        refusal(r#"{"services":{"a":{"headroom":0}}}"#),
        "services.a.headroom: 0 is not allowed; allowed: a number above 0 and at most 1"
    );
    assert_eq!(
        refusal(r#"{"services":{"a":{"capacity":{"estimator":"static","limit":0}}}}"#),
        "services.a.capacity.limit: 0 is not allowed; allowed: 1 to 1000000"
    );
    assert_eq!(
        refusal(r#"{"services":{"a":{"concurrency":0}}}"#),
        "services.a.concurrency: 0 is not allowed; allowed: 1 to 100000"
    );
    assert_eq!(
        refusal(r#"{"services":{"a":{"routeRetries":101}}}"#),
        "services.a.routeRetries: 101 is not allowed; allowed: 0 to 100"
    );
    assert_eq!(
        refusal(r#"{"services":{"a":{"virtualServiceRetries":{"shop/checkout":-1}}}}"#),
        "services.a.virtualServiceRetries.shop/checkout: -1 is not allowed; allowed: 0 to 100"
    );
    for name in ["checkout", "/checkout", "shop/", "shop/checkout/v1"] {
        assert_eq!(
            refusal(&format!(r#"{{"services":{{"a":{{"virtualServiceRetries":{{"{name}":1}}}}}}}}"#)),
            format!("services.a.virtualServiceRetries.{name}: \"{name}\" is not allowed; allowed: namespace/name")
        );
    }
    for bytes in [1023, 1_073_741_825_i64, -1] {
        let text = refusal(&format!(r#"{{"services":{{"a":{{"bodyLimit":{bytes}}}}}}}"#));
        assert_eq!(text, format!("services.a.bodyLimit: {bytes} is not allowed; allowed: 1024 to 1073741824"));
    }
    for field in ["maxQueueWait", "streamIdle", "slo"] {
        let text = refusal(&format!(r#"{{"services":{{"a":{{"{field}":"61m"}}}}}}"#));
        assert!(
            text.starts_with(&format!("services.a.{field}: \"61m\" is not allowed; allowed: a duration")),
            "{text}"
        );
    }
    let text = refusal(r#"{"services":{"a":{"streamIdle":"99ms"}}}"#);
    assert!(text.ends_with("100ms to 1h"), "{text}");
    let text = refusal(r#"{"services":{"a":{"capacity":{"estimator":"slo","slo":"0s"}}}}"#);
    assert!(text.starts_with("services.a.capacity.slo: \"0s\" is not allowed"), "{text}");
    assert_eq!(
        refusal(r#"{"services":{"a":{"endpoints":["1.2.3.4:80","nonsense"]}}}"#),
        "services.a.endpoints[1]: \"nonsense\" is not allowed; allowed: ip:port, such as 10.0.0.1:8080 or [fd00::1]:8080"
    );
    assert_eq!(
        refusal(r#"{"services":{"a":{"endpoints":["1.2.3.4:80","1.2.3.4:80"]}}}"#),
        "services.a.endpoints: 1.2.3.4:80 is not allowed; allowed: each address once"
    );
}

#[test]
fn a_route_has_the_retries_of_its_virtual_service() {
    let json = r#"{"routeRetries":2,"virtualServiceRetries":{"shop/checkout":5}}"#;
    let spec: ServiceSpec = ConfigError::read_json(json.as_bytes()).unwrap();
    let parameters = spec.validate().unwrap();
    let of = |path: &str| parameters.retries_of(path.as_bytes());
    assert!(parameters.has_named_retries());
    assert_eq!(parameters.named_retries().collect::<Vec<_>>(), [("shop/checkout".to_owned(), 5)]);
    assert!(!ServiceSpec::default().validate().unwrap().has_named_retries());
    assert_eq!(of("/apis/networking.istio.io/v1/namespaces/shop/virtual-service/checkout"), 5);
    assert_eq!(of("/apis/networking.istio.io/v1alpha3/namespaces/shop/virtual-service/checkout"), 5);
    assert_eq!(of("/apis/networking.istio.io/v1/namespaces/other/virtual-service/checkout"), 2);
    assert_eq!(of("/apis/networking.istio.io/v1/namespaces/shop/virtual-service/checkout-2"), 2);
    assert_eq!((of(""), parameters.retries_of(b"\xff")), (2, 2));
}

#[test]
fn fields_that_are_not_set_come_from_the_base_spec() {
    let spec = |json: &str| -> ServiceSpec { ConfigError::read_json(json.as_bytes()).unwrap() };
    let base = r#"{"retries":1,"headroom":0.5,"capacity":{"estimator":"static","limit":3},"slo":"1s"}"#;
    let over = r#"{"retries":2,"capacity":{"estimator":"slo","slo":"2s"}}"#;
    let both = r#"{"retries":2,"headroom":0.5,"capacity":{"estimator":"slo","slo":"2s"},"slo":"1s"}"#;
    assert_eq!(spec(over).or(spec(base)), spec(both));
    assert_eq!(spec(base).or(ServiceSpec::default()), spec(base));
    let routes = |json: &str| spec(&format!(r#"{{"virtualServiceRetries":{json}}}"#));
    let both = routes(r#"{"s/a":1,"s/b":3}"#).or(routes(r#"{"s/b":2,"s/c":2}"#));
    assert_eq!(both, routes(r#"{"s/a":1,"s/b":3,"s/c":2}"#));
    assert_eq!(ServiceSpec::default().or(spec(base)), spec(base));
}

#[test]
fn each_port_has_endpoints_of_its_own() {
    let json = r#"{"endpoints":["9.9.9.9:9"],"endpointsByPort":{"80":["1.1.1.1:8080"],"443":[]}}"#;
    let spec: ServiceSpec = ConfigError::read_json(json.as_bytes()).unwrap();
    let parameters = spec.validate().unwrap();
    let at = |port| parameters.at_port(port).endpoints().map(|e| e.iter().map(ToString::to_string).collect());
    assert_eq!(at(Some(80)), Some(vec!["1.1.1.1:8080".to_owned()]));
    assert_eq!(at(Some(443)), Some(vec![]), "none is ready");
    assert_eq!(at(Some(81)), Some(vec!["9.9.9.9:9".to_owned()]));
    assert_eq!(at(None), at(Some(81)), "two ports: it may be either");
    let chosen = parameters.at_port(Some(80));
    assert_eq!(chosen.at_port(Some(443)), chosen, "the other ports are left out");
    assert_eq!(parameters.without_endpoints().at_port(Some(80)).endpoints(), None);
    let one: ServiceSpec = ConfigError::read_json(br#"{"endpointsByPort":{"80":["1.1.1.1:8080"]}}"#).unwrap();
    assert_eq!(one.validate().unwrap().at_port(None).endpoints().map(<[_]>::len), Some(1));
    assert_eq!(
        refusal(r#"{"services":{"a":{"endpointsByPort":{"80":["1.2.3.4:0"]}}}}"#),
        "services.a.endpointsByPort.80[0]: \"1.2.3.4:0\" is not allowed; allowed: ports 1 to 65535"
    );
}

#[test]
fn rejects_an_unknown_field_or_a_wrong_type_with_its_path() {
    let unknown = refusal(r#"{"services":{"a":{"retrys":1}}}"#);
    assert!(unknown.starts_with("services.a.retrys: unknown field `retrys`, expected one of"), "{unknown}");
    let wrong = refusal(r#"{"services":{"a":{"retries":"three"}}}"#);
    assert!(
        wrong.starts_with("services.a.retries: \"three\" is not allowed; allowed: a whole number, 0 to 10"),
        "{wrong}"
    );
    let range = "is not allowed; allowed: 0 to 10";
    for number in ["-1", "99999999999"] {
        let text = refusal(&format!(r#"{{"services":{{"a":{{"retries":{number}}}}}}}"#));
        assert_eq!(text, format!("services.a.retries: {number} {range}"));
    }
    let estimator = refusal(r#"{"services":{"a":{"capacity":{"estimator":"magic"}}}}"#);
    let says = "services.a.capacity.estimator: \"magic\" is not allowed; allowed: static, slo, average";
    assert!(estimator.starts_with(says), "{estimator}");
}

#[test]
fn a_key_that_comes_twice_is_refused_with_its_path() {
    for (json, path) in [
        (r#"{"services":{"a":{},"a":{}}}"#, "services"),
        (r#"{"services":{"a":{"endpointsByPort":{"80":[],"80":[]}}}}"#, "services.a.endpointsByPort"),
        (r#"{"services":{"a":{"virtualServiceRetries":{"s/v":1,"s/v":1}}}}"#, "services.a.virtualServiceRetries"),
    ] {
        let refusal = refusal(json);
        assert!(refusal.starts_with(&format!("{path}: duplicate key `")), "{refusal}");
    }
}

#[test]
fn a_port_is_1_to_65535() {
    let of = |port: &str| format!(r#"{{"services":{{"a":{{"endpointsByPort":{{"{port}":[]}}}}}}}}"#);
    let refused = "services.a.endpointsByPort.0: 0 is not allowed; allowed: 1 to 65535";
    assert_eq!(refusal(&of("0")), refused);
    assert!(refusal(&of("65536")).starts_with("services.a.endpointsByPort"));
}

#[test]
fn a_value_of_another_type_is_refused_with_what_is_allowed() {
    for (value, says) in [
        ("\"routing\":7", "routing: 7 is not allowed; allowed: bloc, least_request, mu, bid"),
        ("\"routing\":\"bids\"", "routing: \"bids\" is not allowed; allowed: bloc, least_request, mu, bid"),
        ("\"retries\":\"3\"", "retries: \"3\" is not allowed; allowed: a whole number, 0 to 10"),
        ("\"concurrency\":1.5", "concurrency: 1.5 is not allowed; allowed: a whole number, 1 to 100000"),
        ("\"concurrency\":1e308", "concurrency: 1e308 is not allowed; allowed: a whole number, 1 to 100000"),
        ("\"concurrency\":0", "concurrency: 0 is not allowed; allowed: 1 to 100000"),
        ("\"headroom\":true", "headroom: true is not allowed; allowed: a number above 0 and at most 1"),
        ("\"hold\":[1]", "hold: a list is not allowed; allowed: true or false"),
        ("\"orca\":{}", "orca: a mapping is not allowed; allowed: true or false"),
        ("\"slo\":250", "slo: 250 is not allowed; allowed: a duration with its unit (such as 250ms), 1ms to 1h"),
        (
            "\"capacity\":10",
            "capacity: invalid type: integer `10`, expected a mapping with `estimator`: static, slo, average",
        ),
    ] {
        let refused = refusal(&format!(r#"{{"services":{{"a":{{{value}}}}}}}"#));
        assert!(refused.starts_with(&format!("services.a.{says}")), "{refused}");
    }
    let null = r#"{"services":{"a":{"retries":null,"slo":null,"capacity":null,"hold":null}}}"#;
    let spec: ServicesSpec = ConfigError::read_json(null.as_bytes()).unwrap();
    assert_eq!(spec.services["a"], ServiceSpec::default(), "null is the default");
}

#[test]
fn names_of_earlier_versions_are_read_and_have_no_effect() {
    let spec: ServiceSpec = serde_json::from_str(r#"{"maxChips":5,"retries":2,"sloGrace":["any"]}"#).unwrap();
    assert_eq!((spec.retries, spec.withdrawn.as_slice()), (Some(2), &["maxChips", "sloGrace"][..]));
    let same = ServiceSpec { retries: Some(2), ..ServiceSpec::default() };
    assert_eq!(spec.validate().unwrap(), same.validate().unwrap());
    assert_eq!(serde_json::to_string(&spec).unwrap(), r#"{"retries":2}"#, "not sent");
    let merged = |own: &str, base: &str| {
        let read = |text: &str| serde_json::from_str::<ServiceSpec>(text).unwrap();
        read(own).or(read(base)).withdrawn
    };
    assert_eq!(merged("{}", r#"{"maxChips":5}"#), ["maxChips"], "the base has it");
    assert_eq!(merged(r#"{"sloGrace":"1s","maxChips":1}"#, r#"{"maxChips":5}"#), ["maxChips", "sloGrace"]);
    assert!(merged("{}", "{}").is_empty());
    assert!(serde_json::from_str::<ServiceSpec>(r#"{"maxChips":5,"maxChips":5}"#).is_err(), "each once");
}
