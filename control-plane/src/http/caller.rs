//! To whom the memory of a request is charged: to the SPIFFE id if it is proved, otherwise to the
//! source address. IPv6 addresses are cut to the /64, because who has one address of it usually has
//! all.

use super::identity::{Identity, Peer};
use axum::http::HeaderMap;
use bloc_daemon::server::network;
use std::sync::Arc;

/// The caller of a request.
pub fn of(identity: &Identity, headers: &HeaderMap, peer: Option<Peer>) -> Arc<str> {
    match identity.of(headers, peer) {
        Ok(Some(spiffe)) => spiffe.into(),
        _ => peer.map_or_else(Arc::default, |Peer(address)| network(address.ip()).to_string().into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_a_caller_without_a_proved_spiffe_id_by_its_address() {
        let peer = |text: &str| Some(Peer(text.parse().unwrap()));
        let mut headers = HeaderMap::new();
        headers.insert("x-forwarded-client-cert", "By=spiffe://td/a;URI=spiffe://td/ns/shop/sa/x".parse().unwrap());
        assert_eq!(&*of(&Identity::Spiffe(None), &headers, peer("127.0.0.1:1")), "spiffe://td/ns/shop/sa/x");
        assert_eq!(&*of(&Identity::Spiffe(None), &headers, peer("10.0.0.1:1")), "10.0.0.1");
        assert_eq!(&*of(&Identity::None, &headers, peer("10.0.0.1:1")), "10.0.0.1");
    }
}
