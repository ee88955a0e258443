//! The tested combinations: each pair of values of two factors occurs in one of them.
//!
//! The list is the shortest of several that a program made at random; a test checks it. An absent
//! filter has no spot; only those pairs are left out.

use self::{OnRequest::*, OnResponse::*, Payload::*, Protocol::*, Spot::*};
use bloc_policy::config::RoutingKind::{self, Bid, Bloc, Mu};
use std::fmt;

/// A filter that delays a request.
#[derive(Clone, Copy, Debug)]
pub enum OnRequest {
    /// An external authorization over gRPC, which answers after 0 to 20 ms.
    ExtAuthz,
    /// A delay of 10 ms.
    Fault,
    /// A script that calls a service, which answers after 0 to 20 ms.
    Lua,
}

/// A filter that delays an answer.
#[derive(Clone, Copy, Debug)]
pub enum OnResponse {
    /// A script like the one for requests.
    Script,
    /// An external processor, which answers after 0 to 20 ms.
    ExtProc,
}

/// The position of such a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Spot {
    /// Between the client and `bloc.outbound`.
    BeforeOutbound,
    /// Between `bloc.outbound` and the router, which runs `bloc.attempt`.
    AfterOutbound,
    /// Between the sender and `bloc.inbound`.
    BeforeInbound,
    /// Between `bloc.inbound` and the application.
    AfterInbound,
}

/// The bodies of requests and answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Payload {
    Nothing,
    Kilobyte,
    HundredKilobytes,
    /// More than Envoy keeps for a retry. Seven small ones go with each.
    FourMegabytes,
}

/// The protocol on the way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Http1,
    Http2,
    /// HTTP/2 between the Envoys, HTTP/1.1 to either side of them.
    Upgraded,
}

/// One combination.
#[derive(Clone, Copy, Debug)]
pub struct Combination {
    pub on_request: Option<(OnRequest, Spot)>,
    pub on_response: Option<(OnResponse, Spot)>,
    pub payload: Payload,
    pub protocol: Protocol,
    /// Mutual TLS between the Envoys.
    pub tls: bool,
    pub routing: RoutingKind,
    /// Whether the configuration names the servers; otherwise the sender learns them from the
    /// answers.
    pub named: bool,
}

type Row = (Option<(OnRequest, Spot)>, Option<(OnResponse, Spot)>, Payload, Protocol, bool, RoutingKind, bool);

const MTLS: bool = true;
const PLAIN: bool = false;
const NAMED: bool = true;
const LEARNED: bool = false;

#[rustfmt::skip]
const ROWS: [Row; 25] = [
    (None, None, FourMegabytes, Http2, PLAIN, Bid, NAMED),
    (None, Some((Script, BeforeOutbound)), HundredKilobytes, Upgraded, MTLS, Bloc, LEARNED),
    (None, Some((ExtProc, BeforeInbound)), Kilobyte, Http1, MTLS, Mu, NAMED),
    (None, Some((ExtProc, AfterOutbound)), FourMegabytes, Upgraded, PLAIN, Bid, NAMED),
    (None, Some((ExtProc, AfterInbound)), Nothing, Http2, PLAIN, Mu, NAMED),
    (Some((ExtAuthz, AfterOutbound)), None, FourMegabytes, Http2, MTLS, Bloc, NAMED),
    (Some((ExtAuthz, BeforeInbound)), Some((ExtProc, BeforeInbound)), HundredKilobytes, Http2, PLAIN, Bid, NAMED),
    (Some((ExtAuthz, AfterInbound)), Some((Script, AfterOutbound)), Kilobyte, Http2, MTLS, Mu, LEARNED),
    (Some((ExtAuthz, AfterInbound)), Some((Script, AfterInbound)), Nothing, Http1, PLAIN, Bloc, NAMED),
    (Some((ExtAuthz, BeforeOutbound)), Some((ExtProc, AfterInbound)), Kilobyte, Upgraded, MTLS, Bloc, NAMED),
    (Some((ExtAuthz, BeforeOutbound)), Some((ExtProc, BeforeOutbound)), FourMegabytes, Upgraded, MTLS, Mu, NAMED),
    (Some((Fault, AfterOutbound)), Some((Script, AfterOutbound)), HundredKilobytes, Http2, MTLS, Mu, LEARNED),
    (Some((Fault, AfterOutbound)), Some((Script, BeforeOutbound)), Kilobyte, Http1, PLAIN, Bid, NAMED),
    (Some((Fault, AfterOutbound)), Some((ExtProc, BeforeInbound)), Nothing, Upgraded, MTLS, Mu, NAMED),
    (Some((Fault, BeforeInbound)), Some((Script, AfterInbound)), FourMegabytes, Upgraded, PLAIN, Mu, NAMED),
    (Some((Fault, AfterInbound)), Some((ExtProc, BeforeInbound)), HundredKilobytes, Http1, MTLS, Mu, LEARNED),
    (Some((Fault, BeforeOutbound)), None, HundredKilobytes, Http2, PLAIN, Bid, LEARNED),
    (Some((Fault, BeforeOutbound)), Some((ExtProc, AfterOutbound)), Nothing, Http1, PLAIN, Bloc, NAMED),
    (Some((Lua, AfterOutbound)), Some((ExtProc, AfterInbound)), HundredKilobytes, Upgraded, MTLS, Bid, LEARNED),
    (Some((Lua, BeforeInbound)), None, Kilobyte, Http1, MTLS, Mu, LEARNED),
    (Some((Lua, BeforeInbound)), Some((Script, AfterOutbound)), HundredKilobytes, Http1, PLAIN, Bloc, NAMED),
    (Some((Lua, BeforeInbound)), Some((ExtProc, BeforeOutbound)), Nothing, Http2, MTLS, Mu, NAMED),
    (Some((Lua, AfterInbound)), None, Nothing, Upgraded, PLAIN, Bid, LEARNED),
    (Some((Lua, AfterInbound)), Some((ExtProc, BeforeOutbound)), FourMegabytes, Http1, PLAIN, Bid, LEARNED),
    (Some((Lua, BeforeOutbound)), Some((Script, BeforeInbound)), FourMegabytes, Http1, MTLS, Bloc, LEARNED),
];

impl fmt::Display for Combination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { on_request, on_response, payload, protocol, tls, routing, named } = self;
        let (tls, named) = (if *tls { "mTLS" } else { "plain" }, if *named { "named" } else { "learned" });
        write!(f, "{on_request:?}, {on_response:?}, {payload:?}, {protocol:?}, {tls}, {routing:?}, {named}")
    }
}

/// All combinations, each with its number.
pub fn all() -> impl Iterator<Item = (usize, Combination)> {
    let of = |(on_request, on_response, payload, protocol, tls, routing, named)| Combination {
        on_request,
        on_response,
        payload,
        protocol,
        tls,
        routing,
        named,
    };
    ROWS.into_iter().map(of).enumerate()
}

mod pairs {
    use super::*;
    use std::collections::{BTreeMap, BTreeSet};

    /// A factor and one of its values.
    type Value = (&'static str, String);

    /// The value of each factor. An absent filter has no spot.
    fn values(combination: &Combination) -> Vec<Value> {
        let Combination { on_request, on_response, payload, protocol, tls, routing, named } = combination;
        let mut values = vec![
            ("on request", format!("{:?}", on_request.map(|(filter, _)| filter))),
            ("on response", format!("{:?}", on_response.map(|(filter, _)| filter))),
            ("payload", format!("{payload:?}")),
            ("protocol", format!("{protocol:?}")),
            ("tls", tls.to_string()),
            ("routing", format!("{routing:?}")),
            ("named", named.to_string()),
        ];
        values.extend(on_request.map(|(_, spot)| ("spot on request", format!("{spot:?}"))));
        values.extend(on_response.map(|(_, spot)| ("spot on response", format!("{spot:?}"))));
        values
    }

    #[test]
    fn the_combinations_cover_each_pair_of_values() {
        let mut factors: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        let mut had: BTreeSet<[Value; 2]> = BTreeSet::new();
        for (_, combination) in all() {
            let values = values(&combination);
            for (factor, value) in &values {
                factors.entry(factor).or_default().insert(value.clone());
            }
            had.extend(values.iter().flat_map(|one| values.iter().map(|other| [one.clone(), other.clone()])));
        }
        let sizes: Vec<_> = factors.iter().map(|(factor, values)| (*factor, values.len())).collect();
        let expected = [("named", 2), ("on request", 4), ("on response", 3), ("payload", 4), ("protocol", 3)];
        assert_eq!(sizes[..5], expected);
        assert_eq!(sizes[5..], [("routing", 3), ("spot on request", 4), ("spot on response", 4), ("tls", 2)]);
        let values: Vec<Value> =
            factors.iter().flat_map(|(factor, values)| values.iter().map(|value| (*factor, value.clone()))).collect();
        let is_void = |(filter, value): &Value, (spot, _): &Value| value == "None" && *spot == format!("spot {filter}");
        let missing =
            values.iter().flat_map(|one| values.iter().map(move |other| [one, other])).filter(|[one, other]| {
                one.0 != other.0
                    && !had.contains(&[(*one).clone(), (*other).clone()])
                    && !is_void(one, other)
                    && !is_void(other, one)
            });
        assert_eq!(missing.collect::<Vec<_>>(), Vec::<[&Value; 2]>::new());
    }
}
