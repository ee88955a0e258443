//! A server whose first answers take forty times as long, as those of a cold JVM do, among servers
//! that are warm. It must have its share again within a minute, in whatever way it is asked.

use crate::support::fleet::{Plan, ROUTINGS, STOCK, Way, addresses, applications, places};
use crate::support::{App, Connection, Fleet, grpc, request};
use futures_util::future::join_all;
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

const SERVERS: usize = 5;
/// How many requests an application works on at once, and how long it takes for one.
const PLACES: u32 = 4;
const MILLIS: u64 = 50;
/// The slow answers, and how long each takes.
const COLD: usize = 10;
const COLD_MILLIS: u64 = 2_000;
/// Clients that send one request after the other: 30% of the places are taken. Every second one
/// sends gRPC.
const CLIENTS: usize = 6;
/// How long the shares are measured.
const LOOKS: Duration = Duration::from_secs(12);
/// The least multiple of its fair share that the server gets then. Mu goes by the few percent by
/// which the measured rates differ; warm servers get 0.8 to 1.2 of theirs.
fn least(way: &str) -> f64 {
    if way == "mu" { 0.6 } else { 0.8 }
}

/// Sends on this way, and measures from this time on. Returns the first server's share meanwhile,
/// as a multiple of a fair one.
async fn share(way: &Way, apps: &[App], from: Instant) -> f64 {
    let client = async |number: usize| {
        let to = way.callers[number / 2 % way.callers.len()];
        let mut connection = Connection::open(to).await;
        while from.elapsed() < LOOKS {
            let answer = if number.is_multiple_of(2) {
                connection.send(request("/work"), "").await
            } else {
                grpc(to, "/work").await
            };
            let answer = answer.unwrap();
            assert!(answer.status == 200 && answer.app().is_some(), "{}: {answer:?}", way.name);
        }
    };
    let counted = async {
        let counts = || apps.iter().map(|app| app.seen("/work").len()).collect::<Vec<_>>();
        sleep_until(from).await;
        let before = counts();
        sleep_until(from + LOOKS).await;
        counts().into_iter().zip(before).map(|(after, before)| after - before).collect::<Vec<_>>()
    };
    let (_, counts) = tokio::join!(join_all((0..CLIENTS).map(client)), counted);
    println!("{}: {counts:?}", way.name);
    counts[0] as f64 * SERVERS as f64 / counts.iter().sum::<usize>() as f64
}

async fn has_its_share(plan: Plan<'_>, after: Duration) {
    let ways = [STOCK, ROUTINGS[0], ROUTINGS[1], ROUTINGS[2]];
    let apps = applications(&ways, SERVERS).await;
    for (_, apps) in &apps {
        for app in apps {
            app.takes(MILLIS);
            app.works_on(PLACES as usize);
        }
        apps[0].begins_slowly(COLD, COLD_MILLIS);
    }
    let spec = |way: &str| places(way, PLACES);
    let fleet = Fleet::start(&addresses(&apps), Plan { spec: &spec, ..plan }).await;
    let from = Instant::now() + after;
    let shares = join_all(fleet.ways.iter().zip(&apps).map(|(way, (_, apps))| share(way, apps, from))).await;
    for (way, share) in ways.iter().zip(shares) {
        assert!(share >= least(way), "{way}: {share:.2} of its share");
    }
}

/// Each server has an Envoy of its own, and each caller.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_begins_slowly_has_its_share_of_two_callers_half_a_minute_later() {
    has_its_share(Plan { callers: 2, apart: true, ..Plan::default() }, Duration::from_secs(30)).await;
}

/// It has few requests to find out with.
#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_begins_slowly_has_its_share_of_one_worker_a_minute_later() {
    has_its_share(Plan { workers: 1, ..Plan::default() }, Duration::from_secs(60)).await;
}
