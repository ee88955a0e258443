//! What the page shows about proxies, in virtual time.

use super::tests::World;
use super::*;
use std::time::Duration;
use tokio::time::advance;

/// The proxy `lagging`, which calls `a`, gets answers for 10 s and takes none.
async fn let_it_lag(world: &World, version: &str) {
    for _ in 0..2 {
        world.answered("lagging", version, &["a"]).await;
        advance(Duration::from_secs(5)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn counts_connected_stale_and_absent_proxies_apart() {
    let world = World::new("services: {a: {}, b: {}}");
    let version = world.answered("held", "", &["a"]).await.version;
    let _poll = world.held("held", &version, &["a"]).await;
    world.answered("gone", "", &["a"]).await;
    let_it_lag(&world, "").await;
    let status = world.store.status();
    assert_eq!(status.proxies, ProxyCounts { connected: 2, current: 1, stale: 1, elsewhere: 1 });
    assert_eq!(status.stale.iter().map(|sender| &*sender.proxy).collect::<Vec<_>>(), ["lagging"]);
    assert_eq!(status.services.iter().map(|service| service.senders).collect::<Vec<_>>(), [2, 0]);
    let senders = world.store.service_report("a").unwrap().senders;
    let shown = senders.iter().map(|sender| (&*sender.proxy, sender.state, &sender.seen[14..19])).collect::<Vec<_>>();
    let expected = [
        ("gone", ProxyState::Elsewhere, "16:30"),
        ("held", ProxyState::Current, "16:40"),
        ("lagging", ProxyState::Stale, "16:35"),
    ];
    assert_eq!(shown, expected);
    assert!(world.store.service_report("none").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_proxy_whose_version_is_in_force_again_is_not_stale() {
    let world = World::new("services: {a: {}}");
    let version = world.answered("lagging", "", &["a"]).await.version;
    world.publish("services: {a: {retries: 1}}");
    let_it_lag(&world, &version).await;
    assert_eq!(world.store.counts().proxies_stale, 1);
    world.publish("services: {a: {}}");
    assert_eq!(world.store.counts().proxies_stale, 0);
}

#[tokio::test(start_paused = true)]
async fn is_ready_from_the_first_services_until_it_closes() {
    let world = World::empty();
    assert!(!world.store.status().ready);
    world.publish("services: {}");
    assert!(world.store.status().ready);
    world.store.close();
    assert!(!world.store.status().ready);
}
