//! Who a poll comes from, by the certificate that its sidecar has shown.
//!
//! Behind the mesh's mTLS the control plane's own sidecar has checked the caller's certificate and appends its SPIFFE id to `x-forwarded-client-cert`:
//! `By=spiffe://...;Hash=...;URI=spiffe://cluster.local/ns/shop/sa/checkout`. The last element is the sidecar's word, whatever the caller wrote before it. It is believed from a
//! loopback address only: everybody else has not come through the sidecar.
//!
//! A proxy of namespace `shop` may go by Istio's id of a pod of `shop` (`sidecar~10.0.0.1~checkout-1.shop~shop.svc.cluster.local`) and report what it serves for Services of
//! `shop`. An id belongs to the certificate that it was first heard of with, for as long as the proxy is remembered.

use axum::http::{HeaderMap, StatusCode};
use bloc_policy::sync::SyncRequest;
use std::net::SocketAddr;

/// The header.
const HEADER: &str = "x-forwarded-client-cert";

/// How proxies prove who they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Identity {
    /// Not at all.
    #[default]
    None,
    /// By their SPIFFE id, which our own sidecar tells.
    Spiffe,
}

/// The address that a request came from.
#[derive(Clone, Copy, Debug)]
pub struct Peer(pub SocketAddr);

/// Why a poll is not taken.
pub type Refusal = (StatusCode, String);

impl Identity {
    /// The SPIFFE id behind a request, if one is needed.
    ///
    /// # Errors
    /// 401 if there is none.
    pub fn of(self, headers: &HeaderMap, peer: Option<Peer>) -> Result<Option<String>, Refusal> {
        if self == Self::None {
            return Ok(None);
        }
        let unauthorized = |why: &str| (StatusCode::UNAUTHORIZED, why.to_owned());
        if !peer.is_some_and(|Peer(address)| address.ip().is_loopback()) {
            return Err(unauthorized("not through the sidecar"));
        }
        let last = headers.get_all(HEADER).iter().next_back().and_then(|value| value.to_str().ok());
        let uri = last.and_then(|value| uri(last_element(value)));
        uri.map(|uri| Some(uri.to_owned())).ok_or_else(|| unauthorized("no SPIFFE id in x-forwarded-client-cert"))
    }
}

/// Whether who has this SPIFFE id may ask as `request` does.
///
/// # Errors
/// 403, with the reason.
pub fn check(spiffe: &str, request: &SyncRequest) -> Result<(), Refusal> {
    let forbidden = |why: String| Err((StatusCode::FORBIDDEN, why));
    let Some(namespace) = namespace(spiffe) else {
        return forbidden(format!("{spiffe:?} is not spiffe://DOMAIN/ns/NAMESPACE/sa/ACCOUNT"));
    };
    let pod = match request.proxy.split('~').collect::<Vec<_>>()[..] {
        [_, _, pod, _] => pod.rsplit_once('.'),
        _ => None,
    };
    if pod.is_none_or(|(_, own)| own != namespace) {
        return forbidden(format!(
            "proxy: {:?} is not allowed, only the node id of a pod of {namespace}",
            request.proxy
        ));
    }
    for (i, service) in request.serves.iter().enumerate() {
        if service.split('.').nth(1) != Some(namespace) {
            return forbidden(format!("serves[{i}]: {service:?} is not allowed, only services of {namespace}"));
        }
    }
    Ok(())
}

fn namespace(spiffe: &str) -> Option<&str> {
    let mut parts = spiffe.strip_prefix("spiffe://")?.split('/');
    let (domain, ns, namespace, sa) = (parts.next()?, parts.next()?, parts.next()?, parts.next()?);
    (!domain.is_empty() && ns == "ns" && !namespace.is_empty() && sa == "sa").then_some(namespace)
}

/// What follows the last comma outside quotes.
fn last_element(value: &str) -> &str {
    split(value, ',').last().unwrap_or_default()
}

fn uri(element: &str) -> Option<&str> {
    let value = split(element, ';').find_map(|pair| pair.trim().strip_prefix("URI="))?;
    let value = value.trim_matches('"');
    (!value.is_empty()).then_some(value)
}

/// Splits outside of quotes, in which a backslash escapes.
fn split(text: &str, at: char) -> impl Iterator<Item = &str> {
    let (mut quoted, mut escaped) = (false, false);
    text.split(move |c| {
        let separates = c == at && !quoted;
        quoted ^= c == '"' && !escaped;
        escaped = c == '\\' && quoted && !escaped;
        separates
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHECKOUT: &str = "spiffe://cluster.local/ns/shop/sa/checkout";

    fn of(value: Option<&str>, peer: &str) -> Result<Option<String>, StatusCode> {
        let mut headers = HeaderMap::new();
        if let Some(value) = value {
            headers.insert(HEADER, value.parse().unwrap());
        }
        Identity::Spiffe.of(&headers, Some(Peer(peer.parse().unwrap()))).map_err(|(status, _)| status)
    }

    #[test]
    fn the_last_element_is_the_sidecars_word() {
        let forged =
            format!("URI=spiffe://cluster.local/ns/bank/sa/vault,By=x;Subject=\"CN=a,URI=b;\\\",c\";URI={CHECKOUT}");
        assert_eq!(of(Some(&forged), "127.0.0.6:1"), Ok(Some(CHECKOUT.to_owned())));
        assert_eq!(of(Some(&format!("URI={CHECKOUT},By=x;Hash=y")), "127.0.0.1:1"), Err(StatusCode::UNAUTHORIZED));
        assert_eq!(of(Some(""), "[::1]:1"), Err(StatusCode::UNAUTHORIZED));
        assert_eq!(of(None, "127.0.0.1:1"), Err(StatusCode::UNAUTHORIZED));
    }

    #[test]
    fn who_does_not_come_through_the_sidecar_is_not_believed() {
        assert_eq!(of(Some(&format!("URI={CHECKOUT}")), "10.0.0.1:1"), Err(StatusCode::UNAUTHORIZED));
        assert_eq!(Identity::None.of(&HeaderMap::new(), None), Ok(None));
    }

    #[test]
    fn a_proxy_speaks_for_its_own_namespace() {
        let request = |proxy: &str, serves: &[&str]| SyncRequest {
            proxy: proxy.into(),
            services: vec!["vault.bank.svc.cluster.local".into()],
            serves: serves.iter().map(ToString::to_string).collect(),
            ..SyncRequest::default()
        };
        let status = |spiffe, request| check(spiffe, &request).map_err(|(status, _)| status);
        let own = "sidecar~10.0.0.1~checkout-1.shop~shop.svc.cluster.local";
        assert_eq!(status(CHECKOUT, request(own, &["checkout.shop.svc.cluster.local"])), Ok(()));
        assert_eq!(status(CHECKOUT, request(own, &["vault.bank.svc.cluster.local"])), Err(StatusCode::FORBIDDEN));
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
}
