//! The page with 500 services of 100 servers each.

use crate::browser::in_browser;
use crate::fleet::{Fleet, Load, Proxy};
use std::time::Duration;

const SERVICES: usize = 500;
const SERVERS: usize = 100;
/// The longest that a task may block the page, in ms; on a quiet machine it takes some 50.
const LONGEST_TASK: f64 = 5_000.0;

#[tokio::test(flavor = "multi_thread")]
async fn the_page_stays_responsive_with_500_services_of_100_servers() {
    in_browser(|browser| async move {
        let names: Vec<String> = (0..SERVICES).map(|i| format!("service-{i:03}")).collect();
        let yaml = format!("services: {{{}}}", names.iter().map(|name| format!("{name}: {{}}")).collect::<Vec<_>>().join(", "));
        let mut fleet = Fleet::start(&yaml, Duration::from_secs(1)).await;
        for server in 0..SERVERS {
            let load = |name: &String| Load { service: name.clone(), in_flight: 3, service_rate: Some(20.0), departed: 10, ..Load::default() };
            let serves = names.iter().map(load).collect();
            fleet.add(Proxy { id: format!("server-{server:03}"), calls: names.clone(), serves, ..Proxy::default() });
        }
        browser.open(&fleet.url).await;
        let observe = "void new PerformanceObserver(list => { window.longest = Math.max(window.longest ?? 0, ...list.getEntries().map(e => e.duration)); })\
                       .observe({type: 'longtask', buffered: true})";
        let _: () = browser.value(observe).await;
        browser.until("document.querySelectorAll('#service-rows tr').length === 100").await;
        // All servers of all services are counted: 100 each, with 3 requests in flight at each.
        browser.until("[...document.querySelectorAll('#service-rows tr')].every(row => row.cells[2].innerText === '100' && row.cells[6].innerText === '300')").await;
        for expected in [200, 300, 400, 500] {
            let _: () = browser.value("void document.querySelector('#more').click()").await;
            browser.until(&format!("document.querySelectorAll('#service-rows tr').length === {expected}")).await;
        }
        assert!(!browser.value::<bool>("document.querySelector('#more').checkVisibility()").await);
        browser.until("document.querySelectorAll('#service-rows svg path').length === 500").await;

        let _: () = browser.value("void (document.querySelector('#filter').focus())").await;
        browser.press("service-49").await;
        browser.until("document.querySelectorAll('#service-rows tr').length === 10").await;
        let _: () = browser.value("void document.querySelector('#service-rows a').click()").await;
        browser.until("document.querySelectorAll('[aria-labelledby=servers-title] tbody tr').length === 100").await;
        assert_eq!(browser.count("[aria-labelledby=senders-title] tbody tr").await, 100);
        let longest: f64 = browser.value("window.longest ?? 0").await;
        println!("the longest task took {longest} ms");
        assert!(longest < LONGEST_TASK, "{longest} ms");
    })
    .await;
}
