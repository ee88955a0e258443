//! Calls that servers reject because they are full.

use super::client::{Kind, ours};
use super::mesh::{Caller, Pod, ROUTINGS};
use crate::support::{Place, eventually};
use serde_json::json;
use tonic::Code;

const CALLS: [(Kind, &[&str]); 4] =
    [(Kind::Echo, &["a"]), (Kind::Count, &["3"]), (Kind::Gather, &["a", "b"]), (Kind::Talk, &["a", "b"])];

async fn with_one_place(place: &Place, name: &str) -> Pod {
    Pod::start(place, name, json!({"capacity": {"estimator": "static", "limit": 1}})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rejected_call_is_served_elsewhere_or_ends_resource_exhausted() {
    let place = Place::new();
    let (one, two) = (with_one_place(&place, "one").await, with_one_place(&place, "two").await);
    let caller = Caller::start(&place, &[&one, &two], |_| ()).await;
    for way in ROUTINGS {
        let client = caller.client(way).await;
        // The call is at one of the two servers; which one is not known in advance.
        let mut held = vec![client.hold()];
        let inside = || one.app.at_once() + two.app.at_once();
        eventually("one inside", async || (inside() == 1).then_some(())).await;
        let (full, free) = if one.app.at_once() == 1 { (&one, &two) } else { (&two, &one) };
        let before = full.app.calls().len();
        let rejected = full.metric("rejected_capacity").await;
        for _ in 0..5 {
            for (kind, messages) in CALLS {
                let answer = client.call(kind, messages).await.unwrap();
                assert_ne!(answer.app(), full.sidecar.name(), "{way}, {kind:?}");
                // A stream ends at the caller before it ends at the server.
                free.has_in_flight(0).await;
            }
        }
        assert_eq!(full.app.calls().len(), before, "{way}: the full one's application saw nothing of it");
        eventually("rejections", async || (full.metric("rejected_capacity").await > rejected).then_some(())).await;

        held.push(client.hold());
        eventually("both inside", async || (inside() == 2).then_some(())).await;
        let before = one.app.calls().len() + two.app.calls().len();
        for (kind, messages) in CALLS {
            let status = client.call(kind, messages).await.unwrap_err();
            assert_eq!(status.code(), Code::ResourceExhausted, "{way}, {kind:?}: {status:?}");
            assert_eq!(ours(&status.metadata().clone().into_headers()), Vec::<String>::new(), "{way}, {kind:?}");
        }
        assert_eq!(one.app.calls().len() + two.app.calls().len(), before, "{way}: no application saw it");
        one.app.release(1);
        two.app.release(1);
        for held in held {
            held.await.unwrap().unwrap();
        }
        one.has_in_flight(0).await;
        two.has_in_flight(0).await;
    }
    eventually("the count of exhausted retries", async || {
        (caller.metric("retries_exhausted").await == (CALLS.len() * ROUTINGS.len()) as u64).then_some(())
    })
    .await;
}
