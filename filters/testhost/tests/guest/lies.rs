//! False and invalid headers from peers, in the real module: no value crashes it, and invalid input
//! counts as missing.

use crate::support::{GET, admitted, caller, inbound, metric, process};
use bloc_testhost::{Headers, Response, Root};
use serde_json::json;
use std::time::Duration;

const WORK: Duration = Duration::from_millis(100);
const LIAR: &str = "10.0.0.1:80";
const HONEST: &str = "10.0.0.2:80";

/// How a server with or without a queue treats a request with this bid: our headers in the
/// response, and whether it was bounced.
fn treated(root: &Root, bid: Option<&[u8]>) -> (Vec<String>, bool) {
    let request = Headers::new(&GET[..]);
    if let Some(bid) = bid {
        request.edit(|map| map.add("x-bloc-bid", bid));
    }
    let mut stream = root.stream();
    let flow = stream.request_headers(&request, true);
    if !flow.continues() {
        return (Vec::new(), true);
    }
    let response = Response::new(200, &[], b"");
    assert!(stream.response_headers(&response.headers, true).continues());
    stream.done();
    let names = response.headers.borrow().names("x-bloc");
    (names, false)
}

#[test]
fn an_invalid_bid_is_treated_like_a_missing_one() {
    let process = process(1);
    let root = inbound(&process, &json!({"concurrency": 1, "hold": false}));
    // The server learns how long a request takes.
    for _ in 0..200 {
        let mut stream = admitted(&root);
        process.advance(WORK);
        assert!(stream.response_headers(&Response::new(200, &[], b"").headers, true).continues());
        stream.done();
    }
    let long = [b'9'; 10 << 10];
    let nonsense: [&[u8]; 8] = [b"", b"-1", b"NaN", b"inf", b"1e3", b"12ms", b"\xff\xfe", &long];
    let line = [(); 3].map(|()| admitted(&root));
    let missing = treated(&root, None);
    assert_eq!(missing, (Vec::new(), false), "admitted, and a caller without our filters gets no report");
    for bid in nonsense {
        assert_eq!(treated(&root, Some(bid)), missing, "{:?}", String::from_utf8_lossy(&bid[..bid.len().min(9)]));
    }
    assert_eq!(treated(&root, Some(b"any")), (vec!["x-bloc-load".to_owned()], false), "a bid without limit");
    assert!(treated(&root, Some(b"0.001")).1, "a bid below what it takes");
    drop(line);
    process.advance(Duration::from_secs(1));
    assert_eq!(metric(&process, "inbound", "in_flight"), Some(0));
}

/// Every routing with every kind of invalid or false report, from a server that is ten times slower
/// than the other one: requests are answered, none of our headers reaches the client, and `mu`
/// prefers the fast server, whatever the other claims. (A server with unreadable reports counts as
/// one without our filters, and gets its share.)
#[test]
fn false_reports_crash_no_caller_and_attract_no_traffic_with_mu() {
    let long = [b"queue=1, ".as_slice(), &[b'7'; 10 << 10]].concat();
    let unreadable: [&[u8]; 4] = [
        b"chip=NaN, queue=inf, service=-0",
        b"chip=1, queue=-1, capacity=-9, rate=-1, confidence=-1, exec=-1, service=-1",
        b"\xff\xfe, \x80",
        &long,
    ];
    let numbers: [&[u8]; 4] = [
        b"chip=1, queue=0, service=999999999999999, exec=0.001",
        b"chip=1, queue=999999999999999, rate=999999999999999, confidence=1, exec=999999999999999, service=999999999999999",
        b"chip=1, queue=999999999999999, service=0.001",
        b"chip=1, queue=0, capacity=0, service=0.001, exec=999999999999999",
    ];
    let said = unreadable.map(|lie| (lie, false)).into_iter().chain(numbers.map(|lie| (lie, true)));
    for routing in ["bloc", "bid", "mu"] {
        for (seed, (lie, claims)) in (1..).zip(said.clone()) {
            let sender = process(seed);
            let spec = json!({"routing": routing, "endpoints": [LIAR, HONEST], "resetInterval": "100ms", "slo": "1h"});
            let caller = caller(&sender, &spec, &[LIAR, HONEST]);
            let mut asked = [0, 0];
            for _ in 0..200 {
                sender.advance(Duration::from_millis(20));
                let outcome = caller.send(GET, |address, _| {
                    let liar = address == LIAR;
                    sender.advance(if liar { WORK } else { WORK / 10 });
                    asked[usize::from(!liar)] += 1;
                    let response = Response::new(200, &[], b"");
                    let report: &[u8] = if liar { lie } else { b"chip=1, queue=0, service=100, exec=10" };
                    response.headers.edit(|map| map.add("x-bloc-load", report));
                    Some(response)
                });
                assert_eq!(outcome.response.status(), 200, "{routing}");
                assert_eq!(outcome.response.headers.borrow().names("x-bloc"), Vec::<String>::new());
            }
            let what = format!("{routing}, {:?}: {asked:?}", String::from_utf8_lossy(&lie[..lie.len().min(60)]));
            println!("{what}");
            assert_eq!(asked[0] + asked[1], 200, "{what}");
            assert!(asked[0] > 0 && asked[1] > 0, "{what}");
            assert!(routing != "mu" || !claims || 4 * asked[0] < asked[1], "{what}");
        }
    }
}
