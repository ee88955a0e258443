//! Both colour schemes, a phone, and the README's picture.

use crate::browser::{Browser, in_browser};
use crate::common::Server;
use crate::fleet::{Fleet, Load, Proxy};
use bloc_control_plane::Snapshot;
use bloc_control_plane::store::Reach;
use bloc_policy::sync::latency::histogram::bucket;
use bloc_policy::sync::latency::{Calls, Histogram};
use bloc_policy::sync::{ServerLatency, ServiceCalls, ServiceEvents};
use std::path::Path;
use std::time::Duration;

/// The lowest contrast between a text and its background (WCAG 2.2, level AA) over all visible
/// texts.
const LEAST_CONTRAST: &str = r"(() => {
  // Colours in whatever notation, and how bright they are, by painting them.
  const paint = document.createElement('canvas').getContext('2d', {willReadFrequently: true});
  const rgb = (color) => { paint.clearRect(0, 0, 1, 1); paint.fillStyle = color; paint.fillRect(0, 0, 1, 1); return [...paint.getImageData(0, 0, 1, 1).data]; };
  const linear = (c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const bright = ([r, g, b]) => 0.2126 * linear(r) + 0.7152 * linear(g) + 0.0722 * linear(b);
  const behind = (node) => { for (; node; node = node.parentElement) { const c = rgb(getComputedStyle(node).backgroundColor); if (c[3] === 255) return c; } return rgb('white'); };
  const texts = [...document.querySelectorAll('body *')].filter((n) => n.checkVisibility() && [...n.childNodes].some((c) => c.nodeType === 3 && c.data.trim()));
  const contrast = (node) => { const [a, b] = [bright(rgb(getComputedStyle(node).color)), bright(behind(node))].sort((x, y) => y - x); return [(a + 0.05) / (b + 0.05), node.textContent]; };
  return texts.map(contrast).sort((x, y) => x[0] - y[0])[0];
})()";

#[tokio::test(flavor = "multi_thread")]
async fn both_colour_schemes_have_enough_contrast() {
    in_browser(|browser| async move {
        let server = Server::start("services: {backend: {}}").await;
        server.state("caller", "", &["backend"]).await;
        server.write("services: {backend: {retries: 11}}");
        let mut pages = Vec::new();
        for scheme in ["light", "dark"] {
            browser.scheme(scheme).await;
            for view in ["", "#/service/backend"] {
                browser.open("about:blank").await;
                browser.open(&format!("{}/{view}", server.url)).await;
                browser.until_shown("#attention", "retries: 11 is not allowed").await;
                browser
                    .until_shown(
                        if view.is_empty() { "#service-rows" } else { "#service" },
                        if view.is_empty() { "no reports" } else { "caller" },
                    )
                    .await;
                let (least, text): (f64, String) = browser.value(LEAST_CONTRAST).await;
                assert!(least >= 4.5, "{scheme} {view}: {least} of {text:?}");
            }
            pages.push(browser.value::<String>("getComputedStyle(document.body).backgroundColor").await);
        }
        assert_ne!(pages[0], pages[1], "the schemes differ");
        server.stop().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_fits_a_phone_without_scrolling_sideways() {
    in_browser(|browser| async move {
        let name = format!("outbound.{}.default.svc.cluster.local", "a-long-name-of-a-service".repeat(5));
        let server = Server::start(&format!("services: {{{name}: {{}}}}")).await;
        server.state("sidecar~10.0.0.1~caller-7f6d5c4b3a-x2x4z.default~default.svc.cluster.local", "", &[&name]).await;
        browser.size(360, 740).await;
        for view in [String::new(), format!("#/service/{name}")] {
            browser.open("about:blank").await;
            browser.open(&format!("{}/{view}", server.url)).await;
            browser.until_shown(if view.is_empty() { "#service-rows" } else { "#service" }, &name).await;
            let width: u32 = browser.value("document.documentElement.scrollWidth").await;
            assert!(width <= 360, "{view}: {width}");
        }
        server.stop().await;
    })
    .await;
}

/// A shop with problems to show.
async fn shop() -> Fleet {
    let yaml = "services:
  checkout: {routing: bid, concurrency: 4, hold: false}
  catalogue: {capacity: {estimator: slo, slo: 800ms}, concurrency: 8, retries: 2}
  payment: {capacity: {estimator: static, limit: 12}}
  search: {routing: mu, concurrency: 16}
  recommendations: {capacity: {estimator: static, limit: 40}}
  reviews: {routing: least_request}
  images: {}
";
    let mut fleet = Fleet::start(yaml, Duration::from_millis(250)).await;
    let events = |departed: u64, rejected: u64, bid: u64| ServiceEvents {
        departed_confident: departed * 7 / 10,
        chips_granted: departed * 6 / 10,
        chips_withheld: departed * 4 / 10,
        rejected_capacity: rejected,
        rejected_bid: bid,
        rejected_deadline: rejected / 4,
    };
    for (service, servers, in_flight, capacity, rate, departed, rejected, bid) in [
        ("checkout", 6, 5, None, 70, 58, 0, 140),
        ("catalogue", 12, 41, Some(60), 150, 96, 0, 0),
        ("payment", 4, 12, Some(12), 40, 39, 7, 0),
        ("search", 8, 21, None, 95, 99, 0, 0),
        ("recommendations", 5, 9, Some(40), 88, 37, 0, 0),
        ("reviews", 3, 2, None, 60, 11, 0, 0),
    ] {
        for i in 0..servers {
            let load = Load {
                service: service.into(),
                in_flight: in_flight + i % 3,
                capacity,
                service_rate: Some(rate as f64 + i as f64),
                departed: departed + i,
                events: events(departed, rejected, bid),
                swing: if departed > 50 { 0.1 } else { 0.35 },
                latency: Some(ServerLatency {
                    response: times(departed, 1_000 / rate + in_flight),
                    execution: times(departed, 1_000 / rate),
                    arrivals: vec![
                        1,
                        10 * departed,
                        departed * departed + 14 * departed,
                        10 * departed * departed,
                        100 * departed * departed,
                    ],
                }),
            };
            fleet.add(Proxy { id: format!("{service}-{i}"), serves: vec![load], ..Proxy::default() });
        }
    }
    let all = ["checkout", "catalogue", "payment", "search", "recommendations", "reviews", "images"].map(str::to_owned);
    for i in 0..9 {
        let reports = all[..6].iter().zip([60, 190, 25, 130, 30, 6]);
        let reports = reports.map(|(service, departed)| {
            let exhausted = if service == "payment" { departed / 10 } else { 0 };
            let calls = Calls { requests: departed, exhausted, retried: departed / 5, ..Calls::default() };
            ServiceCalls::new(service, calls, times(departed, 2_000 / departed))
        });
        let (calls, reports) = (all.to_vec(), reports.collect());
        fleet.add(Proxy { id: format!("gateway-{i}"), calls, reports, refuses: i == 8, ..Proxy::default() });
    }
    let publish = |yaml: String| fleet.store.publish(Snapshot::from_yaml(&yaml).unwrap(), Reach::default());
    let first = yaml.replace("limit: 40", "limit: 45");
    publish(first.clone());
    publish(first.replace("retries: 2", "retries: 3, resetInterval: 500ms"));
    let refusal = "services.reviews.headroom: 1.5 is not allowed; allowed: a number above 0 and at most 1";
    fleet.store.refuse("file:services.yaml", refusal);
    fleet
}

/// A report of so many requests with this median, in milliseconds.
fn times(requests: u64, median: u64) -> Histogram {
    let middle = bucket(median * 1_000_000);
    let counts =
        [(middle - 8, requests / 4), (middle, requests / 2), (middle + 12, requests / 5), (middle + 20, requests / 30)];
    Histogram {
        sum_us: requests * median * 1_000,
        counts: counts.into_iter().filter(|(_, count)| *count > 0).collect(),
    }
}

async fn take(browser: &Browser, fleet: &Fleet, scheme: &str, view: &str, name: &str) {
    browser.scheme(scheme).await;
    browser.open("about:blank").await;
    browser.open(&format!("{}/{view}", fleet.url)).await;
    browser.until_shown("#attention", "gateway-8").await;
    browser.until("document.querySelector('svg path')?.getAttribute('d').split('L').length > 85").await;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(name);
    browser.picture(&path).await;
    println!("{}: {} bytes", path.display(), std::fs::metadata(&path).unwrap().len());
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "writes the picture of the README"]
async fn writes_the_picture_of_the_readme() {
    in_browser(|browser| async move {
        let fleet = shop().await;
        browser.size(1280, 760).await;
        take(&browser, &fleet, "light", "", "page.png").await;
        if std::env::var_os("MORE_PICTURES").is_some() {
            take(&browser, &fleet, "dark", "", "target-page-dark.png").await;
            browser.size(1280, 1400).await;
            take(&browser, &fleet, "light", "#/service/payment", "target-page-service.png").await;
            browser.size(390, 1200).await;
            take(&browser, &fleet, "dark", "", "target-page-phone.png").await;
            take(&browser, &fleet, "light", "#/service/payment", "target-page-phone-service.png").await;
        }
    })
    .await;
}
