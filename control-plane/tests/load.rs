//! Signals for scaling over real HTTP.
#![allow(missing_docs, reason = "tests")]

mod common;

use bloc_control_plane::store::ProxyCounts;
use common::{LIMIT, Server, metric};
use reqwest::StatusCode;
use serde_json::{Value, json};
use std::time::Duration;
use tokio::time::Instant;

const TWO: &str = "services: {a: {}, 'quo\"te': {}}";

/// Reports that `proxy` has taken in 200 requests in `span` for each service that it serves;
/// returns when the poll is over.
async fn report(server: &Server, proxy: &str, version: &str, span: Option<u64>) -> StatusCode {
    let load = |service: &str, rate: f64| json!({"service": service, "inFlight": 4, "capacity": 10, "arrived": 200, "departed": 200, "serviceRate": rate});
    let body = json!({
        "proxy": proxy, "version": version, "serves": ["a", "quo\"te", "nobody's"], "wait": "30s",
        "load": [load("a", 500.0), load("quo\"te", 1.0), load("nobody's", 1.0)],
        "last": {"reportedMs": span},
    });
    server.post(body.to_string()).await.0
}

async fn load(server: &Server) -> Value {
    let service: Value = serde_json::from_str(&server.get("/v1/status/services/a").await.1).unwrap();
    service["load"].clone()
}

/// The signals and the metrics at one moment: predictions change at each tick of the report
/// interval, and a tick may fall between the two requests.
async fn load_and_metrics(server: &Server) -> (Value, String) {
    for _ in 0..10 {
        let before = load(server).await;
        let text = server.get("/metrics").await.1;
        if load(server).await == before {
            return (before, text);
        }
    }
    panic!("the signals change between any two requests");
}

#[tokio::test]
async fn serves_load_signals_computed_from_polls() {
    let server = Server::start_with(TWO, "1s".parse().unwrap()).await;
    assert_eq!(load(&server).await, Value::Null);
    let version = server.state("r", "", &["a", "quo\"te"]).await.version;
    let start = Instant::now();
    for span in [None, Some(1_000), Some(1_000), Some(1_000), Some(1_000)] {
        let both = tokio::join!(report(&server, "p", &version, span), report(&server, "q", &version, span));
        assert_eq!(both, (StatusCode::NOT_MODIFIED, StatusCode::NOT_MODIFIED));
    }
    let elapsed = start.elapsed();
    assert!((Duration::from_millis(4_950)..LIMIT).contains(&elapsed), "five times 1 s: {elapsed:?}");

    let (signals, text) = load_and_metrics(&server).await;
    let number = |field: &str| signals[field].as_f64().unwrap_or_else(|| panic!("no {field} in {signals}"));
    assert_eq!((number("servers"), number("serversWithServiceRate")), (2.0, 2.0));
    assert_eq!((number("demandRequests"), number("capacityRequests")), (8.0, 20.0));
    assert_eq!(number("serviceRatePerSecond"), 1_000.0);
    let per_server = json!({"minPerSecond": 500.0, "meanPerSecond": 500.0, "maxPerSecond": 500.0});
    assert_eq!(signals["serviceRatePerServer"], per_server);
    let rate = number("arrivalRatePerSecond");
    assert_eq!(rate, 400.0);
    assert!((number("utilisationRatio") - rate / 1_000.0).abs() < 1e-9);
    let predicted = number("predictedArrivalRatePerSecond");
    assert!(predicted > 0.0 && predicted < 4.0 * rate, "{predicted} after {rate}");
    assert_eq!(number("predictionHorizonSeconds"), 30.0);

    let of_a = |name: &str| metric(&text, &format!("bloc_service_{name}{{service=\"a\"}}"));
    assert_eq!((of_a("servers"), of_a("demand_requests"), of_a("capacity_requests")), (2.0, 8.0, 20.0));
    assert_eq!(of_a("rate"), 1_000.0);
    // JSON readers may lose the last digit.
    let is_close = |name: &str, expected: f64| (of_a(name) - expected).abs() < 1e-6;
    assert!(is_close("arrival_rate", rate), "{text}");
    assert!(is_close("predicted_arrival_rate", number("predictedArrivalRatePerSecond")), "{text}");
    for statistic in ["min", "mean", "max"] {
        let name = format!("bloc_service_rate_per_server{{service=\"a\",statistic=\"{statistic}\"}}");
        assert_eq!(metric(&text, &name), 500.0);
    }
    assert_eq!(metric(&text, r#"bloc_service_servers{service="quo\"te"}"#), 2.0);
    assert_eq!(metric(&text, "bloc_load_reports_dropped_total"), 10.0);
    assert!(!text.contains("nobody's") && text.ends_with("# EOF\n") && text.matches("# EOF").count() == 1, "{text}");
    server.stop().await;
}

#[tokio::test]
async fn unknown_signals_have_no_series() {
    let server = Server::start_with(TWO, "1s".parse().unwrap()).await;
    let body = r#"{"proxy":"p","serves":["a"],"load":[{"service":"a","inFlight":3}]}"#;
    assert_eq!(server.post(body).await.0, StatusCode::OK);
    let (_, text) = server.get("/metrics").await;
    let lines: Vec<_> =
        text.lines().filter(|line| line.starts_with("bloc_service_") && !line.contains("_total{")).collect();
    assert_eq!(lines, ["bloc_service_servers{service=\"a\"} 1.0", "bloc_service_demand_requests{service=\"a\"} 3.0"]);
    assert_eq!(load(&server).await["utilisationRatio"], Value::Null);
    server.stop().await;
}

#[tokio::test]
async fn counts_the_events_of_each_answered_poll_once() {
    let server = Server::start_with(TWO, "1s".parse().unwrap()).await;
    let version = server.state("r", "", &["a", "quo\"te"]).await.version;
    let poll = async |last: Value| {
        let events = json!({"departedConfident": 6, "chipsGranted": 5, "chipsWithheld": 4, "rejectedCapacity": 3, "rejectedBid": 2, "rejectedDeadline": 1});
        let load = json!([{"service": "a", "inFlight": 4, "departed": 7, "arrived": 8, "events": events}]);
        let body = json!({"proxy": "p", "version": version, "serves": ["a", "quo\"te"], "load": load, "last": last});
        let request = server.client.post(format!("{}/v1/sync", server.url)).body(body.to_string());
        let response = request.send().await.unwrap();
        let replica = response.headers().get("x-bloc-replica").map(|name| name.to_str().unwrap().to_owned());
        (response.status(), replica)
    };
    for last in [json!({}), json!({"replica": "another", "answeredMs": 9_000, "reportedMs": 1_000}), Value::Null] {
        let expected = (StatusCode::NOT_MODIFIED, Some(server.store.replica().to_owned()));
        assert_eq!(poll(last).await, expected);
    }
    let (status, replica) = poll(json!({"replica": 1})).await;
    assert_eq!((status, replica), (StatusCode::BAD_REQUEST, None));
    let (_, text) = server.get("/metrics").await;
    for (name, each) in [
        ("arrivals_total{service=\"a\"}", 8.0),
        ("departures_total{service=\"a\"}", 7.0),
        ("confident_departures_total{service=\"a\"}", 6.0),
        ("chips_total{service=\"a\",chip=\"granted\"}", 5.0),
        ("chips_total{service=\"a\",chip=\"withheld\"}", 4.0),
        ("rejections_total{service=\"a\",reason=\"capacity\"}", 3.0),
        ("rejections_total{service=\"a\",reason=\"bid\"}", 2.0),
        ("rejections_total{service=\"a\",reason=\"deadline\"}", 1.0),
    ] {
        assert_eq!(metric(&text, &format!("bloc_service_{name}")), 3.0 * each, "{text}");
    }
    server.stop().await;
}

#[tokio::test]
async fn refuses_invalid_load_reports_and_keeps_nothing_of_them() {
    let server = Server::start(TWO).await;
    for (fields, reason) in [
        (r#""inFlight":1,"serviceRate":NaN"#, "load[0].serviceRate: "),
        (r#""inFlight":1,"serviceRate":-1"#, "load[0].serviceRate: -1 is not allowed; allowed: 0 to 1000000000000"),
        (r#""inFlight":1,"serviceRate":1e13"#, "load[0].serviceRate: 10000000000000 is not allowed"),
        (r#""inFlight":1,"serviceRate":1e999"#, "load[0].serviceRate: "),
        (r#""inFlight":-1"#, "load[0].inFlight: "),
        (r#""inFlight":18446744073709551615"#, "load[0].inFlight: 18446744073709551615 is not allowed"),
        (r#""inFlight":1.5"#, "load[0].inFlight: "),
        (r#""inFlight":1,"departed":-1"#, "load[0].departed: "),
        (r#""inFlight":1,"departed":9007199254740993"#, "load[0].departed: 9007199254740993 is not allowed"),
        (r#""inFlight":1,"capacity":-1"#, "load[0].capacity: "),
        (r#""inFlight":1,"capacity":4294967296"#, "load[0].capacity: "),
        (r#""departed":1"#, "missing field `inFlight`"),
    ] {
        let body = format!(r#"{{"proxy":"p","serves":["a"],"load":[{{"service":"a",{fields}}}]}}"#);
        let (status, text) = server.post(body).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{fields}: {text}");
        let error: Value = serde_json::from_str(&text).unwrap();
        assert!(error["error"].as_str().unwrap().contains(reason), "{fields}: {text}");
    }
    assert_eq!(load(&server).await, Value::Null);
    assert_eq!(server.store.status().proxies, ProxyCounts::default());
    server.stop().await;
}
