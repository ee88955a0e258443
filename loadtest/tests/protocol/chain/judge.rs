//! The checks of one combination, and of a group.

use super::clients::Tally;
use super::combinations::{Combination, OnRequest, OnResponse, Protocol};
use super::testbed::{Stand, Target};
use super::{Course, FULL, REQUESTS, STOCK, WARM_UP};
use std::sync::atomic::Ordering;

/// The most forced attempts in a thousand, over all combinations of a group.
const FORCED: u64 = 10;
/// The most explorations in a hundred requests. A sender that learns keeps exploring with one in
/// 50.
const EXPLORING: u64 = 10;

/// What is wrong with this combination.
pub async fn course(stand: &Stand, number: usize, combination: &Combination, course: &Course) -> Vec<String> {
    let Course { calm, crowded, full, stock } = course;
    let mut wrong: Vec<String> = Vec::new();
    for (name, side) in [("calm", calm), ("crowded", crowded), ("full", full)] {
        println!("{number} {name}: {:?}, of all {:?}, rejected {:?}", side.counted, side.all, side.tally.rejected);
        let mut fails = |what: String| wrong.push(format!("{name}: {what}"));
        let requests = if name == "full" { 2 * FULL } else { WARM_UP + REQUESTS };
        seen(stand, &side.tally, requests).into_iter().for_each(&mut fails);
        let told = side.tally.rejected.len() as u64;
        if side.all.retries_exhausted != told {
            fails(format!("{} retries exhausted, and clients were told of {told}", side.all.retries_exhausted));
        }
        if side.all.failures != 0 {
            fails(format!("{} attempts without an answer", side.all.failures));
        }
        if name == "full" {
            continue;
        }
        let (requests, fallbacks) = (side.counted.requests, side.counted.fallbacks);
        let most = if combination.named { 0 } else { requests * EXPLORING / 100 };
        if fallbacks > most {
            fails(format!("{fallbacks} of {requests} requests fell back"));
        }
        // Envoy keeps too little of a long body to send it again.
        let given_up = side.tally.rejected.iter().filter(|(_, long)| !long).count();
        if given_up * 50 > WARM_UP + REQUESTS {
            fails(format!("{given_up} requests with short bodies were rejected"));
        }
    }
    // Even a long body is bounced only for capacity, and no server here has one.
    if !calm.tally.rejected.is_empty() || !calm.tally.too_long.is_empty() {
        wrong.push(format!("calm: rejected {:?} and {:?}", calm.tally.rejected, calm.tally.too_long));
    }
    wrong.extend(seen(stand, stock, STOCK).into_iter().map(|what| format!("stock: {what}")));
    if !stock.rejected.is_empty() {
        wrong.push("stock Envoys answered as we do".to_owned());
    }
    if crowded.all.rejected == 0 || full.all.retries_exhausted == 0 {
        wrong.push("nobody was rejected".to_owned());
    }
    for cluster in [Target::Calm, Target::Crowded, Target::Full, Target::Stock].map(|target| target.name(number)) {
        let [http1, http2] = ["upstream_cx_http1_total", "upstream_cx_http2_total"];
        let (expected, other) = if combination.protocol == Protocol::Http1 { (http1, http2) } else { (http2, http1) };
        if stand.of_cluster(&cluster, expected).await == 0 || stand.of_cluster(&cluster, other).await != 0 {
            wrong.push(format!("{cluster} has spoken another protocol"));
        }
        if combination.tls != (stand.of_cluster(&cluster, "ssl.handshake").await > 0) {
            wrong.push(format!("{cluster}: TLS where there should be none, or none"));
        }
    }
    wrong
}

/// What is wrong with this group.
pub fn group(stand: &Stand, combinations: &[(usize, Combination)], courses: &[Course]) -> Vec<String> {
    let mut wrong = Vec::new();
    let sum = |of: fn(&Course) -> u64| courses.iter().map(of).sum::<u64>();
    let (forced, attempts) = (sum(|course| course.calm.counted.forced), sum(|course| course.calm.counted.attempts));
    println!("{forced} of {attempts} attempts were forced");
    if forced * 1000 > attempts * FORCED {
        wrong.push(format!("calm: {forced} of {attempts} attempts were forced"));
    }
    let ours = &stand.seen.lock().unwrap().ours;
    if !ours.is_empty() {
        wrong.push(format!("applications have seen {} headers of ours, such as {}", ours.len(), ours[0]));
    }
    // The other filters have done their work. Some do not see rejected requests.
    let with = |which: fn(&Combination) -> bool| {
        let these = combinations.iter().filter(|(_, combination)| which(combination)).count();
        (these * 2 * REQUESTS) as u64
    };
    let calls = &stand.services.calls;
    let asks_for_pages = |it: &Combination| {
        let script = matches!(it.on_response, Some((OnResponse::Script, _)));
        script || matches!(it.on_request, Some((OnRequest::Lua, _)))
    };
    for (name, calls, least) in [
        ("ext_authz", &calls.authorizations, with(|it| matches!(it.on_request, Some((OnRequest::ExtAuthz, _))))),
        ("ext_proc", &calls.processed, with(|it| matches!(it.on_response, Some((OnResponse::ExtProc, _))))),
        ("Lua", &calls.pages, with(asks_for_pages)),
    ] {
        let calls = calls.load(Ordering::SeqCst) as u64;
        if calls < least {
            wrong.push(format!("{name} was asked {calls} times by {least} requests"));
        }
    }
    wrong
}

/// Checks what clients and applications saw of `requests` requests.
fn seen(stand: &Stand, tally: &Tally, requests: usize) -> Vec<String> {
    let mut wrong = Vec::new();
    let total = tally.served.len() + tally.rejected.len() + tally.too_long.len() + tally.wrong.len();
    if total != requests {
        wrong.push(format!("{total} answers to {requests} requests"));
    }
    if let Some(first) = tally.wrong.first() {
        wrong.push(format!("{} wrong answers, such as to {first}", tally.wrong.len()));
    }
    let seen = stand.seen.lock().unwrap();
    let times = |number: &u64| seen.requests.get(number).copied().unwrap_or(0);
    let not_once = tally.served.iter().filter(|number| times(number) != 1).count();
    if not_once > 0 {
        wrong.push(format!("applications had {not_once} of the served requests not at all or more than once"));
    }
    let bounced = tally.rejected.iter().map(|(number, _)| number).chain(&tally.too_long);
    let had = bounced.filter(|number| times(number) != 0).count();
    if had > 0 {
        wrong.push(format!("applications had {had} of the rejected requests"));
    }
    wrong
}
