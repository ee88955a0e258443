//! The page updates without a reload, and shows text from outside as text.

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
async fn shows_a_refused_configuration_at_the_top_until_it_is_fixed() {
    in_browser(|browser| async move {
        let server = Server::start("services: {backend: {}}").await;
        browser.open(&server.url).await;
        browser.until_shown("#attention-title", "Nothing needs attention").await;
        server.write("services: {backend: {retries: 11}}");
        let refusal = "services.backend.retries: 11 is not allowed; allowed: 0 to 10";
        browser.until_shown("#attention", refusal).await;
        assert_eq!(browser.text("#attention .word").await, "refused");
        assert!(browser.text("#events").await.contains(refusal));
        assert_eq!(browser.value::<String>("document.title").await, "(1) BLOC");
        browser.until_shown("#service-rows", "backend").await;
        // A screen reader announces it.
        browser.until(&format!("document.querySelector('[role=status]').textContent.includes({refusal:?})")).await;

        server.write("services: {backend: {retries: 10}}");
        browser.until_shown("#attention-title", "Nothing needs attention").await;
        browser.until_shown("#events", "refused, fixed since").await;
        assert_eq!(browser.value::<String>("document.title").await, "BLOC");
        server.stop().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn shows_names_that_contain_markup_as_plain_text() {
    in_browser(|browser| async move {
        let name = "<img/src=x/onerror=window.harm=1>&amp;%2F/'\\";
        let server = Server::start(&format!("services: {{{name:?}: {{}}}}")).await;
        server.state("<script>window.harm=2</script>", "", &[name]).await;
        browser.open(&server.url).await;
        browser.until_shown("#service-rows", name).await;
        server.write("services: {'<b>': {nonsense: '<img src=x onerror=window.harm=3>'}}");
        browser.until_shown("#attention", "unknown field `nonsense`").await;
        // The link to a service works with any name.
        let _: () = browser.value("void document.querySelector('#service-rows a').click()").await;
        browser.until_shown("#service", "<script>window.harm=2</script>").await;
        assert_eq!(browser.text("#service-title").await, name);
        assert_eq!(browser.count("main img, main script, main b").await, 0);
        assert!(browser.value::<bool>("window.harm === undefined").await);
        assert_eq!(browser.console().await, Vec::<String>::new(), "nothing was blocked, nothing failed");

        // Even a script inserted into the document would not run.
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
async fn says_that_the_control_plane_does_not_answer() {
    in_browser(|browser| async move {
        let server = Server::start("services: {backend: {}}").await;
        browser.open(&server.url).await;
        browser.until_shown("#connection", "live").await;
        server.stop().await;
        browser.until_shown("#connection", "no answer, last at").await;
        assert!(browser.text("#service-rows").await.contains("backend"), "the last known state stays");
    })
    .await;
}
