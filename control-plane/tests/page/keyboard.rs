//! Use by keyboard and screen reader.

use crate::browser::in_browser;
use crate::common::Server;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use thirtyfour::Key;

const FOCUSED: &str = "document.activeElement.id || document.activeElement.textContent";

#[tokio::test(flavor = "multi_thread")]
async fn the_page_can_be_used_with_the_keyboard_alone() {
    in_browser(|browser| async move {
        let server = Server::start("services: {alpha: {}, beta: {}, gamma: {}}").await;
        browser.open(&server.url).await;
        browser.until_shown("#service-rows", "gamma").await;
        browser.press(Key::Tab).await;
        assert_eq!(browser.value::<String>(FOCUSED).await, "Skip to the content");
        assert!(browser.value::<bool>("document.activeElement.getBoundingClientRect().left >= 0").await);
        browser.press(Key::Enter).await;
        assert_eq!(browser.value::<String>(FOCUSED).await, "main");

        browser.press("/").await;
        assert_eq!(browser.value::<String>(FOCUSED).await, "filter");
        browser.press("BET").await;
        browser.until("document.querySelectorAll('#service-rows tr').length === 1").await;
        assert_eq!(browser.text("#services-count").await, "1 of 3");

        // Past the filter, the sort order and the scrolling region, to the link.
        for _ in 0..3 {
            browser.press(Key::Tab).await;
        }
        assert_eq!(browser.value::<String>(FOCUSED).await, "beta");
        let outline = "getComputedStyle(document.activeElement).outlineStyle !== 'none' && document.activeElement.matches(':focus-visible')";
        assert!(browser.value::<bool>(outline).await, "the focus is visible");
        browser.press(Key::Enter).await;
        browser.until_shown("#service", "Parameters in force").await;
        assert_eq!(browser.value::<String>(FOCUSED).await, "service-title");
        assert!(!browser.value::<bool>("document.querySelector('#services').checkVisibility()").await);
        browser.press(Key::Escape).await;
        browser.until("document.querySelector('#services').checkVisibility()").await;
        assert_eq!(browser.value::<String>(FOCUSED).await, "beta", "the focus returns to the link");
        server.stop().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_focus_stays_while_rows_come_and_go() {
    in_browser(|browser| async move {
        let server = Server::start("services: {b: {}, c: {}}").await;
        browser.open(&server.url).await;
        browser.until_shown("#service-rows", "c").await;
        let _: () = browser.value("void document.querySelectorAll('#service-rows a')[1].focus()").await;
        server.write("services: {a: {}, c: {}, d: {}}");
        browser.until("document.querySelectorAll('#service-rows tr').length === 3").await;
        assert_eq!(browser.value::<String>(FOCUSED).await, "c");
        assert_eq!(
            browser
                .value::<Vec<String>>("[...document.querySelectorAll('#service-rows th')].map(n => n.textContent)")
                .await,
            ["a", "c", "d"]
        );
        server.stop().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn screen_readers_find_landmarks_and_a_name_for_every_control() {
    in_browser(|browser| async move {
        let server = Server::start("services: {backend: {endpoints: ['127.0.0.1:1']}}").await;
        server.state("caller", "", &["backend"]).await;
        browser.open(&format!("{}/#/service/backend", server.url)).await;
        browser.until_shown("#service", "caller").await;
        let inside = tree(&browser.chrome("Accessibility.getFullAXTree", json!({})).await);
        assert!(inside.contains(&("table".into(), "Senders 1".into())), "{inside:?}");
        assert!(inside.contains(&("rowheader".into(), "caller".into())));

        browser.press(Key::Escape).await;
        browser.until_shown("#service-rows", "backend").await;
        let found = tree(&browser.chrome("Accessibility.getFullAXTree", json!({})).await);
        let has = |role: &str, name: &str| {
            assert!(found.contains(&(role.into(), name.into())), "{role} {name:?} in {found:?}")
        };
        has("banner", "");
        has("main", "");
        has("region", "Nothing needs attention");
        has("region", "Changes and refusals");
        has("searchbox", "Filter");
        has("combobox", "Sort by");
        has("columnheader", "Condition");
        has("rowheader", "backend");
        has("link", "backend");
        has("status", "");
        let nameless = ["link", "button", "searchbox", "combobox", "image", "heading", "columnheader"];
        let nameless: Vec<_> =
            found.iter().filter(|(role, name)| nameless.contains(&role.as_str()) && name.is_empty()).collect();
        assert_eq!(nameless, Vec::<&(String, String)>::new());
        server.stop().await;
    })
    .await;
}

/// Role and name of every element that is exposed to assistive technology.
fn tree(answer: &Value) -> BTreeSet<(String, String)> {
    let text = |node: &Value, field: &str| node[field]["value"].as_str().unwrap_or_default().to_owned();
    let nodes = answer["nodes"].as_array().unwrap().iter().filter(|node| node["ignored"] == false);
    nodes.map(|node| (text(node, "role"), text(node, "name"))).collect()
}
