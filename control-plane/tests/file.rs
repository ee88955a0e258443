//! All ways in which a services file may change, or fail to.
#![allow(missing_docs, reason = "tests")]

mod common;

use common::{Server, metric, state};
use reqwest::{Response, StatusCode};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::time::Duration;
use tokio::task::JoinHandle;

const ONE: &str = "services: {a: {retries: 1}}";

async fn holding(yaml: &str) -> (Server, String, JoinHandle<Response>) {
    let server = Server::start(yaml).await;
    let version = server.state("p", "", &["a"]).await.version;
    let poll = server.hold("p", &version, &["a"]).await;
    (server, version, poll)
}

/// The refusal in force; empty: none.
fn refusal(server: &Server) -> String {
    server.store.status().refusals.into_iter().filter_map(|refusal| refusal.message).collect()
}

/// The held poll is answered with the change. If its wait ended first, the answer would be 304.
async fn expect_retries(poll: JoinHandle<Response>, retries: u32) {
    assert_eq!(state(poll).await.services["a"].retries, Some(retries.into()));
}

#[tokio::test]
async fn notices_a_file_that_is_replaced_by_rename() {
    let (server, _, poll) = holding(ONE).await;
    let beside = server.path().with_extension("new");
    std::fs::write(&beside, "services: {a: {retries: 2}}").unwrap();
    std::fs::rename(beside, server.path()).unwrap();
    expect_retries(poll, 2).await;
    server.stop().await;
}

#[tokio::test]
async fn notices_an_edit_behind_a_symbolic_link() {
    // As Kubernetes mounts a ConfigMap: services.yaml -> ..data/services.yaml, ..data -> a
    // directory that is swapped.
    let elsewhere = tempfile::tempdir().unwrap();
    let generation = |name: &str, yaml: &str| {
        std::fs::create_dir(elsewhere.path().join(name)).unwrap();
        std::fs::write(elsewhere.path().join(name).join("services.yaml"), yaml).unwrap();
        symlink(name, elsewhere.path().join("data.new")).unwrap();
        std::fs::rename(elsewhere.path().join("data.new"), elsewhere.path().join("data")).unwrap();
    };
    let server = Server::start(ONE).await;
    generation("1", "services: {a: {retries: 2}}");
    std::fs::remove_file(server.path()).unwrap();
    symlink(elsewhere.path().join("data/services.yaml"), server.path()).unwrap();
    server.until(|server| server.store.service_report("a").unwrap().spec.retries == Some(2)).await;
    let version = server.state("p", "", &["a"]).await.version;
    let poll = server.hold("p", &version, &["a"]).await;
    generation("2", "services: {a: {retries: 3}}");
    expect_retries(poll, 3).await;
    server.stop().await;
}

#[tokio::test]
async fn notices_an_edit_of_the_same_size_and_time_stamp() {
    let (server, _, poll) = holding(ONE).await;
    let modified = std::fs::metadata(server.path()).unwrap().modified().unwrap();
    let mut file = std::fs::OpenOptions::new().write(true).open(server.path()).unwrap();
    file.write_all(b"services: {a: {retries: 2}}").unwrap();
    file.set_modified(modified).unwrap();
    drop(file);
    expect_retries(poll, 2).await;
    server.stop().await;
}

#[tokio::test]
async fn refuses_a_bad_file_and_keeps_the_last_good_one() {
    let (server, version, poll) = holding(ONE).await;
    server.write("services: {a: {retries: 11}}");
    server.until(|server| !server.store.status().refusals.is_empty()).await;
    assert!(refusal(&server).contains("services.a.retries: 11 is not allowed; allowed: 0 to 10"));
    assert_eq!(server.version(), version);
    assert_eq!(server.store.service_report("a").unwrap().spec.retries, Some(1));
    assert_eq!(server.get("/readyz").await.0, StatusCode::OK);

    std::fs::remove_file(server.path()).unwrap();
    server.until(|s| refusal(s).contains("cannot be read")).await;
    let (_, metrics) = server.get("/metrics").await;
    assert_eq!(metric(&metrics, "bloc_config_rejected_total"), 2.0, "each refusal counts once");
    assert!(!poll.is_finished());

    // Restoring the file changes nothing; a new value does.
    server.write(ONE);
    server.until(|server| server.store.status().refusals.is_empty()).await;
    assert_eq!(server.version(), version);
    assert!(!poll.is_finished());
    server.write("services: {a: {retries: 2}}");
    expect_retries(poll, 2).await;
    server.stop().await;
}

#[tokio::test]
async fn writing_the_same_content_again_changes_nothing() {
    let (server, version, poll) = holding(ONE).await;
    for _ in 0..3 {
        server.write(ONE);
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    server.write("services: {a: {retries: 1}} # a comment");
    let accepted = |text: &str| metric(text, "bloc_config_accepted_total") == 2.0;
    let mut metrics = String::new();
    for _ in 0..200 {
        metrics = server.get("/metrics").await.1;
        if accepted(&metrics) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(accepted(&metrics), "{metrics}");
    assert_eq!(server.version(), version);
    assert!(!poll.is_finished());
    server.stop().await;
}
