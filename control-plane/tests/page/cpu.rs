//! The CPU of applications, as node agents report it.

use crate::browser::in_browser;
use crate::fleet::Fleet;
use bloc_control_plane::Store;
use bloc_control_plane::agents::cpu::CpuMessage;
use serde_json::{Value, json};
use std::time::Duration;

fn tell(store: &Store, node: &str, name: &str, observed: bool, containers: &[Value]) {
    let app = json!({"name": name, "observed": observed, "limit": 4, "free": 1.25, "containers": containers});
    let message = json!({"node": node, "apps": [app]}).to_string();
    assert!(store.receive_cpu(&CpuMessage::read(message.as_bytes()).unwrap()).is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_shows_quota_use_slack_and_throttling_of_each_container() {
    in_browser(|browser| async move {
        let fleet = Fleet::start("services: {shop: {}}", Duration::from_secs(1)).await;
        browser.open(&fleet.url).await;
        browser.until_shown("#service-rows", "shop").await;
        assert!(!browser.value::<bool>("document.querySelector('#cpu').checkVisibility()").await);
        let hot = json!({"pod": "checkout-0", "container": "app", "quota": 2, "used": 1.75, "throttled": 0.25});
        let cold = json!({"pod": "checkout-1", "container": "app", "quota": 0.75, "used": 0.05, "throttled": 0});
        tell(&fleet.store, "n1", "shop/checkout", false, &[hot, cold]);
        let free = |i| json!({"pod": format!("b-{i}"), "container": "c", "used": 0.1, "throttled": 0});
        tell(&fleet.store, "n2", "shop/checkout", true, &(0..31).map(free).collect::<Vec<_>>());
        browser.until("document.querySelectorAll('#cpu-rows tr').length === 1 + 2 + 1 + 30 + 1").await;
        let rows: Vec<Vec<String>> = browser
            .value(
                "[...document.querySelectorAll('#cpu-rows tr')].map(row => [...row.cells].map(cell => cell.innerText))",
            )
            .await;
        assert_eq!(rows[0], ["shop/checkout", "n1", "4.00", "1.25", "2.75", "1.80", "0.95", ""]);
        assert_eq!(rows[1], ["checkout-0/app", "", "", "", "2.00", "1.75", "0.25", "25%"]);
        assert_eq!(rows[2], ["checkout-1/app", "", "", "", "0.75", "0.05", "0.70", "0%"]);
        assert_eq!(rows[3][..5], ["shop/checkout (observed: not in force)", "n2", "4.00", "1.25", "–"]);
        assert_eq!((&*rows[4][0], &*rows[4][4], &*rows[34][0]), ("b-0/c", "–", "and 1 more"));
        assert_eq!(browser.count("#cpu-rows td[data-tone=warn]").await, 1);
        assert_eq!(browser.console().await, Vec::<String>::new());
    })
    .await;
}
