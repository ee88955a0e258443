//! The requests on their way out, by their keys.

use super::*;

const PLUGIN: PluginId = PluginId::new(1);
/// Two retries of its own, one after a bounce, one after another rejection.
const RETRIES: Retries = Retries::new(2, 1, 1);
const OVER: Then = Then::Nothing { named: false };

fn begin<C>(requests: &mut Requests<C, u32>, cluster: &Rc<C>) -> RequestKey {
    let cluster = Rc::clone(cluster);
    requests.begin(Begun { plugin: PLUGIN, cluster, first: None, retries: RETRIES, named: false })
}

/// When attempts are answered.
const NOW: Timestamp = Timestamp::from_nanos(7);

#[test]
fn a_key_finds_its_own_request_until_that_ends() {
    let mut requests = Requests::new(0x0123_4567_89ab_cdef);
    let [one, two] = [Rc::new(1), Rc::new(2)];
    let first = begin(&mut requests, &one);
    let second = begin(&mut requests, &two);
    assert_eq!(requests.attempt(second, false).map(|next| (*next.cluster, next.number)), Some((2, 0)));
    assert_eq!(requests.attempt(second, false).map(|next| (*next.cluster, next.number)), Some((2, 1)));
    assert_eq!(requests.attempt(first, false).map(|next| (*next.cluster, next.number)), Some((1, 0)));
    assert_eq!(requests.ended(second, End::Rejected, NOW, |retries| retries.rejected(true)), Then::Envoy);
    let course = |requests: &Requests<i32, u32>, key| {
        requests.course(key).map(|course| (course.attempts, course.last == End::Rejected))
    };
    assert_eq!(course(&requests, second), Some((2, true)));
    assert_eq!(course(&requests, first), Some((1, false)));
    requests.attempt(second, false);
    assert_eq!(course(&requests, second), Some((3, false)), "the next attempt");
    requests.end(second, true);
    assert!(!requests.is_empty());
    let third = begin(&mut requests, &one);
    assert!(requests.attempt(second, false).is_none(), "its place has another request");
    assert!(requests.attempt(third, false).is_some());
}

#[test]
fn a_mirrored_copy_does_not_count_as_an_attempt() {
    let mut requests = Requests::new(0x0123_4567_89ab_cdef);
    let key = begin(&mut requests, &Rc::new(()));
    assert_eq!(requests.attempt(key, true).map(|next| next.number), Some(0));
    requests.ended(key, End::Rejected, NOW, |retries| retries.rejected(true));
    assert!(requests.attempt(key, true).is_none(), "the copy has the addresses still");
    assert_eq!(requests.course(key), Some(Course { attempts: 1, last: End::Rejected, marked: false, answered: NOW }));
    assert_eq!(requests.attempt(key, false).map(|next| next.number), Some(1));
}

#[test]
fn allows_retries_of_each_kind_up_to_their_limits() {
    let mut requests = Requests::new(0x0123_4567_89ab_cdef);
    let key = begin(&mut requests, &Rc::new(()));
    let next = |requests: &mut Requests<(), u32>| {
        requests.attempt(key, false).map(|next| (next.after, next.may, next.turn.is_some()))
    };
    assert_eq!(next(&mut requests), Some((None, true, true)));
    assert_eq!(next(&mut requests), Some((Some(End::NoAnswer), true, true)), "the first of its own");
    assert_eq!(requests.ended(key, End::Rejected, NOW, Retries::bounced), Then::Envoy);
    assert_eq!(next(&mut requests), Some((Some(End::Rejected), true, false)), "no other bid");
    assert_eq!(requests.ended(key, End::Answered, NOW, |retries| retries.has_route_retry()), Then::Envoy);
    assert_eq!(next(&mut requests), Some((Some(End::Answered), true, false)), "the second of its own");
    assert_eq!(requests.ended(key, End::Rejected, NOW, |retries| retries.rejected(true)), Then::Envoy);
    assert_eq!(next(&mut requests), Some((Some(End::Rejected), true, false)));
    assert_eq!(requests.ended(key, End::Answered, NOW, |retries| retries.has_route_retry()), OVER);
    assert_eq!(next(&mut requests), Some((Some(End::Answered), false, false)), "one too many");
}

#[test]
fn a_surplus_attempt_waits_for_the_attempts_under_way() {
    let mut requests = Requests::new(0x0123_4567_89ab_cdef);
    let key = begin(&mut requests, &Rc::new(()));
    let next = |requests: &mut Requests<(), u32>| {
        let next = requests.attempt(key, false).unwrap();
        (next.may, next.hedges)
    };
    for hedges in [false, true, true] {
        assert_eq!(next(&mut requests), (true, hedges));
        requests.went(key);
    }
    assert_eq!(next(&mut requests), (false, true), "one too many");
    requests.wait(key, 4);
    assert!(!requests.lost(key, false).due, "two are under way");
    assert!(!requests.came(key), "one is");
    assert_eq!(requests.ended(key, End::Answered, NOW, |retries| retries.has_route_retry()), Then::Envoy, "one is");
    assert!(requests.lost(key, true).due);
    assert_eq!((requests.due(), requests.due()), (vec![(4, true)], vec![]));
    assert!(requests.attempt(key, false).unwrap().timed_out);
}

#[test]
fn an_attempt_counts_as_given_up_when_its_answer_is_not_needed() {
    let mut requests = Requests::new(0x0123_4567_89ab_cdef);
    let mut lost = |responded: Option<bool>, answered: Option<bool>| {
        let key = begin(&mut requests, &Rc::new(()));
        for _ in 0..2 {
            requests.attempt(key, false);
            requests.went(key);
        }
        if let Some(good) = answered {
            requests.came(key);
            requests.ended(key, End::Answered, NOW, |retries| retries.has_route_retry());
            if good {
                requests.satisfied(key);
            }
        }
        if let Some(responded) = responded {
            requests.end(key, responded);
        }
        let given_up = requests.lost(key, false).given_up;
        if answered.is_none() {
            assert_eq!(requests.lost(key, false).given_up, given_up, "the other one");
        }
        requests.end(key, true);
        assert_eq!(requests.given_up, [], "nothing stays");
        given_up
    };
    assert!(!lost(None, None), "reset, or too slow for one try");
    assert!(!lost(Some(true), None), "too slow for the request: Envoy has answered 504");
    assert!(lost(Some(false), None), "the caller has gone");
    assert!(lost(None, Some(true)), "another one was faster");
    assert!(lost(Some(true), Some(true)), "the same, and all is over");
    assert!(!lost(None, Some(false)), "the other one has failed, too");
}

#[test]
fn a_waiting_attempt_that_has_left_is_not_answered() {
    let mut requests = Requests::new(0x0123_4567_89ab_cdef);
    let key = begin(&mut requests, &Rc::new(()));
    requests.went(key);
    requests.wait(key, 1);
    requests.leave(key, &2);
    requests.leave(key, &1);
    assert!(!requests.lost(key, false).due);
    requests.went(key);
    requests.wait(key, 5);
    assert!(requests.lost(key, false).due);
    requests.leave(key, &5);
    assert_eq!(requests.due(), []);
    // Envoy has dropped a bad answer, and one of the waiting attempts.
    requests.went(key);
    requests.wait(key, 6);
    requests.wait(key, 7);
    requests.leave(key, &7);
    assert!(requests.came(key));
    assert_eq!(requests.due(), [(6, false)]);
}

#[test]
fn a_rejection_counts_as_an_answer_once_our_retries_are_used_up() {
    let mut requests = Requests::new(0x0123_4567_89ab_cdef);
    let key = begin(&mut requests, &Rc::new(()));
    let rejected = |requests: &mut Requests<(), u32>| {
        requests.attempt(key, false);
        requests.ended(key, End::Rejected, NOW, |retries| retries.rejected(false))
    };
    assert_eq!([rejected(&mut requests), rejected(&mut requests)], [Then::Envoy, OVER]);
    assert_eq!(requests.ended_after_all(key, |retries| retries.has_route_retry()), Then::Envoy);
    assert!(requests.attempt(key, false).unwrap().may, "one of its own");
    assert_eq!(requests.course(key).map(|course| course.last == End::Rejected), Some(false));
}

#[test]
fn a_forged_key_finds_no_request() {
    let mut requests = Requests::new(0x0123_4567_89ab_cdef);
    let key = begin(&mut requests, &Rc::new(()));
    for forged in (0..1000).chain([u64::MAX]).map(RequestKey::new).filter(|forged| *forged != key) {
        assert!(requests.attempt(forged, false).is_none(), "{forged:?}");
    }
}
