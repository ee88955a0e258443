//! Two servers, one of which lies.
//!
//! A bounce leads to the other server for sure, and that one's report limits the bid. So a liar has
//! more to say here than among ten. The measure is least request, which reads no reports, with a
//! liar that treats its requests the same way.
//!
//! | what the liar does | what that is bounded by |
//! |---|---|
//! | calls itself fast, and answers bids in time | less than 95% of requests; the mean and the 99th percentile are at most [`MAX_REPORT_FACTOR`] times least request's |
//! | calls itself fast, and breaks its promises | at most a fifth of the requests more than with `bloc`, which reads no times |
//! | calls itself slow, reports nonsense or nothing, or rejects | the harm that a server which rejects everything does to least request |
//! | calls itself fast, and freezes | twice the lost requests of least request, with `mu` three times |
//!
//! The third one is no small harm: the other server may have to do nearly all of the work, even
//! where that is too much for it. It takes no rejection.

use crate::mesh::{Lie, Mesh, SENDERS, SERVICE, Tally};
use bloc_policy::config::RoutingKind;
use bloc_policy::routing::mu::estimate::MAX_REPORT_FACTOR;
use std::time::Duration;

const MINUTES: Duration = Duration::from_secs(300);
/// The shares of their time for which two honest servers are busy: nearly always one request at a
/// time; one of the servers could do it all; it could not.
const LOADS: [f64; 3] = [0.05, 0.4, 0.7];
const LEAST_REQUEST: (RoutingKind, u32) = (RoutingKind::LeastRequest, 0);
const BLOC: (RoutingKind, u32) = (RoutingKind::Bloc, 0);
/// More than twice what is bid.
const LATE: Duration = Duration::from_millis(500);

/// Offers to answer in no time, in little, and in half and all of an honest server's. All say that
/// nothing is in the server.
const PRAISE: [&[u8]; 5] = [
    b"chip=1, queue=0, service=999999999999999, exec=0.001",
    b"chip=1, queue=0, service=1000, exec=1, fleet",
    b"chip=1, queue=0, service=1000, exec=25",
    b"chip=1, queue=0, capacity=1000000, service=1000, exec=50",
    b"chip=1, queue=0, capacity=1000000, rate=999999999999999, confidence=0.001, service=20, exec=50",
];
/// Huge times, and numbers that are missing or cannot be.
const COMPLAINTS: [&[u8]; 6] = [
    b"chip=0, queue=4294967295, capacity=1, service=0.001, exec=999999999999999",
    b"chip=1, queue=0, service=0.001, exec=999999999999999",
    b"chip=1, queue=-5, capacity=-1, rate=-38.2, confidence=-0.5, exec=-3, service=-40",
    b"chip=NaN, queue=nan, service=inf, exec=NaN",
    b"chip=1, queue=0, service=20, exec=0",
    b"",
];

/// Two servers, one of which begins with the first lie, and goes on with the second one.
fn run(sender: (RoutingKind, u32), load: f64, lies: [Lie; 2]) -> (Mesh, Tally) {
    run_with(5, sender, load, lies)
}

fn run_with(seed: u64, sender: (RoutingKind, u32), load: f64, lies: [Lie; 2]) -> (Mesh, Tally) {
    let mut mesh = Mesh::of(2, sender, load, seed);
    mesh.lie(lies[0]);
    mesh.run(Duration::from_secs(20));
    mesh.lie(lies[1]);
    let tally = mesh.run(MINUTES);
    (mesh, tally)
}

fn say(sender: (RoutingKind, u32), load: f64, lie: Lie, tally: &Tally, other: &Tally) -> String {
    let of = |tally: &Tally| {
        let (share, mean, p99) = (tally.share(), tally.mean(), tally.p99());
        format!("share {share:.2}, mean {mean:.0} ms, p99 {p99} ms, {} lost", tally.lost)
    };
    let what =
        format!("{sender:?}, {load}, {lie}: {}, {} at once; instead of {}", of(tally), tally.most_at_liar, of(other));
    println!("{what}");
    what
}

#[test]
fn a_server_of_two_that_flatters_and_keeps_its_bids_costs_no_more_than_the_report_factor() {
    for load in LOADS {
        let lies = |text| [Lie::Says(text), Lie::Delays(text, 2 * SERVICE), Lie::DelaysWithoutBid(text, LATE)];
        for lie in PRAISE.into_iter().flat_map(lies) {
            let (_, least) = run(LEAST_REQUEST, load, [Lie::None, lie]);
            for sender in SENDERS {
                let (_, tally) = run(sender, load, [Lie::None, lie]);
                let what = say(sender, load, lie, &tally, &least);
                assert!(tally.share() < 0.95, "{what}");
                assert!(tally.most_at_liar <= 30, "{what}");
                assert!(tally.p99() as f64 <= MAX_REPORT_FACTOR * least.p99() as f64, "{what}");
                assert!(tally.mean() <= MAX_REPORT_FACTOR * least.mean(), "{what}");
                assert_eq!(tally.lost, 0, "{what}");
            }
        }
    }
}

#[test]
fn a_server_of_two_that_breaks_its_promises_draws_hardly_more_than_without_reports() {
    for load in LOADS {
        for lie in PRAISE.map(|text| Lie::Delays(text, LATE)) {
            let (_, bloc) = run(BLOC, load, [Lie::None, lie]);
            for sender in SENDERS {
                let (_, tally) = run(sender, load, [Lie::None, lie]);
                let what = say(sender, load, lie, &tally, &bloc);
                assert!(tally.share() <= bloc.share() + 0.2, "{what}");
                assert!(tally.p99() <= bloc.p99(), "{what}");
                assert_eq!(tally.lost, 0, "{what}");
            }
        }
    }
}

#[test]
fn a_server_of_two_repels_no_more_than_by_rejecting_and_regains_its_half() {
    for load in LOADS {
        let (_, least) = run(LEAST_REQUEST, load, [Lie::None, Lie::Rejects(b"")]);
        let lies = |text| [Lie::Says(text), Lie::Rejects(text), Lie::Bounces(text)];
        for lie in COMPLAINTS.into_iter().chain([PRAISE[0]]).flat_map(lies) {
            for sender in SENDERS {
                let (mut mesh, tally) = run(sender, load, [Lie::None, lie]);
                let what = say(sender, load, lie, &tally, &least);
                assert!(tally.p99() as f64 <= 1.1 * least.p99() as f64, "{what}");
                assert!(tally.lost as f64 <= 1.1 * least.lost as f64, "{what}");
                mesh.lie(Lie::None);
                // The other one may have a long queue.
                mesh.run(Duration::from_secs(30));
                let after = mesh.run(MINUTES);
                let what = say(sender, load, lie, &after, &tally);
                assert!((0.4..0.6).contains(&after.share()), "then: {what}");
                assert_eq!(after.lost, 0, "then: {what}");
            }
        }
    }
}

#[test]
fn a_server_of_two_that_flatters_and_freezes_loses_at_most_twice_what_least_request_loses() {
    for load in LOADS {
        let (_, least) = run(LEAST_REQUEST, load, [Lie::None, Lie::Swallows]);
        for lie in PRAISE.map(Lie::Says) {
            for sender in SENDERS {
                let (_, tally) = run(sender, load, [lie, Lie::Swallows]);
                let what = say(sender, load, lie, &tally, &least);
                let factor = if sender.0 == RoutingKind::Mu { 3.0 } else { 2.0 };
                assert!(tally.lost as f64 <= factor * least.lost as f64, "{what}");
            }
        }
    }
}
