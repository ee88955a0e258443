//! The fuzz targets of what the control plane reads from others. What the filters read, the corpus
//! format and the scripts are in `filters/fuzz`.
//!
//! | target | reads | what must hold |
//! |---|---|---|
//! | [`sync_request`] | `POST /v1/sync` and the caller's identity | what is accepted reads the same again; the signals made of it are numbers |
//! | [`agent_message`] | `POST /v1/cpu` of node agents | what is accepted is within the allowed ranges; what is known of each pod is numbers |

use axum::http::{HeaderMap, HeaderValue};
use bloc_control_plane::agents::cpu::{CpuMessage, Cpus};
use bloc_control_plane::http::identity::{self, Identity, Peer};
use bloc_control_plane::load::ReportInterval;
use bloc_control_plane::store::Poll;
use bloc_control_plane::{Clock, Store};
use bloc_fuzz::Target;
use bloc_policy::config::ConfigError;
use bloc_policy::sync::SyncRequest;
use futures_util::FutureExt;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::{Duration, UNIX_EPOCH};
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;

/// The targets by name.
pub const TARGETS: [(&str, Target); 2] = [("agent_message", agent_message), ("sync_request", sync_request)];

thread_local! {
    static RUNTIME: Runtime = Builder::new_current_thread().enable_time().build().expect("a runtime");
}

/// A poll: `x-forwarded-client-cert`, a line break, the body.
pub fn sync_request(data: &[u8]) {
    let (header, body) = data.split_at(data.iter().position(|&byte| byte == b'\n').unwrap_or(0));
    let spiffe = spiffe(header);
    let Ok(mut request) = ConfigError::read_json::<SyncRequest>(body) else { return };
    let text = serde_json::to_vec(&request).expect("what was read can be written");
    assert_eq!(ConfigError::read_json::<SyncRequest>(&text).as_ref(), Ok(&request), "read again");
    if let Some(spiffe) = &spiffe
        && identity::confine(spiffe, &mut request).is_ok()
    {
        let namespace = spiffe.split('/').nth(4).expect("a namespace");
        let named = request.serves.iter().chain(request.load.iter().map(|load| &load.service));
        let foreign = named.into_iter().find(|service| service.split('.').nth(1) != Some(namespace));
        assert_eq!(foreign, None, "{spiffe} speaks for another namespace");
        assert!(request.proxy.contains(&format!(".{namespace}~")), "{spiffe} goes by {:?}", request.proxy);
    }
    let Ok(poll) = Poll::try_from(request) else { return };
    take(poll.from(spiffe));
}

/// A node agent's message, heard three times, a second apart.
pub fn agent_message(data: &[u8]) {
    let Ok(message) = CpuMessage::read(data) else { return };
    RUNTIME.with(|runtime| {
        runtime.block_on(async {
            let now = Instant::now();
            let mut cpus = Cpus::new(ReportInterval::default(), now);
            for second in 0..3 {
                let now = now + Duration::from_secs(second);
                cpus.receive(&message, now);
                for pod in &message.pods {
                    let known = cpus.known(&pod.key(), now).unwrap_or_default();
                    let numbers = [known.cores, known.used, known.per_request_us];
                    let sane = |number: &f64| number.is_finite() && *number >= 0.0;
                    assert!(numbers.iter().flatten().all(sane), "{known:?}");
                }
                serde_json::to_vec(&cpus.apps(usize::MAX, now).0).expect("operators see it");
                let answers = cpus.asks.answers(&message.asks);
                assert!(answers.iter().all(|of| of.count == 0 && of.seconds == 0.0), "nobody has answered");
            }
        });
    });
}

/// The SPIFFE id that this header proves, if any.
fn spiffe(header: &[u8]) -> Option<String> {
    let mut headers = HeaderMap::new();
    headers.insert("x-forwarded-client-cert", HeaderValue::from_bytes(header).ok()?);
    let peer = |ip: Ipv4Addr| Some(Peer(SocketAddr::from((ip, 1))));
    // The seeds have no `By=`.
    let identity = Identity::Spiffe("cluster.local".parse().ok());
    assert!(identity.of(&headers, peer(Ipv4Addr::new(10, 0, 0, 1))).is_err(), "not from the sidecar");
    identity.of(&headers, peer(Ipv4Addr::LOCALHOST)).ok().flatten()
}

/// The store handles the poll twice, so that it can compute rates.
fn take(poll: Poll) {
    RUNTIME.with(|runtime| {
        let _inside = runtime.enter();
        let store = Store::new("fuzz", Clock::new(|| UNIX_EPOCH), "1s".parse().expect("an interval"));
        for _ in 0..2 {
            // A store without services holds every poll; dropping it releases it.
            let _ = store.sync(poll.clone()).now_or_never();
        }
        assert_eq!(store.counts().polls_held, 0);
        for (signals, _) in store.signals().values() {
            let numbers = [signals.arrival_rate_per_second, signals.service_rate_per_second, signals.utilisation_ratio];
            let sane = |number: &f64| number.is_finite() && *number >= 0.0;
            assert!(numbers.iter().flatten().all(sane), "{signals:?}");
        }
        serde_json::to_vec(&store.history()).expect("operators see it");
    });
}
