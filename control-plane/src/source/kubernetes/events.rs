//! Tells the owner of a ConfigMap that it was refused, by a Kubernetes Event that `kubectl
//! describe` shows.

use crate::digest;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use k8s_openapi::jiff::Timestamp;
use kube::api::PostParams;
use kube::{Api, Client, Error};

/// The longest note in Kubernetes, in bytes.
const MAX_NOTE: usize = 1024;
/// The part of a ConfigMap's name that is kept, so that the Event's name is short enough for
/// Kubernetes.
const MAX_NAME: usize = 200;
/// The name of the reporting controller.
const CONTROLLER: &str = "bloc.dev/control-plane";

/// Reports that `object` was refused for `reason`. Replicas name the same refusal alike, so that
/// there is one Event.
pub async fn report(client: Client, object: ObjectReference, reason: String) {
    let namespace = object.namespace.clone().unwrap_or_default();
    let event = event(object, &reason, Timestamp::now());
    match Api::<Event>::namespaced(client, &namespace).create(&PostParams::default(), &event).await {
        Ok(_) => {}
        Err(Error::Api(status)) if status.code == 409 => {}
        // The refusal is also in the log and the status.
        Err(error) => tracing::warn!(%error, "cannot create the Event of a refused ConfigMap"),
    }
}

fn event(object: ObjectReference, reason: &str, now: Timestamp) -> Event {
    let of = |value: &Option<String>| value.clone().unwrap_or_default();
    // The same in every build, so that replicas of two builds write one Event.
    let digest =
        digest::of_pairs([(of(&object.uid), of(&object.resource_version)), (reason.to_owned(), String::new())]);
    let name: String = object.name.as_deref().unwrap_or("configmap").chars().take(MAX_NAME).collect();
    Event {
        metadata: ObjectMeta {
            name: Some(format!("{name}.{:016x}", digest)),
            namespace: object.namespace.clone(),
            ..ObjectMeta::default()
        },
        action: Some("Validate".into()),
        event_time: Some(MicroTime(now)),
        note: Some(shortened(reason)),
        reason: Some("Refused".into()),
        regarding: Some(object),
        reporting_controller: Some(CONTROLLER.into()),
        reporting_instance: Some(std::env::var("HOSTNAME").unwrap_or_else(|_| "bloc-control-plane".into())),
        type_: Some("Warning".into()),
        ..Event::default()
    }
}

fn shortened(reason: &str) -> String {
    let note = format!("refused; the last good content stays in force: {reason}");
    let end = (0..=MAX_NOTE.min(note.len())).rev().find(|end| note.is_char_boundary(*end)).unwrap_or(0);
    note[..end].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_refusal_gets_the_same_event_name_in_every_build() {
        let object = |revision: &str| ObjectReference {
            name: Some("bloc".into()),
            uid: Some("u".into()),
            resource_version: Some(revision.into()),
            ..ObjectReference::default()
        };
        let name = |revision, reason| event(object(revision), reason, Timestamp::now()).metadata.name;
        assert_eq!(name("1", "no").as_deref(), Some("bloc.73e67e4df12f673f"));
        assert_ne!(name("1", "no"), name("2", "no"));
        assert_ne!(name("1", "no"), name("1", "never"));
    }

    #[test]
    fn cuts_a_long_reason_between_characters() {
        let note = shortened(&"é".repeat(2_000));
        assert!((MAX_NOTE - 1..=MAX_NOTE).contains(&note.len()), "{}", note.len());
    }
}
