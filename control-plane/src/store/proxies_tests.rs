//! The proxies that a replica knows.

use super::*;
use crate::store::budget::Limits;
use bloc_policy::sync::SyncRequest;

fn poll(proxy: &str) -> Poll {
    Poll::try_from(SyncRequest { proxy: proxy.into(), ..SyncRequest::default() }).unwrap()
}

const EACH: usize = 10;

fn small() -> Proxies {
    Proxies { budget: Budget::of(Limits { of_one: 60, in_all: 100 }), ..Proxies::default() }
}

/// A poll that serves `service`, charged to `payer`.
fn paid(proxy: &str, payer: &str, service: &str) -> Poll {
    let serves = vec![service.to_owned()];
    let request = SyncRequest { proxy: proxy.into(), serves, ..SyncRequest::default() };
    Poll::try_from(request).unwrap().paid_by(payer.into())
}

fn comes(proxies: &mut Proxies, poll: &Poll, now: Instant) -> bool {
    proxies.make_room(poll, EACH, now) && proxies.note(poll, EACH, now).subscription.serves.len() == 1
}

fn ids(proxies: &Proxies) -> Vec<&str> {
    proxies.iter().map(|(id, _)| id.as_str()).collect()
}

#[test]
fn an_identity_that_invents_proxies_keeps_no_other_out() {
    let (mut proxies, start) = (small(), Instant::now());
    for (payer, count) in [("a", 6), ("b", 4)] {
        for i in 0..count {
            assert!(comes(&mut proxies, &paid(&format!("{payer}{i}"), payer, "s"), start));
        }
    }
    assert!(!comes(&mut proxies, &paid("a6", "a", "s"), start), "its own limit");
    proxies.get_mut("a5").unwrap().held = Some(7);
    assert!(comes(&mut proxies, &paid("new", "c", "s"), start));
    assert_eq!(ids(&proxies), ["a0", "a1", "a2", "a3", "a4", "b0", "b1", "b2", "b3", "new"]);
    let gone = proxies.gone();
    assert_eq!((gone.last().unwrap().proxy.as_str(), gone.last().unwrap().held), ("a5", Some(7)));
    assert!(comes(&mut proxies, &paid("b0", "b", "s"), start), "a known proxy takes no more than before");
}

#[test]
fn evicts_silent_proxies_first() {
    let (mut proxies, start) = (small(), Instant::now());
    for i in 0..10 {
        let payer = if i < 6 { "a" } else { "b" };
        assert!(comes(&mut proxies, &paid(&i.to_string(), payer, "s"), start));
    }
    let later = start + Duration::from_secs(61);
    for i in 1..10 {
        proxies.get_mut(&i.to_string()).unwrap().held = Some(i);
    }
    assert!(comes(&mut proxies, &paid("new", "c", "s"), later));
    assert_eq!(ids(&proxies), ["1", "2", "3", "4", "5", "6", "7", "8", "9", "new"]);
    assert!(comes(&mut proxies, &paid("newer", "c", "s"), later), "then the youngest of the largest identity");
    assert_eq!(ids(&proxies), ["1", "2", "3", "4", "6", "7", "8", "9", "new", "newer"]);
}

#[test]
fn an_identity_at_its_limit_evicts_only_its_own_silent_proxies() {
    let (mut proxies, start) = (small(), Instant::now());
    for i in 0..9 {
        let payer = if i < 6 { "a" } else { "b" };
        assert!(comes(&mut proxies, &paid(&i.to_string(), payer, "s"), start));
    }
    proxies.get_mut("0").unwrap().held = Some(1);
    let later = start + Duration::from_secs(61);
    assert!(comes(&mut proxies, &paid("new", "a", "s"), later));
    assert_eq!(ids(&proxies), ["0", "6", "7", "8", "new"]);
}

#[test]
fn charges_in_full_for_a_silent_proxy_that_returns() {
    let (mut proxies, start) = (small(), Instant::now());
    for i in 0..10 {
        let payer = ["c", "a", "a", "a", "a", "b", "b", "b", "b", "b"][i];
        assert!(comes(&mut proxies, &paid(&i.to_string(), payer, "s"), start));
    }
    let later = start + Duration::from_secs(61);
    for i in 2..10 {
        proxies.get_mut(&i.to_string()).unwrap().held = Some(i);
    }
    let poll = paid("0", "c", "s");
    assert!(proxies.make_room(&poll, 25, later));
    proxies.note(&poll, 25, later);
    assert_eq!((proxies.taken(), ids(&proxies).contains(&"9")), (95, false), "80 and 25 would be too much");
}

#[test]
fn frees_all_that_was_kept_for_proxies_that_are_gone() {
    let (mut proxies, start) = (small(), Instant::now());
    for (i, payer) in ["a", "b", "a", "c"].into_iter().enumerate() {
        assert!(comes(&mut proxies, &paid(&i.to_string(), payer, &format!("s{i}")), start));
    }
    assert!(comes(&mut proxies, &paid("0", "a", "other"), start));
    let gone = proxies.gone();
    assert_eq!((&*gone.last().unwrap().left[0].text, proxies.name_id("s0")), ("s0", None), "it serves another");
    assert!(comes(&mut proxies, &paid("1", "d", "s1"), start), "charged to another identity");
    assert_eq!(proxies.taken(), 4 * EACH);
    proxies.sweep(start + KEEP);
    assert!(proxies.budget.is_empty(), "{:?}", proxies.budget);
    assert_eq!(proxies.name_id("other"), None);
    assert_eq!(proxies.gone().len(), 4);
    assert!(ids(&proxies).is_empty());
}

#[test]
fn a_proxy_id_belongs_to_the_identity_that_used_it_first() {
    let (mut proxies, start) = (Proxies::default(), Instant::now());
    let from = |identity: &str| poll("p").from(Some(identity.to_owned()));
    assert!(!proxies.is_of_another(&from("one")));
    proxies.note(&from("one"), EACH, start);
    assert!(proxies.is_of_another(&from("other")) && proxies.is_of_another(&poll("p")));
    assert!(!proxies.is_of_another(&from("one")));
    proxies.sweep(start + KEEP);
    assert!(!proxies.is_of_another(&from("other")), "for as long as it is remembered");
}
