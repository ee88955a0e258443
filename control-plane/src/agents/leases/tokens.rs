//! Whether a token belongs to the node agent on a node.
//!
//! All agents have the same SPIFFE id. An agent's message applies to its node, so it must prove
//! which node it runs on: by a token of its service account that is bound to its pod. Kubernetes
//! 1.30 or later writes the pod's node into the token, and the API server returns it (TokenReview).
//!
//! A good token is remembered for [`KEPT`], any other for [`REFUSED`], by its digest. A review
//! takes one of [`REVIEWS`] places for at least [`A_SECOND`], and each claimed node has one: one
//! node's tokens do not hold up others. An agent may hang up before a slow review ends; the review
//! continues.

use crate::http::identity::{NodeAgent, forbidden};
use axum::http::StatusCode;
use bloc_daemon::lock;
use bloc_daemon::shares::{Share, Shares};
use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, TokenReviewStatus};
use kube::api::PostParams;
use kube::{Api, Client};
use sha2::{Digest, Sha256};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until, timeout};

/// The audience that a token must have.
pub const AUDIENCE: &str = "bloc-control-plane";
/// The key under which the API server reports the node of a token's pod.
const NODE: &str = "authentication.kubernetes.io/node-name";
/// How long a good token is remembered.
const KEPT: Duration = Duration::from_secs(60);
/// How long a bad token is remembered: it may become valid if clocks differ.
const REFUSED: Duration = Duration::from_secs(10);
/// The most reviews at a time: 50 a second if they are fast, and 2,000 nodes need 34. At most as
/// many tokens are remembered as are reviewed in [`KEPT`].
const REVIEWS: usize = 50;
/// The least time for which a review keeps its place.
const A_SECOND: Duration = Duration::from_secs(1);
const TIMEOUT: Duration = Duration::from_secs(4);

type Review = dyn Fn(String) -> BoxFuture<'static, Result<TokenReviewStatus, String>> + Send + Sync;

/// Checks tokens; clones share the results.
#[derive(Clone)]
pub struct Tokens {
    user: Arc<str>,
    review: Arc<Review>,
    /// Reviews, by claimed node.
    places: Shares,
    state: Arc<Mutex<State>>,
}

/// The node of the token's agent; or the refusal, without any part of the token.
type Checked = Result<String, (StatusCode, String)>;
type InFlight = Shared<BoxFuture<'static, Checked>>;
type Key = [u8; 32];

#[derive(Default)]
struct State {
    /// Results, and when they expire.
    known: HashMap<Key, (Checked, Instant)>,
    in_flight: HashMap<Key, InFlight>,
}

/// A review under way, until this is dropped.
struct Reviewing(Tokens, Key);

impl Drop for Reviewing {
    fn drop(&mut self) {
        lock(&self.0.state).in_flight.remove(&self.1);
    }
}

impl std::fmt::Debug for Tokens {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tokens").field("user", &self.user).finish_non_exhaustive()
    }
}

impl Tokens {
    /// The API server reviews tokens of `agent`.
    pub fn new(client: Client, agent: &NodeAgent) -> Self {
        let api = Api::<TokenReview>::all(client);
        let review = move |token: String| {
            let api = api.clone();
            let spec = TokenReviewSpec { token, audiences: Some(vec![AUDIENCE.to_owned()]) };
            async move {
                let (params, review) = (PostParams::default(), TokenReview { spec, ..TokenReview::default() });
                match timeout(TIMEOUT, api.create(&params, &review)).await {
                    Ok(Ok(review)) => review.status.ok_or_else(|| "the API server's response has no status".to_owned()),
                    Ok(Err(error)) => Err(error.to_string()),
                    Err(_) => Err(format!("no answer within {} s", TIMEOUT.as_secs())),
                }
            }
            .boxed()
        };
        Self::with(agent, review)
    }

    /// The same with another reviewer.
    pub fn with(
        agent: &NodeAgent,
        review: impl Fn(String) -> BoxFuture<'static, Result<TokenReviewStatus, String>> + Send + Sync + 'static,
    ) -> Self {
        let places = Shares::capped(1, REVIEWS);
        Self { user: agent.user().into(), review: Arc::new(review), places, state: Arc::default() }
    }

    /// Checks that a token belongs to the agent on `node`. A review continues, and its result is
    /// remembered, even if nobody waits. Must be called inside a tokio runtime.
    ///
    /// # Errors 401, 403, or 503 if it cannot be reviewed now; the reason has no part of the token.
    pub async fn check(&self, token: &str, node: &str) -> Result<(), (StatusCode, String)> {
        let key = Sha256::digest(token).into();
        let review = {
            let (mut state, now) = (lock(&self.state), Instant::now());
            if let Some(checked) = state.known(&key, now) {
                return is_of(&checked?, node);
            }
            if let Some(review) = state.in_flight.get(&key) {
                review.clone()
            } else {
                let place = self.places.take(node, 1).map_err(|_| {
                    let why = format!("more than {REVIEWS} new tokens a second, or more than one for node {node:?}");
                    (StatusCode::SERVICE_UNAVAILABLE, why)
                })?;
                let review = self.start(key, token.to_owned(), place);
                state.in_flight.insert(key, review.clone());
                review
            }
        };
        is_of(&review.await?, node)
    }

    /// Reviews a token in its own task.
    fn start(&self, key: Key, token: String, place: Share) -> InFlight {
        let (sender, receiver) = oneshot::channel();
        let until = Instant::now() + A_SECOND;
        let reviewing = Reviewing(self.clone(), key);
        tokio::spawn(async move {
            let Reviewing(tokens, key) = &reviewing;
            let reviewed = (tokens.review)(token).await;
            let unknown = |why| (StatusCode::SERVICE_UNAVAILABLE, format!("the token cannot be reviewed: {why}"));
            let checked = reviewed.map_err(unknown).and_then(|status| tokens.node(status));
            lock(&tokens.state).remember(*key, &checked, Instant::now());
            drop(reviewing);
            // The callers may have hung up.
            let _ = sender.send(checked);
            sleep_until(until).await;
            drop(place);
        });
        let ended = |_| Err((StatusCode::SERVICE_UNAVAILABLE, "the token review ended without a result".to_owned()));
        receiver.map(move |checked| checked.unwrap_or_else(ended)).boxed().shared()
    }

    /// The node of the agent whose token was reviewed.
    fn node(&self, status: TokenReviewStatus) -> Result<String, (StatusCode, String)> {
        // An API server that knows no audiences would accept a token made for another program.
        let is_ours = status.audiences.iter().flatten().any(|audience| audience == AUDIENCE);
        if status.authenticated != Some(true) || !is_ours {
            let why = status.error.unwrap_or_else(|| format!("allowed: a token for the audience {AUDIENCE:?}"));
            return Err((StatusCode::UNAUTHORIZED, format!("the token is not valid: {why}")));
        }
        let user = status.user.unwrap_or_default();
        let (name, allowed) = (user.username.unwrap_or_default(), &self.user);
        if *name != **allowed {
            return Err(forbidden("token", format!("that of {name:?}"), format!("that of {allowed}")));
        }
        match user.extra.unwrap_or_default().remove(NODE).as_deref() {
            Some([node]) => Ok(node.clone()),
            _ => {
                let why = "the token names no node; use one that is bound to a pod (Kubernetes 1.30 or later)";
                Err((StatusCode::FORBIDDEN, why.to_owned()))
            }
        }
    }
}

impl State {
    fn known(&self, key: &Key, now: Instant) -> Option<Checked> {
        self.known.get(key).filter(|(_, until)| *until > now).map(|(checked, _)| checked.clone())
    }

    fn remember(&mut self, key: Key, checked: &Checked, now: Instant) {
        let kept = match checked {
            Ok(_) => KEPT,
            // The API server gave no verdict.
            Err((StatusCode::SERVICE_UNAVAILABLE, _)) => return,
            Err(_) => REFUSED,
        };
        self.known.retain(|_, (_, until)| *until > now);
        self.known.insert(key, (checked.clone(), now + kept));
    }
}

fn is_of(own: &str, node: &str) -> Result<(), (StatusCode, String)> {
    if own == node {
        return Ok(());
    }
    Err(forbidden("node", format!("{node:?}"), format!("{own:?}, the node of the token")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::future::ready;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const USER: &str = "system:serviceaccount:bloc-node:bloc-node-agent";

    fn tokens(status: serde_json::Value) -> (Tokens, Arc<AtomicUsize>) {
        let reviews = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&reviews);
        let review = move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
            let answer = if status.is_null() { Err("away".to_owned()) } else { Ok(status.clone()) };
            ready(answer.map(|status| serde_json::from_value(status).unwrap())).boxed()
        };
        (Tokens::with(&NodeAgent::default(), review), reviews)
    }

    fn good() -> serde_json::Value {
        json!({"authenticated": true, "audiences": [AUDIENCE], "user": {"username": USER, "extra": {NODE: ["n1"]}}})
    }

    /// Lets `time` pass, and reviews give up their places.
    async fn after(time: Duration) {
        tokio::time::sleep(time + Duration::from_millis(1)).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_good_token_is_reviewed_once_a_minute_and_is_that_of_one_node() {
        let (tokens, reviews) = tokens(good());
        for _ in 0..3 {
            assert_eq!(tokens.check("t", "n1").await, Ok(()));
            let (status, why) = tokens.check("t", "n2").await.unwrap_err();
            assert_eq!(
                (status, &*why),
                (StatusCode::FORBIDDEN, r#"node: "n2" is not allowed; allowed: "n1", the node of the token"#)
            );
        }
        assert_eq!(reviews.load(Ordering::Relaxed), 1);
        after(A_SECOND).await;
        tokens.check("another", "n1").await.unwrap();
        assert_eq!(reviews.load(Ordering::Relaxed), 2);
        after(KEPT).await;
        tokens.check("t", "n1").await.unwrap();
        assert_eq!(reviews.load(Ordering::Relaxed), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_of_somebody_else_is_refused_and_remembered_for_ten_seconds() {
        let with = |member: &str, value: serde_json::Value| {
            let mut status = good();
            *status.pointer_mut(member).unwrap() = value;
            status
        };
        for (status, code, reason) in [
            (with("/authenticated", json!(false)), 401, "the token is not valid: allowed: a token for the audience"),
            (with("/audiences", json!([])), 401, "the token is not valid"),
            (with("/audiences", json!(["https://kubernetes.default.svc"])), 401, "the token is not valid"),
            (json!({"error": "expired"}), 401, "the token is not valid: expired"),
            (
                with("/user/username", json!("system:serviceaccount:shop:x")),
                403,
                "token: that of \"system:serviceaccount:shop:x\"",
            ),
            (with("/user/extra", json!({})), 403, "the token names no node"),
            (with("/user/extra", json!({NODE: ["n1", "n2"]})), 403, "the token names no node"),
            (serde_json::Value::Null, 503, "the token cannot be reviewed: away"),
        ] {
            let (tokens, reviews) = tokens(status);
            for (nth, reviewed) in [(1, 1), (2, if code == 503 { 2 } else { 1 }), (3, if code == 503 { 3 } else { 2 })]
            {
                // One review of a node each second, and the next one of the token after 10 s.
                after(if nth == 3 { REFUSED } else { A_SECOND }).await;
                let (status, why) = tokens.check("secret", "n1").await.unwrap_err();
                assert_eq!((status.as_u16(), why.starts_with(reason)), (code, true), "{why}");
                assert!(!why.contains("secret"));
                assert_eq!(reviews.load(Ordering::Relaxed), reviewed, "{why}");
            }
        }
    }

    /// A token `n1-...` is valid for `n1`; `junk` is not valid. A review takes `takes`.
    fn of_nodes(takes: Duration) -> (Tokens, Arc<AtomicUsize>) {
        let reviews = Arc::new(AtomicUsize::new(0));
        let counted = Arc::clone(&reviews);
        let review = move |token: String| {
            counted.fetch_add(1, Ordering::Relaxed);
            async move {
                tokio::time::sleep(takes).await;
                assert!(token != "panic");
                let mut status = good();
                status["user"]["extra"][NODE] = json!([token.split('-').next()]);
                status["authenticated"] = json!(!token.starts_with("junk"));
                Ok(serde_json::from_value(status).unwrap())
            }
            .boxed()
        };
        (Tokens::with(&NodeAgent::default(), review), reviews)
    }

    /// The status; none: good.
    async fn status(tokens: &Tokens, token: &str, node: &str) -> Option<u16> {
        tokens.check(token, node).await.err().map(|(status, _)| status.as_u16())
    }

    #[tokio::test(start_paused = true)]
    async fn reviews_are_limited_and_known_tokens_are_not() {
        let (tokens, reviews) = of_nodes(Duration::ZERO);
        for nth in 0..100 {
            let node = format!("n{nth}");
            assert_eq!(status(&tokens, &node, &node).await, (nth >= 50).then_some(503), "{nth}");
        }
        assert_eq!((reviews.load(Ordering::Relaxed), tokens.check("n0", "n0").await), (50, Ok(())));
        after(A_SECOND).await;
        assert_eq!(tokens.check("n99", "n99").await, Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_with_many_bad_tokens_takes_one_review_a_second() {
        let (tokens, reviews) = of_nodes(Duration::ZERO);
        for nth in 0..1_000 {
            let answer = status(&tokens, &format!("junk{nth}"), "bad").await;
            assert!(matches!(answer, Some(401 | 503)), "{answer:?}");
        }
        let why = tokens.check("junk", "bad").await.unwrap_err().1;
        assert_eq!(why, r#"more than 50 new tokens a second, or more than one for node "bad""#);
        assert_eq!((status(&tokens, "n1", "n1").await, reviews.load(Ordering::Relaxed)), (None, 2));
        for nth in 0..10_000 {
            tokio::time::advance(Duration::from_millis(20)).await;
            status(&tokens, &format!("junk{nth}"), &format!("bad{nth}")).await;
        }
        assert!(lock(&tokens.state).known.len() <= 10 * REVIEWS && tokens.places.taken() <= REVIEWS);
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_review_goes_on_when_the_agent_hangs_up() {
        let (tokens, reviews) = of_nodes(Duration::from_millis(3_500));
        for nth in 0..5 {
            let asks = [tokens.check("n1", "n1"), tokens.check("n1", "n1")];
            let answers = timeout(Duration::from_millis(800), futures_util::future::join_all(asks)).await;
            assert_eq!(answers.is_ok(), nth == 4, "{answers:?}");
        }
        assert_eq!((tokens.check("n1", "n1").await, reviews.load(Ordering::Relaxed)), (Ok(()), 1));
        assert!(lock(&tokens.state).in_flight.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_review_that_panics_is_over() {
        let (tokens, reviews) = of_nodes(Duration::ZERO);
        for nth in 1..3 {
            assert_eq!(status(&tokens, "panic", "n1").await, Some(503));
            assert_eq!(reviews.load(Ordering::Relaxed), nth);
            after(A_SECOND).await;
        }
    }
}
