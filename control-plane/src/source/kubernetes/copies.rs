//! Copies of the last good content of ConfigMaps, stored as ConfigMaps in the control plane's own
//! namespace.
//!
//! After a bad edit the previous content stays in force. A replica that has just started never read
//! it. Without a copy it would remove parameters that the other replica still serves, at the worst
//! moment. Each replica writes the same copy when a ConfigMap is accepted. It deletes the copy when
//! the original is gone or no longer counts for its namespace. Missing rights for this are logged;
//! then only replicas that have read the good content still have it.

use super::policy::{KEY, LABEL, PolicySpec, Scope};
use super::watch::Key;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, Client, Error, ResourceExt};
use serde_json::json;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The value of [`LABEL`] that marks a copy.
const MARK: &str = "last-good";
/// Annotation: the original, `namespace/name`.
const OF: &str = "bloc.dev/of";
/// Annotation: the original's uid. Another uid means another ConfigMap of the same name.
const UID: &str = "bloc.dev/uid";
/// Annotation: the original's revision.
const REVISION: &str = "bloc.dev/revision";
/// The longest name of an object, in bytes.
const MAX_NAME: usize = 253;

/// The content of an original or of its copy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// The original's uid.
    pub uid: String,
    /// The original's revision.
    pub revision: u64,
    /// The text of `services.yaml`.
    pub text: String,
}

/// A change that a copy needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Due {
    Write(Key, Content),
    /// Delete it: the original is gone or does not count.
    Delete(String),
}

/// The known copies.
#[derive(Debug, Default)]
pub struct Copies {
    /// By original: the copy's name and content.
    known: BTreeMap<Key, (String, Content)>,
    /// The copies that we have requested but not seen yet.
    ordered: BTreeMap<Key, Content>,
}

/// Whether a ConfigMap is a copy.
pub fn is_copy(map: &ConfigMap) -> bool {
    map.labels().get(LABEL).is_some_and(|value| value == MARK)
}

impl Copies {
    /// A copy appeared or changed.
    pub fn put(&mut self, map: &ConfigMap) {
        let annotation = |name: &str| map.annotations().get(name).cloned();
        let read = || {
            let of = annotation(OF)?;
            let (namespace, name) = of.split_once('/')?;
            let text = map.data.as_ref()?.get(KEY)?.clone();
            let content = Content { uid: annotation(UID)?, revision: annotation(REVISION)?.parse().ok()?, text };
            Some(((namespace.to_owned(), name.to_owned()), content))
        };
        match read() {
            Some((original, content)) => {
                self.known.insert(original, (map.name_any(), content));
            }
            None => tracing::warn!(name = map.name_any(), "ignored an invalid copy of a ConfigMap's last good content"),
        }
    }

    /// A ConfigMap of our namespace is gone; it may be a copy.
    pub fn remove(&mut self, name: &str) {
        self.known.retain(|_, (own, _)| own != name);
        self.ordered.retain(|original, _| self::name(original) != name);
    }

    pub fn names(&self) -> impl Iterator<Item = &String> {
        self.known.values().map(|(name, _)| name)
    }

    /// The last good parameters of the original with this uid.
    pub fn of(&self, original: &Key, uid: &str, scope: Scope) -> Option<Arc<PolicySpec>> {
        let (_, content) = self.known.get(original).filter(|(_, content)| content.uid == uid)?;
        PolicySpec::read_text(&content.text, scope).ok().map(Arc::new)
    }

    /// The necessary changes, given the originals that count, with their content if it is good.
    pub fn due<'a>(&mut self, originals: impl Iterator<Item = (&'a Key, Option<&'a Content>)>) -> Vec<Due> {
        let mut due = Vec::new();
        let mut orphans: BTreeMap<&Key, &String> = self.known.iter().map(|(key, (name, _))| (key, name)).collect();
        for (key, content) in originals {
            orphans.remove(key);
            let Some(content) = content else { continue };
            let known = self.known.get(key).map(|(_, known)| known);
            let same = known.is_some_and(|known| known.uid == content.uid && known.text == content.text);
            let newer = known.is_some_and(|known| known.uid == content.uid && known.revision > content.revision);
            if !same && !newer && self.ordered.get(key) != Some(content) && name(key).len() <= MAX_NAME {
                self.ordered.insert(key.clone(), content.clone());
                due.push(Due::Write(key.clone(), content.clone()));
            }
        }
        due.extend(orphans.into_values().cloned().map(Due::Delete));
        due
    }
}

impl Due {
    /// Makes the change, in `namespace`.
    pub async fn settle(self, client: Client, namespace: String) {
        let api = Api::<ConfigMap>::namespaced(client, &namespace);
        let result = match self {
            Self::Write((of, name), content) => {
                let key = (of, name);
                let map = json!({
                    "apiVersion": "v1", "kind": "ConfigMap",
                    "metadata": {
                        "name": self::name(&key), "labels": {LABEL: MARK},
                        "annotations": {OF: format!("{}/{}", key.0, key.1), UID: content.uid, REVISION: content.revision.to_string()},
                    },
                    "data": {KEY: content.text},
                });
                let params = PatchParams::apply("bloc-control-plane").force();
                api.patch(&self::name(&key), &params, &Patch::Apply(map)).await.map(drop)
            }
            Self::Delete(name) => api.delete(&name, &DeleteParams::default()).await.map(drop),
        };
        match result {
            Ok(()) => {}
            // Another replica was faster.
            Err(Error::Api(status)) if status.code == 404 => {}
            Err(error) => tracing::warn!(%error, "cannot save the copy of a ConfigMap's last good content"),
        }
    }
}

fn name((namespace, name): &Key) -> String {
    format!("{MARK}.{namespace}.{name}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key() -> Key {
        ("shop".into(), "bloc".into())
    }

    fn content(revision: u64, text: &str) -> Content {
        Content { uid: "u".into(), revision, text: text.into() }
    }

    fn copy(content: &Content) -> ConfigMap {
        let annotations = json!({OF: "shop/bloc", UID: content.uid, REVISION: content.revision.to_string()});
        let metadata = json!({"name": "last-good.shop.bloc", "labels": {LABEL: MARK}, "annotations": annotations});
        serde_json::from_value(json!({"metadata": metadata, "data": {KEY: content.text}})).unwrap()
    }

    #[test]
    fn writes_one_copy_of_each_valid_content() {
        let mut copies = Copies::default();
        let due = |copies: &mut Copies, content: Option<&Content>| copies.due([(&key(), content)].into_iter());
        let first = content(5, "services: {a: {}}");
        assert_eq!(due(&mut copies, Some(&first)), [Due::Write(key(), first.clone())]);
        assert_eq!(due(&mut copies, Some(&first)), [], "the write is under way");
        copies.put(&copy(&first));
        assert_eq!(due(&mut copies, Some(&content(6, &first.text))), [], "the same text");
        assert_eq!(due(&mut copies, None), [], "the new content is invalid");
        assert_eq!(due(&mut copies, Some(&content(4, "services: {}"))), [], "the copy is of a newer revision");
        assert_eq!(due(&mut copies, Some(&content(7, "services: {}"))).len(), 1);
        assert_eq!(copies.due([].into_iter()), [Due::Delete("last-good.shop.bloc".into())]);
        copies.remove("last-good.shop.bloc");
        assert_eq!(due(&mut copies, Some(&content(7, "services: {}"))).len(), 1);
    }

    #[test]
    fn uses_a_copy_only_for_the_config_map_it_was_made_of() {
        let mut copies = Copies::default();
        copies.put(&copy(&content(5, "services: {a: {}}")));
        assert!(copies.of(&key(), "u", Scope::Namespace).unwrap().services.contains_key("a"));
        assert_eq!(copies.of(&key(), "another", Scope::Namespace), None);
        assert_eq!(copies.of(&("shop".into(), "other".into()), "u", Scope::Namespace), None);
    }
}
