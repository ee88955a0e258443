//! Servers that mark their answers: Envoy takes these marks for failed and for degraded health.

use crate::support::fleet::{Plan, ROUTINGS, Way, addresses, applications, places, send_all, shares};
use crate::support::{Answer, App, Fleet, request, send};
use futures_util::future::join_all;
use serde_json::Value;
use std::time::Duration;
use tokio::time::Instant;

const FAILED: &str = "x-envoy-immediate-health-check-fail";
const DEGRADED: &str = "x-envoy-degraded";

const SERVERS: usize = 4;
const CLIENTS: usize = 8;
const MILLIS: u64 = 50;
const RESET_INTERVAL: Duration = Duration::from_millis(250);
/// The requests before a change, and those that are not judged after one that all servers make.
const WARM_UP: usize = 150;
const UNSETTLED: usize = 30;
/// For so many reset intervals at least a marked server is watched.
const INTERVALS: u32 = 6;
/// The requests of a turn, after which is judged whether it is time to stop.
const TURN: usize = 60;
/// The most such turns.
const TURNS: usize = 20;
/// The least share of a server that is not left alone. One that is gets a fortieth.
const LEAST: f64 = 1.0 / 12.0;

type Applications = Vec<(&'static str, Vec<App>)>;

/// The caller has one worker, so that all requests share its knowledge.
async fn stand() -> (Applications, Fleet) {
    let apps = applications(&ROUTINGS, SERVERS).await;
    apps.iter().flat_map(|(_, apps)| apps).for_each(|app| app.takes(MILLIS));
    let spec = |way: &str| -> Value {
        let mut spec = places(way, 8);
        spec["resetInterval"] = format!("{}ms", RESET_INTERVAL.as_millis()).into();
        spec
    };
    let fleet = Fleet::start(&addresses(&apps), Plan { workers: 1, spec: &spec, ..Plan::default() }).await;
    (apps, fleet)
}

async fn answered(way: &Way, count: usize) -> Vec<Answer> {
    let answers = send_all(way.to, CLIENTS, count, |_| request("/work")).await;
    assert!(answers.iter().all(|answer| answer.status == 200 && answer.ours().is_empty()), "{}", way.name);
    answers
}

/// What the marked server of a way got: while it marked its answers (requests, of how many, and at
/// most how many it may get), and the share of a turn when it had stopped.
#[derive(Debug)]
struct Course {
    way: &'static str,
    marked: usize,
    of: usize,
    most: usize,
    later: f64,
}

/// The first server of a way marks its answers, and then no longer does.
async fn course(way: &Way, apps: &[App], mark: &'static str) -> Course {
    answered(way, WARM_UP).await;
    apps[0].marks(Some(mark));
    let direct = send(way.servers[0], request("/x"), "").await.unwrap();
    assert_eq!(direct.header(mark), Some("true"), "the mark passes the server's sidecar");
    // One in eight answers is looked at until a mark is found.
    for _ in 0..TURNS {
        if shares(&answered(way, TURN).await, SERVERS)[0] < LEAST {
            break;
        }
    }
    let (began, before, mut of) = (Instant::now(), apps[0].seen("/work").len(), 0);
    for _ in 0..TURNS {
        of += answered(way, TURN).await.len();
        if began.elapsed() >= INTERVALS * RESET_INTERVAL {
            break;
        }
    }
    let marked = apps[0].seen("/work").len() - before;
    // One for each interval that has begun, and those that were under way.
    let most = began.elapsed().div_duration_f64(RESET_INTERVAL).ceil() as usize + CLIENTS;
    apps[0].marks(None);
    let mut later = 0.0;
    for _ in 0..TURNS {
        later = shares(&answered(way, TURN).await, SERVERS)[0];
        if later >= LEAST {
            break;
        }
    }
    Course { way: way.name, marked, of, most, later }
}

async fn is_left_alone(mark: &'static str) {
    let (apps, fleet) = stand().await;
    let all = join_all(fleet.ways.iter().zip(&apps).map(|(way, (_, apps))| course(way, apps, mark))).await;
    println!("{all:.2?}");
    for Course { way, marked, of, most, later } in all {
        assert!(marked <= most, "{way}: {marked} of {of} requests went to the marked server, {most} may");
        assert!(later >= LEAST, "{way}: without the mark it gets {later} of the requests");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_marked_as_failed_is_left_alone_until_the_mark_is_gone() {
    is_left_alone(FAILED).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_marked_as_degraded_is_left_alone_until_the_mark_is_gone() {
    is_left_alone(DEGRADED).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn servers_that_are_all_marked_serve_all_requests_in_equal_shares() {
    let (apps, fleet) = stand().await;
    let of_way = async |n: usize| {
        let (way, apps) = (&fleet.ways[n], &apps[n].1);
        answered(way, WARM_UP).await;
        let mut found = Vec::new();
        for mark in [FAILED, DEGRADED] {
            apps.iter().for_each(|app| app.marks(Some(mark)));
            answered(way, UNSETTLED).await;
            let answers = answered(way, 4 * TURN).await;
            assert!(answers.iter().all(|answer| answer.header(mark) == Some("true")), "{}", way.name);
            found.push((way.name, mark, shares(&answers, SERVERS)));
        }
        found
    };
    let all = join_all((0..ROUTINGS.len()).map(of_way)).await.concat();
    println!("{all:.2?}");
    for (way, mark, shares) in all {
        // A worker of few clients may send one request less to a server at each time, for good.
        assert!(shares.iter().all(|share| (0.1..=0.4).contains(share)), "{way}, {mark}: {shares:.3?}");
    }
}
