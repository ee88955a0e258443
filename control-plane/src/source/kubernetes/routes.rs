//! How often the routes of VirtualServices retry.
//!
//! A sidecar knows which VirtualService its route comes from, but not how often that retries. A
//! service's parameters therefore list each VirtualService that routes to it with other retries
//! than the mesh's default. If the rules of one VirtualService differ, the smallest number counts:
//! no request is repeated more often than its user allowed. Rules of delegates count for the
//! VirtualService that refers to them, as in Istio.

use super::watch::Key;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::Deserialize;
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The number of retries in Istio's default policy (`meshConfig.defaultHttpRetryPolicy`).
pub const DEFAULT_RETRIES: i64 = 2;
/// Larger numbers count as this one.
const MOST_RETRIES: i64 = 100;
/// The longest chain of aliases to follow.
const MOST_ALIASES: usize = 8;

/// A VirtualService in the API.
#[derive(Clone, Debug, Deserialize)]
pub struct VirtualService {
    metadata: ObjectMeta,
    #[serde(default)]
    spec: Value,
}

impl Resource for VirtualService {
    type DynamicType = ();
    type Scope = kube::core::NamespaceResourceScope;

    fn kind((): &()) -> Cow<'_, str> {
        "VirtualService".into()
    }

    fn group((): &()) -> Cow<'_, str> {
        "networking.istio.io".into()
    }

    fn version((): &()) -> Cow<'_, str> {
        "v1".into()
    }

    fn plural((): &()) -> Cow<'_, str> {
        "virtualservices".into()
    }

    fn meta(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn meta_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

/// The rules of a VirtualService, the only part that matters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rules(Vec<Rule>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    /// The destinations, as written.
    hosts: Vec<String>,
    /// The VirtualService that has the rules instead: namespace, if given, and name.
    delegate: Option<(Option<String>, String)>,
    /// How often it retries; none: the mesh's default.
    retries: Option<i64>,
}

impl Rules {
    /// `None` if it has no rules.
    pub fn new(service: &VirtualService) -> Option<Self> {
        let rules = service.spec.get("http").and_then(Value::as_array)?;
        let rules: Vec<_> = rules.iter().map(Rule::new).collect();
        (!rules.is_empty()).then_some(Self(rules))
    }
}

impl Rule {
    fn new(rule: &Value) -> Self {
        let text = |value: &Value, path: &str| value.pointer(path).and_then(Value::as_str).map(str::to_owned);
        let routes = rule.get("route").and_then(Value::as_array).into_iter().flatten();
        Self {
            hosts: routes.filter_map(|route| text(route, "/destination/host")).collect(),
            delegate: text(rule, "/delegate/name")
                .map(|name| (text(rule, "/delegate/namespace").filter(|namespace| !namespace.is_empty()), name)),
            // With `attempts: 0` the route has no retry policy. Envoy then retries only as a
            // request's own headers ask for, and only once.
            retries: rule
                .get("retries")
                .filter(|retries| !retries.is_null())
                .map(|retries| retries.get("attempts").and_then(Value::as_i64).unwrap_or(0).clamp(1, MOST_RETRIES)),
        }
    }
}

/// The smallest number of retries in the rules of one VirtualService for a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Least {
    /// Among rules with a number.
    said: Option<i64>,
    /// Whether a rule has no number.
    default: bool,
}

impl Least {
    fn with(self, retries: Option<i64>) -> Self {
        let Some(retries) = retries else { return Self { default: true, ..self } };
        Self { said: Some(self.said.map_or(retries, |said| said.min(retries))), ..self }
    }

    fn or(self, default: i64) -> i64 {
        match self.said {
            Some(said) if self.default => said.min(default),
            Some(said) => said,
            None => default,
        }
    }
}

/// The VirtualServices of a cluster, and their retries by destination host.
#[derive(Debug, Default)]
pub struct Routes {
    rules: BTreeMap<Key, Rules>,
    /// By host, then by `namespace/name`.
    retries: BTreeMap<String, BTreeMap<String, Least>>,
}

impl Routes {
    /// Adds or updates a VirtualService; returns whether it changed.
    pub fn put(&mut self, key: Key, rules: Rules) -> bool {
        let news = self.rules.get(&key) != Some(&rules);
        self.rules.insert(key, rules);
        news
    }

    pub fn remove(&mut self, key: &Key) {
        self.rules.remove(key);
    }

    /// The known VirtualServices.
    pub fn names(&self) -> impl Iterator<Item = &Key> {
        self.rules.keys()
    }

    /// Applies the changes; returns the hosts that they concern. `alias` returns the target of a
    /// host that is an alias: Istio sends a route there.
    pub fn renew(&mut self, domain: &str, alias: impl Fn(&str) -> Option<String>) -> Vec<String> {
        let mut retries: BTreeMap<String, BTreeMap<String, Least>> = BTreeMap::new();
        for (key, rules) in &self.rules {
            let name = format!("{}/{}", key.0, key.1);
            for (namespace, rule, number) in self.effective(key, rules) {
                for host in &rule.hosts {
                    let is_full = host.contains('.');
                    let own = if is_full { host.clone() } else { format!("{host}.{namespace}.svc.{domain}") };
                    for host in std::iter::successors(Some(own), |host| alias(host)).take(MOST_ALIASES) {
                        let services = retries.entry(host).or_default();
                        let least = services.entry(name.clone()).or_insert(Least { said: None, default: false });
                        *least = least.with(number);
                    }
                }
            }
        }
        let before = std::mem::replace(&mut self.retries, retries);
        let all = before.keys().chain(self.retries.keys());
        let mut hosts: Vec<_> = all.filter(|host| before.get(*host) != self.retries.get(*host)).cloned().collect();
        hosts.dedup();
        hosts
    }

    /// The retries of the VirtualServices that route to `host`, unless they are the default.
    pub fn of(&self, host: &str, default: i64) -> impl Iterator<Item = (&String, i64)> {
        let all = self.retries.get(host).into_iter().flatten();
        all.map(move |(name, least)| (name, least.or(default))).filter(move |(_, retries)| *retries != default)
    }

    /// The rules of a VirtualService and of its delegates, each with its retries and the namespace
    /// that contains it.
    fn effective<'a>(&'a self, key: &'a Key, rules: &'a Rules) -> Vec<(&'a str, &'a Rule, Option<i64>)> {
        let mut all = Vec::new();
        for rule in &rules.0 {
            let Some((namespace, name)) = &rule.delegate else {
                all.push((key.0.as_str(), rule, rule.retries));
                continue;
            };
            let delegate = (namespace.clone().unwrap_or_else(|| key.0.clone()), name.clone());
            if let Some((delegate, rules)) = self.rules.get_key_value(&delegate) {
                all.extend(rules.0.iter().map(|own| (delegate.0.as_str(), own, own.retries.or(rule.retries))));
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn key(path: &str) -> Key {
        let (namespace, name) = path.split_once('/').unwrap();
        (namespace.to_owned(), name.to_owned())
    }

    fn rules(http: &Value) -> Option<Rules> {
        let service = json!({"metadata": {"name": "v"}, "spec": {"hosts": ["a"], "http": http}});
        Rules::new(&serde_json::from_value(service).unwrap())
    }

    fn to(host: &str, retries: Value) -> Value {
        json!({"route": [{"destination": {"host": host}, "weight": 100}], "retries": retries})
    }

    fn of(routes: &Routes, host: &str) -> Vec<(String, i64)> {
        routes.of(host, 2).map(|(name, retries)| (name.clone(), retries)).collect()
    }

    fn put(routes: &mut Routes, path: &str, http: Value) -> Vec<String> {
        assert!(routes.put(key(path), rules(&http).unwrap()), "{path}");
        routes.renew("cluster.local", |_| None)
    }

    const A: &str = "a.shop.svc.cluster.local";

    #[test]
    fn retries_of_a_virtual_service_count_for_the_hosts_it_routes_to() {
        let mut routes = Routes::default();
        assert_eq!(put(&mut routes, "shop/v", json!([to("a", json!({"attempts": 5}))])), [A]);
        assert_eq!(put(&mut routes, "web/w", json!([to(A, json!({"attempts": 1}))])), [A]);
        assert_eq!(put(&mut routes, "web/x", json!([to(A, Value::Null)])), [A]);
        assert_eq!(put(&mut routes, "web/y", json!([to("a", json!({"attempts": 7}))])), ["a.web.svc.cluster.local"]);
        assert_eq!(put(&mut routes, "web/z", json!([to("api.example.org", json!({"attempts": 900}))])).len(), 1);
        assert_eq!(of(&routes, A), [("shop/v".into(), 5), ("web/w".into(), 1)]);
        assert_eq!(of(&routes, "api.example.org"), [("web/z".into(), 100)]);
        routes.remove(&key("shop/v"));
        assert_eq!(routes.renew("cluster.local", |_| None), [A]);
        assert_eq!(of(&routes, A), [("web/w".into(), 1)]);
        assert!(routes.renew("cluster.local", |_| None).is_empty(), "nothing has changed");
    }

    #[test]
    fn uses_the_fewest_retries_of_rules_that_differ() {
        let least = |http: Value| {
            let mut routes = Routes::default();
            put(&mut routes, "shop/v", http);
            of(&routes, A)
        };
        let attempts = |number: i64| to("a", json!({"attempts": number, "retryOn": "5xx"}));
        assert_eq!(least(json!([attempts(7), attempts(4)])), [("shop/v".into(), 4)]);
        assert_eq!(least(json!([attempts(7), to("a", Value::Null)])), [], "the mesh's default is less");
        assert_eq!(least(json!([attempts(1), to("a", Value::Null)])), [("shop/v".into(), 1)]);
        assert_eq!(
            least(json!([attempts(0)])),
            [("shop/v".into(), 1)],
            "no retry policy: Envoy retries once if headers ask for it"
        );
        assert_eq!(least(json!([attempts(5), to("b", json!({"attempts": 1}))])), [("shop/v".into(), 5)]);
        assert_eq!(least(json!([to("a", json!({"retryOn": "5xx"}))])), [("shop/v".into(), 1)]);
    }

    #[test]
    fn rules_of_a_delegate_count_for_the_virtual_service_that_refers_to_it() {
        let mut routes = Routes::default();
        let delegate = json!([{"delegate": {"name": "d", "namespace": "shop"}, "retries": {"attempts": 3}}]);
        put(&mut routes, "web/root", delegate);
        assert_eq!(put(&mut routes, "shop/d", json!([to("a", Value::Null), to("b", json!({"attempts": 4}))])).len(), 2);
        assert_eq!(of(&routes, A), [("web/root".into(), 3)]);
        put(&mut routes, "shop/near", json!([{"delegate": {"name": "d", "namespace": ""}}]));
        assert_eq!(of(&routes, A), [("web/root".into(), 3)], "its own namespace, and the default");
        routes.remove(&key("shop/near"));
        routes.renew("cluster.local", |_| None);
        let of_b = of(&routes, "b.shop.svc.cluster.local");
        assert_eq!(of_b, [("shop/d".into(), 4), ("web/root".into(), 4)]);
    }

    #[test]
    fn a_route_to_an_alias_counts_for_the_service_it_points_to() {
        let mut routes = Routes::default();
        routes.put(key("web/v"), rules(&json!([to("alias", json!({"attempts": 1}))])).unwrap());
        let alias = |host: &str| match host {
            "alias.web.svc.cluster.local" => Some("other.web.svc.cluster.local".to_owned()),
            "other.web.svc.cluster.local" => Some(A.to_owned()),
            // Invalid: a cycle of aliases.
            A => Some("alias.web.svc.cluster.local".to_owned()),
            _ => None,
        };
        assert_eq!(routes.renew("cluster.local", alias).len(), 3);
        assert_eq!(of(&routes, A), [("web/v".into(), 1)]);
    }

    #[test]
    fn omits_rules_without_a_destination() {
        assert_eq!(rules(&Value::Null), None);
        assert_eq!(rules(&json!([])), None);
        assert_eq!(rules(&json!("nonsense")), None);
        let odd = rules(&json!([{"route": "x", "retries": 3}, 7, {"redirect": {"uri": "/"}}])).unwrap();
        let mut routes = Routes::default();
        routes.put(key("shop/v"), odd);
        assert!(routes.renew("cluster.local", |_| None).is_empty());
    }
}
