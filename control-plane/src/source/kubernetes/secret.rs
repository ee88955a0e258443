//! The key with which replicas [seal](crate::store) versions: 32 random bytes in a Secret in the
//! control plane's own namespace.
//!
//! The first replica creates it. If two do so at once, the API server accepts one, and the other
//! replica reads that. It is read once: for a new key, delete the Secret and then restart all
//! replicas. If the Secret cannot be read or created, or its content is bad, the replica serves
//! without seals, reports that among the refusals, and tries again. Bad content is never
//! overwritten.

use crate::source::Publisher;
use crate::store::KEY_BYTES;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::{Api, Client, Error};
use ring::rand::{SecureRandom, SystemRandom};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// The name of the Secret; the rights to it are in `rbac.yaml`.
const NAME: &str = "bloc-control-plane-seal";
/// The key of its data.
const KEY: &str = "key";
/// How long a starting replica waits for the Secret before it serves without one.
const SECRET_TIMEOUT: Duration = Duration::from_secs(5);
/// The pause between tries while the API server does not answer.
const RETRY: Duration = Duration::from_millis(200);
const LEAST_PAUSE: Duration = Duration::from_secs(1);
const MOST_PAUSE: Duration = Duration::from_secs(60);

/// Why there is no key.
#[derive(Debug, thiserror::Error)]
enum KeyError {
    #[error("cannot be read or created: {0}")]
    Api(#[from] Error),
    #[error("cannot be read or created: no answer within 5s")]
    Late,
    #[error("data.key: missing; allowed: {KEY_BYTES} bytes; delete the Secret and restart the control plane")]
    Absent,
    #[error(
        "data.key: {0} bytes are not allowed; allowed: {KEY_BYTES} bytes; delete the Secret and restart the control plane"
    )]
    Length(usize),
    #[error("cannot be created: the system gives no random bytes")]
    Random,
}

/// The Secret in a namespace.
pub struct SealSecret {
    api: Api<Secret>,
    origin: String,
    /// The refusal that was reported last.
    said: Option<String>,
}

impl SealSecret {
    /// The Secret in the control plane's own namespace.
    pub fn new(client: Client, namespace: &str) -> Self {
        let origin = format!("Secret {namespace}/{NAME}");
        Self { api: Api::namespaced(client, namespace), origin, said: None }
    }

    /// Reads or creates the key; returns whether versions have seals from now on.
    pub async fn settle(&mut self, publisher: &Publisher) -> bool {
        match timeout(SECRET_TIMEOUT, answered(&self.api)).await.unwrap_or(Err(KeyError::Late)) {
            Ok(key) => {
                publisher.store().seal_with(&key);
                if self.said.take().is_some() {
                    publisher.resolve(&self.origin);
                }
                tracing::info!(secret = self.origin, "versions are sealed");
                true
            }
            Err(error) => {
                let reason = format!("{}: {error}", self.origin);
                if self.said.as_ref() != Some(&reason) {
                    publisher.refuse(&self.origin, &reason);
                    tracing::warn!(
                        "versions have no seal: a proxy that moves to a replica that knows less may get an older state until that one has caught up"
                    );
                    self.said = Some(reason);
                }
                false
            }
        }
    }

    /// Tries again until [`settle`](Self::settle) succeeds.
    pub async fn retry_until_settled(mut self, publisher: Publisher) {
        let mut pause = LEAST_PAUSE;
        loop {
            sleep(pause.mul_f64(0.5 + 0.5 * fastrand::f64())).await;
            if self.settle(&publisher).await {
                return;
            }
            pause = pause.saturating_mul(2).min(MOST_PAUSE);
        }
    }
}

/// The key, as soon as the API server answers: a sidecar that starts together with us refuses
/// connections for a moment.
async fn answered(api: &Api<Secret>) -> Result<[u8; KEY_BYTES], KeyError> {
    loop {
        match key(api).await {
            Err(KeyError::Api(error)) if !matches!(error, Error::Api(_)) => {
                tracing::info!(%error, "cannot reach the Kubernetes API yet");
                sleep(RETRY).await;
            }
            other => return other,
        }
    }
}

async fn key(api: &Api<Secret>) -> Result<[u8; KEY_BYTES], KeyError> {
    if let Some(secret) = api.get_opt(NAME).await? {
        return read(&secret);
    }
    let mut key = [0; KEY_BYTES];
    SystemRandom::new().fill(&mut key).map_err(|_| KeyError::Random)?;
    let secret = Secret {
        metadata: ObjectMeta { name: Some(NAME.to_owned()), ..ObjectMeta::default() },
        // For another key, the Secret has to be deleted: replicas do not read changes.
        immutable: Some(true),
        data: Some(BTreeMap::from([(KEY.to_owned(), ByteString(key.to_vec()))])),
        ..Secret::default()
    };
    match api.create(&PostParams::default(), &secret).await {
        Ok(secret) => read(&secret),
        // Another replica was faster.
        Err(Error::Api(status)) if status.code == 409 => read(&api.get(NAME).await?),
        Err(error) => Err(error.into()),
    }
}

fn read(secret: &Secret) -> Result<[u8; KEY_BYTES], KeyError> {
    let key = secret.data.as_ref().and_then(|data| data.get(KEY)).ok_or(KeyError::Absent)?;
    key.0.as_slice().try_into().map_err(|_| KeyError::Length(key.0.len()))
}
