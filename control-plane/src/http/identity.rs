//! Who sent a poll, by the certificate shown to our sidecar.
//!
//! With the mesh's mTLS, the control plane's own sidecar checks the caller's certificate and
//! appends its SPIFFE id to `x-forwarded-client-cert`:
//! `By=spiffe://...;Hash=...;URI=spiffe://cluster.local/ns/shop/sa/checkout`. The last element is
//! the sidecar's, whatever the caller wrote before it. The header is trusted only from a loopback
//! address: other callers did not come through the sidecar.
//!
//! A header with an open quote is refused. The sidecar always closes its quotes, so an open one is
//! the caller's. It would make the comma before the sidecar's element quoted text.
//!
//! Only one trust domain is accepted: `--trust-domain`, or else the domain of the sidecar's own id,
//! `By=`.
//!
//! A proxy of namespace `shop` may use Istio's id of a pod of `shop`
//! (`sidecar~10.0.0.1~checkout-1.shop~shop.svc.cluster.local`) and report load for Services of
//! `shop`. Its reports of other services are dropped, and the rest of its poll is served. A pod may
//! legitimately serve a host that is no Service of its namespace (a ServiceEntry with a
//! `workloadSelector`), and a refused poll would leave it without configuration. An id belongs to
//! the first certificate that used it, for as long as the proxy is remembered.

use axum::extract::Request;
use axum::http::{HeaderMap, StatusCode};
use bloc_daemon::ranges::{is_label, is_name, refused};
pub use bloc_daemon::server::Peer;
use bloc_daemon::server::network;
use bloc_policy::config::ConfigError;
use bloc_policy::sync::SyncRequest;
use std::fmt::{self, Display};
use std::str::FromStr;
use std::sync::Arc;

/// The header with the caller's certificate.
const HEADER: &str = "x-forwarded-client-cert";

/// How proxies prove who they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Identity {
    /// No proof is required.
    #[default]
    None,
    /// By their SPIFFE id, as our own sidecar states it. It must be of this trust domain; `None`:
    /// of the sidecar's own.
    Spiffe(Option<TrustDomain>),
}

/// The trust domain of SPIFFE ids: 1 to 255 of `a` to `z`, `0` to `9`, `.`, `-` and `_`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrustDomain(Arc<str>);

impl FromStr for TrustDomain {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || ".-_".contains(c);
        if (1..=255).contains(&text.len()) && text.chars().all(allowed) {
            return Ok(Self(text.into()));
        }
        let allowed = "1 to 255 of a to z, 0 to 9, '.', '-' and '_', as cluster.local";
        Err(refused("trust domain", format!("{text:?}"), allowed))
    }
}

impl Display for TrustDomain {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The workload that may report the CPU of pods: `ns/NAMESPACE/sa/ACCOUNT`, the end of a SPIFFE id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeAgent(Arc<str>);

impl Default for NodeAgent {
    fn default() -> Self {
        Self("ns/bloc-node/sa/bloc-node-agent".into())
    }
}

impl FromStr for NodeAgent {
    type Err = ConfigError;

    fn from_str(text: &str) -> Result<Self, ConfigError> {
        match text.split('/').collect::<Vec<_>>()[..] {
            ["ns", namespace, "sa", account] if is_label(namespace) && is_name(account) => Ok(Self(text.into())),
            _ => Err(refused("node agent", format!("{text:?}"), "ns/NAMESPACE/sa/ACCOUNT")),
        }
    }
}

impl NodeAgent {
    /// The name of its service account at the API server.
    pub fn user(&self) -> String {
        let mut parts = self.0.split('/').skip(1).step_by(2);
        let (namespace, account) = (parts.next().unwrap_or_default(), parts.next().unwrap_or_default());
        format!("system:serviceaccount:{namespace}:{account}")
    }

    /// Checks that the owner of this SPIFFE id may report the CPU of pods; `None`: no identity is
    /// required. The trust domain is checked already.
    ///
    /// # Errors
    /// 403, with the reason.
    pub fn check(&self, spiffe: Option<&str>) -> Result<(), Refusal> {
        let path =
            |id: &str| id.strip_prefix("spiffe://").and_then(|id| id.split_once('/')).map(|(_, path)| path.to_owned());
        match spiffe {
            Some(id) if path(id).as_deref() != Some(&*self.0) => {
                Err(forbidden("identity", format!("{id:?}"), self.0.as_ref()))
            }
            _ => Ok(()),
        }
    }
}

/// Why a poll is refused.
pub type Refusal = (StatusCode, String);

impl Identity {
    /// The SPIFFE id of a request; `None` if no identity is required.
    ///
    /// # Errors
    /// 401 without an id, 403 for an id of another trust domain.
    pub fn of(&self, headers: &HeaderMap, peer: Option<Peer>) -> Result<Option<String>, Refusal> {
        let Self::Spiffe(domain) = self else { return Ok(None) };
        let unauthorized = |why: &str| (StatusCode::UNAUTHORIZED, why.to_owned());
        if !peer.is_some_and(|Peer(address)| address.ip().is_loopback()) {
            return Err(unauthorized("not through the sidecar"));
        }
        // Several header lines are one list, and a quote may span lines.
        let lines = headers.get_all(HEADER).iter().map(|line| line.to_str()).collect::<Result<Vec<_>, _>>();
        let value = lines.map_err(|_| unauthorized("x-forwarded-client-cert is not text"))?.join(",");
        let mut quotes = Quotes::default();
        value.chars().for_each(|c| quotes.pass(c));
        if quotes.open {
            return Err(unauthorized("x-forwarded-client-cert: unclosed quotes"));
        }
        let last = split(&value, ',').last().unwrap_or_default();
        let uri = field(last, "URI=").ok_or_else(|| unauthorized("no SPIFFE id in x-forwarded-client-cert"))?;
        let allowed = match domain {
            Some(TrustDomain(domain)) => domain,
            None => field(last, "By=").and_then(trust_domain).ok_or_else(|| {
                unauthorized("no By=spiffe://DOMAIN/... in x-forwarded-client-cert, and no --trust-domain")
            })?,
        };
        if trust_domain(uri) != Some(allowed) {
            let allowed = format!("ids of the trust domain {allowed:?}");
            return Err(forbidden("identity", format!("{uri:?}"), allowed));
        }
        Ok(Some(uri.to_owned()))
    }

    /// Who is charged for a request's memory: the proved SPIFFE id, otherwise the source address
    /// (for IPv6, its /64).
    pub fn caller(&self, request: &Request) -> Arc<str> {
        let peer = request.extensions().get::<Peer>().copied();
        match self.of(request.headers(), peer) {
            Ok(Some(spiffe)) => spiffe.into(),
            _ => peer.map_or_else(Arc::default, |Peer(address)| network(address.ip()).to_string().into()),
        }
    }
}

/// Checks that the owner of this SPIFFE id may send `request`. Turns served services of other
/// namespaces into called ones, and drops their reports. Returns the names of those services.
///
/// # Errors
/// 403, with the reason.
pub fn confine(spiffe: &str, request: &mut SyncRequest) -> Result<Vec<String>, Refusal> {
    let Some(namespace) = namespace(spiffe) else {
        return Err(forbidden("identity", format!("{spiffe:?}"), "spiffe://DOMAIN/ns/NAMESPACE/sa/ACCOUNT"));
    };
    let pod = match request.proxy.split('~').collect::<Vec<_>>()[..] {
        [_, _, pod, _] => pod.rsplit_once('.'),
        _ => None,
    };
    if pod.is_none_or(|(_, own)| own != namespace) {
        let allowed = format!("the node id of a pod of {namespace}");
        return Err(forbidden("proxy", format!("{:?}", request.proxy), allowed));
    }
    let is_foreign = |service: &String| service.split('.').nth(1) != Some(namespace);
    request.load.retain(|load| !is_foreign(&load.service));
    let foreign: Vec<String> = request.serves.extract_if(.., |service| is_foreign(service)).collect();
    request.services.extend_from_slice(&foreign);
    Ok(foreign)
}

/// Refuses a value that this caller may not send.
pub fn forbidden(path: &str, value: String, allowed: impl Into<String>) -> Refusal {
    (StatusCode::FORBIDDEN, refused(path, value, allowed).to_string())
}

fn namespace(spiffe: &str) -> Option<&str> {
    let mut parts = spiffe.strip_prefix("spiffe://")?.split('/');
    let (domain, ns, namespace, sa) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    (!domain.is_empty() && ns == "ns" && !namespace.is_empty() && sa == "sa").then_some(namespace)
}

/// The first value of this name; `name` ends with `=`.
fn field<'a>(element: &'a str, name: &str) -> Option<&'a str> {
    let value = split(element, ';').find_map(|pair| pair.trim().strip_prefix(name))?;
    let value = value.trim_matches('"');
    (!value.is_empty()).then_some(value)
}

fn trust_domain(id: &str) -> Option<&str> {
    let (domain, _) = id.strip_prefix("spiffe://")?.split_once('/')?;
    (!domain.is_empty()).then_some(domain)
}

/// Splits at `at` outside quotes.
fn split(text: &str, at: char) -> impl Iterator<Item = &str> {
    let mut quotes = Quotes::default();
    text.split(move |c| {
        let separates = c == at && !quotes.open;
        quotes.pass(c);
        separates
    })
}

/// Whether a position is inside quotes. A backslash escapes outside quotes too: otherwise an
/// escaped quote in the sidecar's element could close a quote that the caller left open.
#[derive(Default)]
struct Quotes {
    open: bool,
    escaped: bool,
}

impl Quotes {
    fn pass(&mut self, c: char) {
        self.open ^= c == '"' && !self.escaped;
        self.escaped = c == '\\' && !self.escaped;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;
    use bloc_policy::sync::ServiceLoad;

    const CHECKOUT: &str = "spiffe://cluster.local/ns/shop/sa/checkout";

    const SIDECAR: &str = "By=spiffe://cluster.local/ns/bloc-system/sa/bloc;Hash=0;Subject=\"CN=a,\\\"URI=b;\"";

    fn answer(identity: &Identity, lines: &[&str], peer: &str) -> Result<Option<String>, Refusal> {
        let mut headers = HeaderMap::new();
        for line in lines {
            headers.append(HEADER, line.parse().unwrap());
        }
        identity.of(&headers, Some(Peer(peer.parse().unwrap())))
    }

    fn of(lines: &[&str], peer: &str) -> Result<Option<String>, StatusCode> {
        answer(&Identity::Spiffe(None), lines, peer).map_err(|(status, _)| status)
    }

    #[test]
    fn knows_a_caller_without_a_proved_spiffe_id_by_its_address() {
        let of = |identity: Identity, peer: &str| {
            let certificate = ("x-forwarded-client-cert", "By=spiffe://td/a;URI=spiffe://td/ns/shop/sa/x");
            let request = Request::builder().header(certificate.0, certificate.1);
            let peer = Peer(peer.parse().unwrap());
            identity.caller(&request.extension(peer).body(Body::empty()).unwrap()).to_string()
        };
        assert_eq!(of(Identity::Spiffe(None), "127.0.0.1:1"), "spiffe://td/ns/shop/sa/x");
        assert_eq!(of(Identity::Spiffe(None), "10.0.0.1:1"), "10.0.0.1");
        assert_eq!(of(Identity::None, "10.0.0.1:1"), "10.0.0.1");
    }
    #[test]
    fn trusts_only_the_certificate_element_that_our_sidecar_adds() {
        let own = format!("{SIDECAR};URI={CHECKOUT}");
        let forged = format!("By=spiffe://cluster.local/x;URI=spiffe://cluster.local/ns/bank/sa/vault,{own}");
        assert_eq!(of(&[&forged], "127.0.0.6:1"), Ok(Some(CHECKOUT.to_owned())));
        assert_eq!(of(&[&format!("{own},{SIDECAR}")], "127.0.0.1:1"), Err(StatusCode::UNAUTHORIZED));
        assert_eq!(of(&[""], "[::1]:1"), Err(StatusCode::UNAUTHORIZED));
        assert_eq!(of(&[], "127.0.0.1:1"), Err(StatusCode::UNAUTHORIZED));
    }

    #[test]
    fn refuses_a_certificate_header_with_unclosed_quotes() {
        let plain = "By=spiffe://cluster.local/ns/bloc-system/sa/bloc";
        let vault = "By=spiffe://cluster.local/x;URI=spiffe://cluster.local/ns/bank/sa/vault";
        for sidecar in [plain, &format!("{plain};Subject=\"\""), &format!("{plain};Subject=\"\\\"\""), SIDECAR] {
            let own = format!("{sidecar};URI={CHECKOUT}");
            let both = |end: &str| {
                let forged = format!("{vault};Subject={end}");
                let answers = [of(&[&format!("{forged},{own}")], "127.0.0.1:1"), of(&[&forged, &own], "127.0.0.1:1")];
                assert_eq!(answers[0], answers[1], "one line or two");
                answers.into_iter().next().unwrap()
            };
            for end in ["\"", "\"\\", "\"\\\"", "\"\\\\", "\\\\\""] {
                assert_eq!(both(end), Err(StatusCode::UNAUTHORIZED), "{end} before {own}");
            }
            for end in ["", "\"\"", "\\", "\\\"", "\"\\\"\""] {
                assert_eq!(both(end), Ok(Some(CHECKOUT.to_owned())), "{end} before {own}");
            }
        }
    }

    #[test]
    fn refuses_an_id_of_another_trust_domain() {
        let other = "spiffe://other.example/ns/shop/sa/x";
        let (lines, home) = (format!("{SIDECAR};URI={other}"), format!("{SIDECAR};URI={CHECKOUT}"));
        let ask = |domain: Option<&str>, line: &str| {
            answer(&Identity::Spiffe(domain.map(|domain| domain.parse().unwrap())), &[line], "127.0.0.1:1")
        };
        let refused = |id: &str, domain: &str| {
            let why = format!("identity: {id:?} is not allowed; allowed: ids of the trust domain {domain:?}");
            Err((StatusCode::FORBIDDEN, why))
        };
        assert_eq!(ask(None, &lines), refused(other, "cluster.local"));
        assert_eq!(ask(Some("other.example"), &lines), Ok(Some(other.to_owned())));
        assert_eq!(ask(Some("other.example"), &home), refused(CHECKOUT, "other.example"));
        for id in
            ["spiffe://cluster.local.evil/ns/shop/sa/x", "https://cluster.local/ns/shop/sa/x", "spiffe://cluster.local"]
        {
            assert_eq!(ask(None, &format!("{SIDECAR};URI={id}")), refused(id, "cluster.local"));
        }
        // The caller writes its own `By=` into an earlier element.
        assert_eq!(ask(None, &format!("By={other};URI={other},{lines}")), refused(other, "cluster.local"));
        for by in ["", "By=;", "By=x;", "By=spiffe:///ns/a/sa/b;"] {
            let line = format!("{by}URI={CHECKOUT}");
            assert_eq!(ask(None, &line).map_err(|(status, _)| status), Err(StatusCode::UNAUTHORIZED), "{by}");
            assert_eq!(ask(Some("cluster.local"), &line), Ok(Some(CHECKOUT.to_owned())), "{by}");
        }
    }

    #[test]
    fn accepts_only_plain_names_as_trust_domains() {
        for good in ["cluster.local", "a", "td-1_x", &"a".repeat(255)] {
            assert_eq!(good.parse::<TrustDomain>().unwrap().to_string(), good);
        }
        for bad in ["", " ", "a b", "a/b", "spiffe://a", "A", "a\"", &"a".repeat(256)] {
            let error = bad.parse::<TrustDomain>().unwrap_err();
            let start = ConfigError::out_of_range("trust domain".into(), format!("{bad:?}"), "").to_string();
            assert!(error.to_string().starts_with(&start), "{error}");
        }
    }

    #[test]
    fn refuses_a_certificate_header_that_does_not_come_from_loopback() {
        assert_eq!(of(&[&format!("{SIDECAR};URI={CHECKOUT}")], "10.0.0.1:1"), Err(StatusCode::UNAUTHORIZED));
        assert_eq!(Identity::None.of(&HeaderMap::new(), None), Ok(None));
    }

    #[test]
    fn refuses_a_proxy_id_outside_the_namespace_of_its_certificate() {
        let request = |proxy: &str, serves: &[&str]| SyncRequest {
            proxy: proxy.into(),
            services: vec!["vault.bank.svc.cluster.local".into()],
            serves: serves.iter().map(ToString::to_string).collect(),
            ..SyncRequest::default()
        };
        let status = |spiffe, mut request: SyncRequest| confine(spiffe, &mut request).map_err(|(status, _)| status);
        let own = "sidecar~10.0.0.1~checkout-1.shop~shop.svc.cluster.local";
        assert_eq!(status(CHECKOUT, request(own, &["checkout.shop.svc.cluster.local"])), Ok(vec![]));
        let foreign = "sidecar~10.0.0.1~vault-1.bank~bank.svc.cluster.local";
        for proxy in [
            foreign,
            "anything",
            "sidecar~10.0.0.1~shop~x",
            "sidecar~10.0.0.1~checkout-1.shop",
            "sidecar~10.0.0.1~a.shop~x~y",
        ] {
            assert_eq!(status(CHECKOUT, request(proxy, &[])), Err(StatusCode::FORBIDDEN), "{proxy}");
        }
        for spiffe in [
            "spiffe://cluster.local/shop/checkout",
            "https://cluster.local/ns/shop/sa/checkout",
            "spiffe:///ns/shop/sa/a",
        ] {
            assert_eq!(status(spiffe, request(own, &[])), Err(StatusCode::FORBIDDEN), "{spiffe}");
        }
    }

    #[test]
    fn drops_load_reports_about_services_of_other_namespaces() {
        let [home, foreign, host] = ["a.shop.svc.cluster.local", "vault.bank.svc.cluster.local", "legacy.example.com"];
        let load = |service: &str| ServiceLoad { service: service.into(), ..ServiceLoad::default() };
        let mut request = SyncRequest {
            proxy: "sidecar~10.0.0.1~checkout-1.shop~shop.svc.cluster.local".into(),
            services: vec!["b".into()],
            serves: [home, foreign, host].map(str::to_owned).to_vec(),
            load: [foreign, home, host].map(load).to_vec(),
            ..SyncRequest::default()
        };
        assert_eq!(confine(CHECKOUT, &mut request), Ok(vec![foreign.to_owned(), host.to_owned()]));
        assert_eq!((request.serves, request.load), (vec![home.to_owned()], vec![load(home)]));
        assert_eq!(request.services, ["b", foreign, host], "their parameters stay readable");
    }

    #[test]
    fn only_the_workload_of_the_node_agent_may_report_cpu() {
        let (default, other): (NodeAgent, NodeAgent) = (NodeAgent::default(), "ns/a/sa/b".parse().unwrap());
        let may = |agent: &NodeAgent, id: Option<&str>| agent.check(id);
        let agent = "spiffe://cluster.local/ns/bloc-node/sa/bloc-node-agent";
        assert_eq!(default.user(), "system:serviceaccount:bloc-node:bloc-node-agent");
        assert_eq!((may(&default, Some(agent)), may(&default, None)), (Ok(()), Ok(())));
        assert_eq!(may(&other, Some("spiffe://td/ns/a/sa/b")), Ok(()));
        let why = format!("identity: {agent:?} is not allowed; allowed: ns/a/sa/b");
        assert_eq!(may(&other, Some(agent)), Err((StatusCode::FORBIDDEN, why)));
        for id in
            ["spiffe://td/ns/a/sa/b/c", "spiffe://td/x/ns/a/sa/b", "ns/a/sa/b", "spiffe://ns/a/sa/b", "", CHECKOUT]
        {
            assert!(may(&other, Some(id)).is_err(), "{id}");
        }
        for text in ["", "a/b", "ns/a/sa/", "ns//sa/b", "ns/a/sa/b/c", "sa/a/ns/b", "ns/a b/sa/c", "ns/a/sa/*"] {
            let why = format!("node agent: {text:?} is not allowed; allowed: ns/NAMESPACE/sa/ACCOUNT");
            assert_eq!(text.parse::<NodeAgent>().unwrap_err().to_string(), why);
        }
    }
}
