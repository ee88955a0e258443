//! Clusters that requests go to: what happens to them when configurations change, and how many
//! there may be.

use crate::host::{FakeHost, Seen};
use crate::thread::{Thread, arrived, came};
use bloc_engine::names::MAX_CLUSTERS;
use bloc_engine::root::Root;
use bloc_policy::sync::follower::Follower;
use std::rc::Rc;

const ASKS: &str = r#"{"controlPlane":{"cluster":"a"}}"#;

/// How many retries the request of a cluster asks Envoy for; none: it passes unchanged.
fn retries(root: &Root<FakeHost>, cluster: &str) -> Option<String> {
    let (stream, _filter) = came(root, Seen { cluster: Some(cluster.to_owned()), ..Seen::default() });
    let retries = stream.0.request.borrow().get("x-envoy-max-retries").cloned();
    retries.map(|value| String::from_utf8(value).expect("text"))
}

fn configured(service: &str, retries: u32) -> String {
    format!(r#"{{"services":{{"{service}":{{"routeRetries":0,"retries":{retries}}}}}}}"#)
}

#[test]
fn requests_go_by_the_newest_parameters_of_the_control_plane() {
    let thread = Thread::new();
    let mut root = thread.plug(1, "bloc.outbound", ASKS);
    let mut brought = Follower::new(77);
    brought.follow("a");
    for number in 1..=3 {
        let state = configured("backend", number).replacen('{', &format!(r#"{{"version":"{number}","#), 1);
        let stamp = brought.stamp();
        brought.answered(&thread.host, stamp, state.as_bytes()).expect("a state");
        thread.tick(&mut root);
        assert_eq!(retries(&root, "backend"), Some(number.to_string()));
    }
}

#[test]
fn a_listener_with_the_same_parameters_goes_on_with_the_attempts_under_way() {
    let thread = Thread::new();
    let old = thread.plug(1, "bloc.outbound", &configured("backend", 1));
    let _request = arrived(&old);
    let cluster = thread.engine.vm().cluster(None, "backend").expect("a cluster");
    let new = thread.plug(2, "bloc.outbound", &configured("backend", 1));
    drop(old);
    assert!(Rc::ptr_eq(&cluster, &thread.engine.vm().cluster(None, "backend").expect("a cluster")));
    let _other = thread.plug(3, "bloc.outbound", &configured("backend", 2));
    drop(new);
    assert!(!Rc::ptr_eq(&cluster, &thread.engine.vm().cluster(None, "backend").expect("a cluster")));
}

#[test]
fn a_request_that_outlives_its_configuration_is_counted() {
    let thread = Thread::new();
    let root = thread.plug(1, "bloc.outbound", &configured("backend", 1));
    let _stays = thread.plug(2, "bloc.outbound", "{}");
    let request = arrived(&root);
    drop(root);
    drop(request);
    assert_eq!(thread.process.metric("bloc.outbound.backend.requests"), Some(1));
}

#[test]
fn only_a_new_cluster_is_announced() {
    let thread = Thread::new();
    let root = thread.plug(1, "bloc.outbound", &configured("backend", 1));
    drop(arrived(&root));
    assert_eq!(thread.messages().len(), 1);
    drop(arrived(&root));
    assert_eq!(thread.messages().len(), 0);
}

#[test]
fn requests_of_clusters_beyond_ten_thousand_pass_untouched() {
    let thread = Thread::new();
    let root = thread.plug(1, "bloc.outbound", &configured("known", 2));
    for number in 1..MAX_CLUSTERS {
        assert_eq!(retries(&root, &number.to_string()), None, "nobody configured it");
    }
    assert_eq!(retries(&root, "outbound|80|v1|known"), Some("2".to_owned()), "the last one");
    assert_eq!(retries(&root, "outbound|80|v2|known"), None, "one too many");
    assert_eq!(retries(&root, "outbound|80|v1|known"), Some("2".to_owned()));
}
