//! The view of one service with its servers and callers, and the problems at the top.

use crate::browser::{Browser, in_browser};
use crate::fleet::{Fleet, Load, Proxy};
use bloc_control_plane::Snapshot;
use bloc_control_plane::store::Module;
use bloc_policy::config::features::Features;
use bloc_policy::config::features::table::{Instead, Rule};
use bloc_policy::sync::latency::histogram::bucket;
use bloc_policy::sync::latency::{Calls, Histogram};
use bloc_policy::sync::{ServerLatency, ServiceCalls, ServiceEvents};
use std::time::Duration;

const SAMPLE_EVERY: Duration = Duration::from_millis(500);
const SERVICES: &str = "services: {shop: {routing: bid, concurrency: 4, hold: true, capacity: {estimator: static, limit: 10}}, calm: {}, quiet: {}}";

fn load(service: &str, rejected_capacity: u64) -> Load {
    let events = ServiceEvents {
        departed_confident: 40,
        chips_granted: 30,
        chips_withheld: 20,
        rejected_capacity,
        rejected_bid: 125,
        rejected_deadline: 0,
    };
    Load {
        service: service.into(),
        in_flight: 7,
        capacity: Some(10),
        service_rate: Some(80.0),
        departed: 50,
        events,
        swing: 0.0,
        latency: None,
    }
}

/// What a thousand calls took: half of them 40 ms, the rest 500 ms.
fn times() -> Histogram {
    Histogram { sum_us: 270_000_000, counts: vec![(bucket(40_000_000), 500), (bucket(500_000_000), 500)] }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_shows_latencies_and_who_calls_whom() {
    in_browser(|browser| async move {
        let mut world = Fleet::start(SERVICES, SAMPLE_EVERY).await;
        let latency = ServerLatency {
            response: times(),
            execution: times(),
            arrivals: vec![1, 1_000, 11_000, 100_000, 1_000_000],
        };
        let server = Load { latency: Some(latency), ..load("shop", 25) };
        world.add(Proxy { id: "shop-0".into(), serves: vec![server], ..Proxy::default() });
        // As many as the server answers between two polls.
        let calls = Calls { requests: 130, failed: 13, retried: 39, ..Calls::default() };
        let reports = vec![ServiceCalls::new("shop", calls, times())];
        let calls = vec!["shop".to_owned()];
        world.add(Proxy { id: "frontend-0".into(), calls: calls.clone(), reports, ..Proxy::default() });
        browser.open(&world.url).await;
        browser.until_shown("#calls", "frontend-0").await;
        let edge = row(&browser, "frontend-0").await;
        assert_eq!((&*edge[1], &*edge[3], &*edge[4]), ("shop", "10%", "30%"));
        let near = |text: &str, expected: f64| {
            let value: f64 = text.trim_end_matches(" ms").parse().unwrap_or_else(|_| panic!("{text}"));
            assert!((value / expected - 1.0).abs() < 0.05, "{text}, not about {expected}");
        };
        near(&edge[5], 40.0);
        near(&edge[6], 500.0);
        // Retries healed what the servers rejected: nobody needs to look.
        browser.until("document.querySelector('#service-rows td').innerText === 'ok'").await;
        assert!(!browser.text("#attention").await.contains("shop"));
        let _: () = browser.value("void document.querySelector('#service-rows a').click()").await;
        browser.until_shown("#service", "frontend-0").await;
        let figures = browser.text("#service .figures").await;
        assert!(figures.contains("Callers: retried\n30%") && figures.contains("Callers: failed\n10%"), "{figures}");
        assert!(figures.contains("Burstiness 0.1 / 1 / 10 s\n1.00 / "), "{figures}");
    })
    .await;
}

fn fleet(fleet: &mut Fleet) {
    fleet.add(Proxy { id: "shop-0".into(), serves: vec![load("shop", 25)], ..Proxy::default() });
    fleet.add(Proxy { id: "shop-1".into(), serves: vec![load("shop", 0)], ..Proxy::default() });
    fleet.add(Proxy { id: "calm-0".into(), serves: vec![load("calm", 0)], ..Proxy::default() });
    let calls = Calls { requests: 50, exhausted: 20, overflowed: 10, ..Calls::default() };
    let reports = vec![ServiceCalls::new("shop", calls, times())];
    fleet.add(Proxy { id: "caller".into(), calls: vec!["shop".into(), "calm".into()], ..Proxy::default() });
    fleet.add(Proxy { id: "user".into(), calls: vec!["shop".into()], reports, ..Proxy::default() });
}

/// As if bids had come with a feature, which only one of two callers has.
#[tokio::test(flavor = "multi_thread")]
async fn the_page_names_the_modules_and_the_proxies_that_lack_a_feature() {
    const RULES: &[Rule] =
        &[Rule { field: "routing", value: Some("bid"), feature: "spare", instead: Instead::Withhold }];
    in_browser(|browser| async move {
        let mut world = Fleet::of(Snapshot::from_yaml_by(SERVICES, RULES).unwrap(), SAMPLE_EVERY).await;
        let module = Module { version: Some("2.0.0".to_owned()), features: Features::from_iter(["spare"]) };
        world.add(Proxy {
            id: "shop-0".into(),
            serves: vec![load("shop", 0)],
            module: module.clone(),
            ..Proxy::default()
        });
        let calls = vec!["shop".to_owned(), "calm".to_owned()];
        let unread = vec!["calm".to_owned()];
        world.add(Proxy { id: "new".into(), calls: calls.clone(), module, unread, ..Proxy::default() });
        world.add(Proxy { id: "old".into(), calls, ..Proxy::default() });
        browser.open(&world.url).await;
        browser.until_shown("#attention", "1 proxy lacks spare, needed by shop: old").await;
        browser
            .until_shown(
                "#attention",
                "new could not read the parameters of calm; it keeps the last good ones, or passes requests untouched if there are none",
            )
            .await;
        browser.until_shown("#facts", "modules unknown version (1), 2.0.0 (2)").await;
        browser.until_shown("#service-rows", "shop").await;
        let _: () = browser
            .value("void [...document.querySelectorAll('#service-rows a')].find(a => a.innerText === 'shop').click()")
            .await;
        browser.until_shown("#service", "shop-0").await;
        assert_eq!(row(&browser, "shop-0").await[10], "2.0.0: spare");
        assert_eq!(row(&browser, "new").await[3], "2.0.0: spare; could not read calm");
        assert_eq!(row(&browser, "old").await[3], "unknown version; lacks spare");
    })
    .await;
}

/// The cells of the row with `name` in its first cell.
async fn row(browser: &Browser, name: &str) -> Vec<String> {
    let rows = "[...document.querySelectorAll('tbody tr')].filter(row => row.checkVisibility())";
    browser
        .value(&format!(
            "[...{rows}.find(row => row.cells[0].innerText === {name:?}).cells].map(cell => cell.innerText)"
        ))
        .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_shows_its_servers_senders_and_recent_history() {
    in_browser(|browser| async move {
        let mut world = Fleet::start(SERVICES, SAMPLE_EVERY).await;
        fleet(&mut world);
        browser.open(&world.url).await;
        browser.until_shown("#attention", "shop rejects").await;
        browser.until_shown("#attention", "Envoy did not retry 20% of its requests: raise maxRetries").await;
        browser.until("document.querySelectorAll('#service-rows svg path.bad[d^=M]').length === 1").await;
        let shop = row(&browser, "shop").await;
        assert_eq!((shop[1].as_str(), shop[2].as_str(), shop[8].as_str()), ("rejecting", "2", "bid"));
        assert_eq!(row(&browser, "calm").await[1], "ok");
        assert_eq!(row(&browser, "quiet").await[1..4], ["no reports", "–", "–"]);

        let _: () = browser.value("void document.querySelector('#service-rows a').click()").await;
        browser.until_shown("#service", "shop-1").await;
        browser.until("document.querySelectorAll('.charts svg').length === 3").await;
        let near = |text: &str, expected: f64| {
            let value: f64 = text.trim_end_matches('%').parse().unwrap_or_else(|_| panic!("{text}"));
            assert!((value / expected - 1.0).abs() < 0.1, "{text}, not about {expected}");
        };
        let server = row(&browser, "shop-0").await;
        assert_eq!(server[1..4], ["rejecting", "7", "10"]);
        for (cell, expected) in [(4, 50.0), (5, 80.0), (6, 30.0), (7, 20.0), (8, 25.0), (9, 125.0)] {
            near(&server[cell], expected);
        }
        let other = row(&browser, "shop-1").await;
        assert_eq!((other[1].as_str(), other[8].as_str()), ("ok", "0"));
        assert_eq!(row(&browser, "caller").await[1], "current");
        let figures = browser.text("#service .figures").await;
        assert!(figures.contains("Callers: rejected\n40%\nCallers: not retried by Envoy\n20%"), "{figures}");
        assert!(
            figures.contains("Servers\n2") && figures.contains("In flight\n14") && figures.contains("Capacity\n20"),
            "{figures}"
        );
        let parameters = browser.text("#service .parameters").await;
        assert!(parameters.contains("10 requests") && parameters.contains("1s (default)"), "{parameters}");
        let label: String = browser.value("document.querySelector('.charts svg').getAttribute('aria-label')").await;
        assert!(label.starts_with("Requests, last 15 minutes: "), "{label}");
        let points = "document.querySelector('.charts path').getAttribute('d').split('L').length";
        let before: usize = browser.value(points).await;
        browser.until(&format!("{points} > {before}")).await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn shows_a_proxy_that_does_not_take_the_newest_state_as_stale() {
    in_browser(|browser| async move {
        let mut world = Fleet::start(SERVICES, SAMPLE_EVERY).await;
        world.add(Proxy { id: "stubborn".into(), calls: vec!["shop".into()], refuses: true, ..Proxy::default() });
        world.add(Proxy { id: "good".into(), calls: vec!["shop".into()], ..Proxy::default() });
        browser.open(&format!("{}/#/service/shop", world.url)).await;
        browser.until_shown("#service", "stubborn").await;
        browser.until_shown("#attention", "1 proxy does not take the newest state: stubborn (has none)").await;
        assert_eq!(row(&browser, "stubborn").await[1..3], ["stale", "none yet"]);
        assert_eq!(row(&browser, "good").await[1], "current");
        assert_eq!(world.store.counts().proxies_stale, 1);
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_focus_follows_a_row_that_moves() {
    in_browser(|browser| async move {
        let mut world = Fleet::start("services: {b: {}, c: {}}", SAMPLE_EVERY).await;
        world.add(Proxy { id: "b-0".into(), serves: vec![load("b", 0)], ..Proxy::default() });
        world.add(Proxy { id: "c-0".into(), serves: vec![load("c", 0)], ..Proxy::default() });
        let names = "[...document.querySelectorAll('#service-rows th')].map(head => head.innerText).join()";
        browser.open(&world.url).await;
        browser.until(&format!("{names} === 'b,c'")).await;
        let _: () = browser.value("void document.querySelectorAll('#service-rows a')[1].focus()").await;
        world.add(Proxy { id: "c-1".into(), serves: vec![load("c", 25)], ..Proxy::default() });
        browser.until(&format!("{names} === 'c,b'")).await;
        assert_eq!(browser.value::<String>("document.activeElement.textContent").await, "c");
    })
    .await;
}
