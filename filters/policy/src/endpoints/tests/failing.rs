//! Servers that fail: how long they are left alone, and the chips that it costs them.

use super::*;

/// For how many milliseconds a server gets no attempts after this many attempts that began at once.
/// The nth of them ended with this answer at `ends(n)` ms.
fn left_alone(routing: &mut impl Routing, attempts: usize, answer: Answer, ends: impl Fn(u64) -> u64) -> u64 {
    let mut endpoints = Endpoints::new(RESET);
    let [fails, _] = ["fails", "serves"].map(|name| endpoints.add(name, at(0)));
    endpoints.answer(fails, Permit::Probe, Answer::Served(report(true)), at(0));
    endpoints.answer(fails, Permit::Probe, Answer::Served(report(true)), at(0));
    let permits: Vec<Permit> = (0..attempts).filter_map(|_| endpoints.begin(fails, at(0))).collect();
    let last = (1..=attempts as u64).zip(permits).map(|(n, permit)| {
        endpoints.answer(fails, permit, answer, at(ends(n)));
        endpoints.end(fails);
        ends(n)
    });
    let last = last.last().unwrap_or(0);
    let (mut rng, mut list) = (fastrand::Rng::with_seed(5), Vec::new());
    let asked = (last..last + 10_000).find(|&millis| {
        routing.choose(&mut endpoints, 1, at(millis), &mut rng, &mut list);
        let permit = endpoints.begin(list[0], at(millis)).unwrap();
        if list[0] != fails {
            endpoints.answer(list[0], permit, Answer::Served(report(true)), at(millis));
            endpoints.end(list[0]);
        }
        list[0] == fails
    });
    asked.unwrap_or(u64::MAX) - last
}

#[test]
fn a_server_whose_failures_follow_each_other_is_left_alone_for_eight_intervals() {
    let interval = RESET.as_millis() as u64;
    for answer in [Answer::Failed, Answer::Erred(Some(report(true)))] {
        for (attempts, apart, intervals) in [(2, 0, 1), (3, 0, 1), (2, 3, 8), (3, 50, 8), (1, 49, 1)] {
            let bloc = left_alone(&mut Bloc { looks: 2 }, attempts, answer, |n| apart * n);
            let mu = left_alone(&mut crate::routing::Mu::with_interval(RESET), attempts, answer, |n| apart * n);
            let expected = intervals * interval..intervals * interval + 20;
            println!("{answer:?} {attempts} {apart}: bloc {bloc}, mu {mu}");
            // With `bloc` a first failure takes one chip of several.
            if intervals == 8 {
                assert!(expected.contains(&bloc), "bloc, {attempts} {answer:?}, {apart} ms apart: after {bloc} ms");
            }
            assert!(expected.contains(&mu), "mu, {attempts} {answer:?}, {apart} ms apart: after {mu} ms");
        }
    }
}

/// How many requests a sender may have at a server in each round of that many answers.
fn requests_per_round(endpoints: &mut Endpoints, id: EndpointId, rounds: usize) -> Vec<usize> {
    let mut round = |millis| {
        let mut begun = Vec::new();
        while endpoints.get(id).is_some_and(|endpoint| endpoint.chips() > 0) || begun.is_empty() {
            begun.push(endpoints.begin(id, at(millis)).unwrap());
        }
        for permit in &begun {
            endpoints.answer(id, *permit, Answer::Served(report(true)), at(millis));
            endpoints.end(id);
        }
        begun.len()
    };
    (0..rounds as u64).map(|n| round(10_000 + 1_000 * n)).collect()
}

#[test]
fn a_server_earns_the_chips_that_failures_cost_it_twice_as_fast() {
    let served = Answer::Served(report(true));
    for (last, rounds) in [(None, [1, 2, 4, 8, 9]), (Some(Answer::Rejected(report(false))), [1, 1, 1, 1, 1])] {
        let mut endpoints = Endpoints::new(RESET);
        let [id, _] = ["fails", "serves"].map(|name| endpoints.add(name, at(0)));
        (0..7).for_each(|_| endpoints.answer(id, Permit::Probe, served, at(0)));
        let permits: Vec<Permit> = (0..8).filter_map(|_| endpoints.begin(id, at(1))).collect();
        for (permit, millis) in permits.iter().zip((10..).step_by(10)) {
            endpoints.answer(id, *permit, Answer::Failed, at(millis));
            endpoints.end(id);
        }
        if let Some(answer) = last {
            let permit = endpoints.begin(id, at(5_000)).unwrap();
            endpoints.answer(id, permit, answer, at(5_000));
            endpoints.end(id);
        }
        assert_eq!(requests_per_round(&mut endpoints, id, 5), rounds, "{last:?}");
    }
}

/// Its headers say that it serves, its trailers that it fails.
#[test]
fn a_server_whose_errors_come_in_trailers_runs_out_of_chips() {
    let mut endpoints = Endpoints::new(RESET);
    let [id, _] = ["fails", "serves"].map(|name| endpoints.add(name, at(0)));
    (0..9).for_each(|_| endpoints.answer(id, Permit::Probe, Answer::Served(report(true)), at(0)));
    let mut count = 0;
    for n in 0..100 {
        if endpoints.get(id).is_none_or(|endpoint| endpoint.chips() == 0) {
            break;
        }
        count += 1;
        let permit = endpoints.begin(id, at(n)).unwrap();
        endpoints.answer(id, permit, Answer::Served(report(true)), at(n));
        endpoints.erred(id, true, at(n));
        endpoints.end(id);
    }
    assert!((5..=10).contains(&count), "{count} attempts");
}

#[test]
fn a_newcomer_soon_has_as_many_chips_as_the_others_have_on_average() {
    let mut endpoints = Endpoints::new(RESET);
    let ids = ["one", "two"].map(|name| endpoints.add(name, at(0)));
    for (id, chips) in ids.into_iter().zip([4, 8]) {
        (1..chips).for_each(|_| endpoints.answer(id, Permit::Probe, Answer::Served(report(true)), at(0)));
    }
    let new = endpoints.add("new", at(0));
    assert_eq!(requests_per_round(&mut endpoints, new, 5), [1, 2, 4, 6, 6]);
}

/// The same after this many attempts that time out one after the other, a millisecond apart.
fn left_alone_from(routing: &mut impl Routing, attempts: u64, first: u64) -> u64 {
    left_alone(routing, attempts as usize, Answer::Failed, |n| first + n - 1)
}

#[test]
fn a_server_that_times_out_is_left_alone_for_eight_intervals() {
    let interval = RESET.as_millis() as u64;
    for attempts in [1, 2, 3] {
        let mu = &mut crate::routing::Mu::with_interval(RESET);
        let bloc = left_alone_from(&mut Bloc::default(), attempts, 50);
        for alone in [bloc, left_alone_from(mu, attempts, 50)] {
            assert!((8 * interval - 5..8 * interval + 20).contains(&alone), "{attempts}: after {alone} ms");
        }
    }
}

/// For how many intervals a server is left alone. Two attempts begin at once: one is answered after
/// 100 ms, and the other fails `silent` ms later, `took` ms after it began.
fn intervals(answer: Answer, silent: u64, took: u64) -> u64 {
    let mut endpoints = Endpoints::new(RESET);
    let [id, _] = ["s", "t"].map(|name| endpoints.add(name, at(0)));
    let permits = [(); 2].map(|()| endpoints.begin(id, at(0)).unwrap());
    endpoints.answer(id, permits[0], answer, at(100));
    endpoints.end(id);
    let ends = 100 + silent;
    endpoints.answer_after(id, permits[1], Answer::Failed, Duration::from_millis(took), at(ends));
    let until = endpoints.get(id).and_then(|endpoint| endpoint.shut).map(|shut| shut.until);
    until.unwrap().since(at(ends)).as_millis() as u64 / RESET.as_millis() as u64
}

#[test]
fn an_attempt_that_began_before_the_last_answer_times_out_too() {
    let served = Answer::Served(report(true));
    assert_eq!([intervals(served, 50, 150), intervals(served, 49, 149)], [8, 1]);
    assert_eq!(intervals(served, 50, 49), 1, "it fails at once");
    // A bounce is not an answer of the application.
    assert_eq!(intervals(Answer::Bounced(report(true)), 1, 101), 8);
}

#[test]
fn an_answer_between_two_failures_makes_the_second_one_the_first() {
    let mut endpoints = Endpoints::new(RESET);
    let [id, _] = ["s", "t"].map(|name| endpoints.add(name, at(0)));
    for millis in [10, 400, 800] {
        let permit = endpoints.begin(id, at(millis)).unwrap();
        endpoints.answer(id, permit, Answer::Failed, at(millis));
        endpoints.end(id);
        let until = endpoints.get(id).and_then(|endpoint| endpoint.shut).map(|shut| shut.until);
        assert_eq!(until, Some(at(millis + 200)), "at {millis} ms");
        endpoints.answer(id, Permit::Probe, Answer::Served(report(true)), at(millis + 210));
    }
}

/// The headers of a gRPC answer say that the server serves, the trailers that it fails.
#[test]
fn errors_in_trailers_follow_each_other_like_others() {
    let mut endpoints = Endpoints::new(RESET);
    let [id, _] = ["s", "t"].map(|name| endpoints.add(name, at(0)));
    let served = Answer::Served(report(true));
    for (millis, fails, intervals) in [(0, true, 1), (400, true, 8), (3_000, false, 0), (3_100, true, 1)] {
        let permit = endpoints.begin(id, at(millis)).unwrap();
        endpoints.answer(id, permit, served, at(millis));
        if fails {
            endpoints.erred(id, true, at(millis));
        }
        endpoints.end(id);
        let until = endpoints.get(id).and_then(|endpoint| endpoint.shut).map(|shut| shut.until);
        assert_eq!(until, fails.then(|| at(millis + 200 * intervals)), "at {millis} ms");
    }
}
