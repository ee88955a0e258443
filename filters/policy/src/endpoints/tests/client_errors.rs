//! Answers with a client's error.

use super::*;

/// Answers an attempt to a server.
fn answered(endpoints: &mut Endpoints, id: EndpointId, answer: Answer, now: u64) {
    let permit = endpoints.begin(id, at(now)).unwrap();
    endpoints.answer(id, permit, answer, at(now));
    endpoints.end(id);
}

fn refused() -> Answer {
    Answer::ClientError(Some(report(true)))
}

fn fleet() -> (Endpoints, [EndpointId; 3]) {
    let mut endpoints = Endpoints::new(RESET);
    let ids = ["s", "t", "u"].map(|name| endpoints.add(name, at(0)));
    (endpoints, ids)
}

fn is_shut(endpoints: &Endpoints, id: EndpointId) -> bool {
    endpoints.get(id).unwrap().is_shut()
}

#[test]
fn a_server_that_gives_an_error_that_its_peers_do_not_give_is_left_alone_while_it_does() {
    let (mut endpoints, [bad, well, _]) = fleet();
    answered(&mut endpoints, well, Answer::Served(report(true)), 0);
    let shut = (0..4).map(|nth| {
        answered(&mut endpoints, bad, refused(), nth);
        is_shut(&endpoints, bad)
    });
    assert_eq!(shut.collect::<Vec<_>>(), [false, false, false, true]);
    assert!(!is_shut(&endpoints, well));
    // Each probe finds the same, until one does not.
    for probe in 1..5 {
        answered(&mut endpoints, bad, refused(), 1_000 * probe);
        assert!(is_shut(&endpoints, bad), "{probe}");
    }
    answered(&mut endpoints, bad, Answer::Served(report(true)), 9_000);
    assert!(!is_shut(&endpoints, bad));
}

#[test]
fn an_error_in_the_trailers_counts_the_same() {
    let (mut endpoints, [bad, ..]) = fleet();
    // Each answer looked good at first, so it takes one more error.
    let shut = (0..5).map(|nth| {
        answered(&mut endpoints, bad, Answer::Unreported, nth);
        endpoints.client_erred(bad, at(nth));
        is_shut(&endpoints, bad)
    });
    assert_eq!(shut.collect::<Vec<_>>(), [false, false, false, false, true]);
}

#[test]
fn clients_that_ask_for_what_is_not_there_shut_no_server() {
    let mut rng = fastrand::Rng::with_seed(1);
    for share in [0.02, 0.3, 0.9] {
        let ((mut endpoints, ids), mut shut) = (fleet(), 0);
        for nth in 0..3_000 {
            let id = ids[nth as usize % 3];
            let answer = if rng.f64() < share { refused() } else { Answer::Served(report(true)) };
            answered(&mut endpoints, id, answer, nth);
            shut += u32::from(is_shut(&endpoints, id));
        }
        assert!(shut < 150, "{share}: {shut}");
    }
}
