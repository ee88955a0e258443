//! It follows what happens without a reload, and shows whatever comes from outside as text.

use crate::browser::in_browser;
use crate::common::Server;

#[tokio::test(flavor = "multi_thread")]
async fn a_change_appears_without_a_reload() {
    in_browser(|browser| async move {
        let server = Server::start("services: {backend: {}, other: {}}").await;
        browser.open(&server.url).await;
        browser.until_shown("#service-rows", "backend").await;
        assert_eq!(browser.count("#service-rows tr").await, 2);
        assert_eq!(browser.text("#attention-title").await, "Nothing needs attention");
        let _: i64 = browser.value("window.sameDocument = 1").await;

        server.write("services: {backend: {retries: 7, routing: mu}, third: {}}");
        browser.until_shown("#service-rows", "third").await;
        browser.until_shown("#events", "retries: default → 7").await;
        let rows = browser.text("#service-rows").await;
        assert!(rows.contains("mu") && !rows.contains("other"), "{rows}");
        assert!(browser.text("#events").await.contains("other removed"));
        assert_eq!(browser.value::<i64>("window.sameDocument").await, 1);
        server.stop().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_configuration_is_at_the_top_until_it_is_mended() {
    in_browser(|browser| async move {
        let server = Server::start("services: {backend: {}}").await;
        browser.open(&server.url).await;
        browser.until_shown("#attention-title", "Nothing needs attention").await;
        server.write("services: {backend: {retries: 11}}");
        let refusal = "services.backend.retries: 11 is not allowed, only 0 to 10";
        browser.until_shown("#attention", refusal).await;
        assert_eq!(browser.text("#attention .word").await, "refused");
        assert!(browser.text("#events").await.contains(refusal));
        assert_eq!(browser.value::<String>("document.title").await, "(1) BLOC");
        browser.until_shown("#service-rows", "backend").await;
        // Who cannot see it is told.
        browser.until(&format!("document.querySelector('[role=status]').textContent.includes({refusal:?})")).await;

        server.write("services: {backend: {retries: 10}}");
        browser.until_shown("#attention-title", "Nothing needs attention").await;
        browser.until_shown("#events", "refused, mended since").await;
        assert_eq!(browser.value::<String>("document.title").await, "BLOC");
        server.stop().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn names_are_text_whatever_they_look_like() {
    in_browser(|browser| async move {
        let name = "<img/src=x/onerror=window.harm=1>&amp;%2F/'\\";
        let server = Server::start(&format!("services: {{{name:?}: {{}}}}")).await;
        server.state("<script>window.harm=2</script>", "", &[name]).await;
        browser.open(&server.url).await;
        browser.until_shown("#service-rows", name).await;
        server.write("services: {'<b>': {nonsense: '<img src=x onerror=window.harm=3>'}}");
        browser.until_shown("#attention", "unknown field `nonsense`").await;
        // Its own view is found under whatever its name makes of the address.
        let _: () = browser.value("void document.querySelector('#service-rows a').click()").await;
        browser.until_shown("#service", "<script>window.harm=2</script>").await;
        assert_eq!(browser.text("#service-title").await, name);
        assert_eq!(browser.count("main img, main script, main b").await, 0);
        assert!(browser.value::<bool>("window.harm === undefined").await);
        assert_eq!(browser.console().await, Vec::<String>::new(), "nothing was blocked, nothing failed");

        // Even a script that got into the document would not run.
        let inject = "(() => { const s = document.createElement('script'); s.textContent = 'window.harm = 4'; document.body.append(s); \
                      document.body.setAttribute('onclick', 'window.harm = 5'); document.body.click(); return window.harm === undefined; })()";
        assert!(browser.value::<bool>(inject).await);
        let blocked = browser.console().await;
        assert!(blocked.iter().any(|line| line.contains("Content Security Policy")), "{blocked:?}");
        server.stop().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_control_plane_that_is_gone_is_said_to_be_gone() {
    in_browser(|browser| async move {
        let server = Server::start("services: {backend: {}}").await;
        browser.open(&server.url).await;
        browser.until_shown("#connection", "live").await;
        server.stop().await;
        browser.until_shown("#connection", "no answer, last at").await;
        assert!(browser.text("#service-rows").await.contains("backend"), "what was known stays");
    })
    .await;
}
