//! Plugin configurations.

use crate::support::{admitted, metric, parameters, process, refused, worker};
use serde_json::json;

#[test]
fn logs_path_value_and_range_of_an_invalid_configuration() {
    let process = process(1);
    let vm = worker(&process);
    for (configuration, named) in [
        (parameters(&json!({"retries": 11})), vec!["retries", "11", "10"]),
        (parameters(&json!({"headroom": 0.0})), vec!["headroom", "0"]),
        (parameters(&json!({"resetInterval": "5 fortnights"})), vec!["resetInterval"]),
        ("{".to_owned(), vec!["bloc.inbound"]),
    ] {
        assert!(vm.root("bloc.inbound", &configuration).is_err(), "{configuration}");
        let log = process.take_log();
        let line = log.iter().find(|line| line.level == 4).expect("an error in the log");
        assert!(named.iter().all(|part| line.text.contains(part)), "{}", line.text);
    }
    assert!(!vm.is_dead());
}

#[test]
fn rejects_an_unknown_root_id() {
    let process = process(2);
    assert!(worker(&process).root("bloc.sideways", "{}").is_err());
    assert!(process.take_log().iter().any(|line| line.text.contains("bloc.sideways")));
}

#[test]
fn an_update_replaces_the_parameters_and_keeps_the_in_flight_count() {
    let process = process(3);
    let vm = worker(&process);
    let limit = |limit: u32| parameters(&json!({"capacity": {"estimator": "static", "limit": limit}}));
    let old = vm.root("bloc.inbound", limit(1)).unwrap();
    let first = admitted(&old);
    assert_eq!(metric(&process, "inbound", "capacity"), Some(1));
    assert!(vm.root("bloc.inbound", limit(0)).is_err(), "a bad one leaves the running one in force");
    refused(&old, &[]);
    let new = vm.root("bloc.inbound", limit(2)).unwrap();
    assert_eq!(metric(&process, "inbound", "capacity"), Some(2));
    let second = admitted(&new);
    assert_eq!(refused(&new, &[]).status(), 429);
    first.done();
    old.remove();
    second.done();
    assert_eq!(metric(&process, "inbound", "in_flight"), Some(0));
}
