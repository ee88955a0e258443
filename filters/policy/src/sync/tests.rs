//! Which parts of the messages are read, and which are ignored.

use super::*;
use crate::config::ConfigError;

#[test]
fn a_load_report_leaves_out_arrivals_only_if_there_are_none() {
    let written = |arrived| serde_json::to_value(ServiceLoad { arrived, ..ServiceLoad::default() }).unwrap();
    assert_eq!(written(0).get("arrived"), None);
    assert_eq!(written(3)["arrived"], 3);
}

#[test]
fn calls_are_reported_as_they_were_counted() {
    let calls = Calls { requests: 5, failed: 4, exhausted: 3, overflowed: 2, retried: 2, refused: 1 };
    let report = ServiceCalls::new("s", calls, Histogram::default());
    assert_eq!((&*report.service, report.calls()), ("s", calls));
    let written = serde_json::to_value(ServiceCalls::new("s", Calls::of(&[5]), Histogram::default())).unwrap();
    assert_eq!(written, serde_json::json!({"service": "s", "requests": 5}));
}

#[test]
fn route_retries_apply_where_the_service_sets_none() {
    let body = r#"{
        "version": "1", "later": "unknown things are passed over",
        "services": {"a": {}, "b": {"routeRetries": 5, "virtualServiceRetries": {"shop/v": 1}}, "c": {}},
        "routes": {
            "a": {"retries": 2, "virtualServices": {"shop/v": 3}},
            "b": {"retries": 2, "virtualServices": {"shop/v": 3, "shop/w": 4}, "later": 1},
            "none": {"retries": 2}
        }
    }"#;
    let State { version, services, unread } = State::read(body.as_bytes()).unwrap();
    assert_eq!((&*version, unread.len()), ("1", 0));
    assert_eq!(services.keys().collect::<Vec<_>>(), ["a", "b", "c"]);
    let of = |name: &str, path: &str| services[name].retries_of(path.as_bytes());
    let [v, w] = ["v", "w"].map(|name| format!("/apis/x/namespaces/shop/virtual-service/{name}"));
    assert_eq!([of("a", &v), of("a", &w), of("b", &v), of("b", &w), of("c", &v)], [3, 2, 1, 4, 1]);
    assert_eq!(services["b"].route_retries(), 5);
}

#[test]
fn a_service_that_cannot_be_read_is_left_out_and_the_others_stay() {
    let body = r#"{"version": "1", "services": {
        "field": {"retries": 1, "later": {"a": [1]}}, "value": {"routing": "later"}, "range": {"retries": 11},
        "type": 7, "": {}, "good": {"retries": 2}
    }}"#;
    let State { version, services, unread } = State::read(body.as_bytes()).unwrap();
    assert_eq!((&*version, services.keys().collect::<Vec<_>>()), ("1", vec![&"good".to_owned()]));
    let why: Vec<(&str, String)> = unread.iter().map(|(name, why)| (&**name, why.to_string())).collect();
    let expected = [
        ("", "services.: \"\" is not allowed"),
        ("field", "services.field.later: unknown field `later`"),
        ("range", "services.range.retries: 11 is not allowed; allowed: 0 to 10"),
        ("type", "services.type: invalid type: integer `7`"),
        ("value", "services.value.routing: \"later\" is not allowed"),
    ];
    assert_eq!(why.len(), expected.len(), "{why:?}");
    for ((name, why), (of, begin)) in why.into_iter().zip(expected) {
        assert!(name == of && why.starts_with(begin), "{name}: {why}");
    }
}

#[test]
fn an_answer_without_its_parts_is_refused() {
    for body in [r#"{"services": {}}"#, r#"{"version": "1"}"#, "", "[]", r#"{"version": "1", "services": {"a": {}"#] {
        assert!(State::read(body.as_bytes()).is_err(), "{body}");
    }
}

/// A report of a newer proxy.
#[test]
fn a_report_may_have_more_members_than_are_known() {
    let body = r#"{"proxy": "p", "later": 1, "last": {"replica": "r", "later": 1}, "load": [
        {"service": "s", "inFlight": 3, "later": {}, "events": {"chipsGranted": 4, "later": 5}}
    ]}"#;
    let request: SyncRequest = ConfigError::read_json(body.as_bytes()).unwrap();
    assert_eq!((request.load[0].in_flight, request.load[0].events.chips_granted), (3, 4));
    assert_eq!(request.last.unwrap().replica, "r");
}

#[test]
fn an_answer_only_about_cpu_has_no_state() {
    let cpu = |cores| Some(ServerCpu { cores, ..ServerCpu::default() });
    for (body, said) in [
        (r#"{"version":"1","cpu":{"cores":0.5}}"#, cpu(Some(0.5))),
        (r#"{"version":"1","cpu":{},"later":1}"#, cpu(None)),
        (r#"{"version":"1","cpu":"nonsense"}"#, cpu(None)),
    ] {
        assert_eq!(Answer::read(body.as_bytes()), Ok(Answer { state: None, cpu: said }), "{body}");
        assert_eq!(State::read(body.as_bytes()).unwrap_err().to_string(), ".: no `services`");
    }
    for neither in [r#"{"version":"1"}"#, r#"{"version":"1","cpu":null}"#] {
        let error = Answer::read(neither.as_bytes()).unwrap_err();
        assert_eq!(error.to_string(), ".: neither `services` nor `cpu`");
    }
    for wrong in [r#"{"cpu":{}}"#, r#"{"version":1,"cpu":{}}"#, r#"{"version":"1","cpu":{},"services":null}"#] {
        assert!(Answer::read(wrong.as_bytes()).is_err(), "{wrong}");
    }
}

#[test]
fn a_state_may_come_with_cpu() {
    for (cpu, said) in
        [(r#","cpu":{"cores":0.5}"#, Some(0.5)), (r#","cpu":{"cores":-1}"#, None), (r#","cpu":[]"#, None)]
    {
        let Answer { state, cpu } =
            Answer::read(format!(r#"{{"version":"1","services":{{"a":{{}}}}{cpu}}}"#).as_bytes()).unwrap();
        assert_eq!(state.map(|state| (state.version, state.services.len())), Some(("1".to_owned(), 1)));
        assert_eq!(cpu.map(|cpu| cpu.cores), Some(said));
    }
    let silent = Answer::read(br#"{"version":"1","services":{}}"#).unwrap();
    assert_eq!((silent.state.is_some(), silent.cpu), (true, None));
}

#[test]
fn messages_without_cpu_have_no_member_for_it() {
    assert_eq!(serde_json::to_value(SyncRequest::default()).unwrap().get("cpu"), None);
    let response = SyncResponse { version: "1".to_owned(), ..SyncResponse::default() };
    assert_eq!(serde_json::to_value(&response).unwrap(), serde_json::json!({"version": "1", "services": {}}));
    let cpu = Some(ServerCpu { cores: Some(0.5), ..ServerCpu::default() });
    assert_eq!(serde_json::to_value(SyncResponse { cpu, ..response }).unwrap()["cpu"]["cores"], 0.5);
    let request = SyncRequest { cpu: Some(0.5), ..SyncRequest::default() };
    assert_eq!(serde_json::to_value(request).unwrap()["cpu"], 0.5);
}
