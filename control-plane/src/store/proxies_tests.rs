//! The proxies that a replica knows.

use super::*;
use bloc_policy::sync::SyncRequest;
use std::collections::BTreeMap;

fn poll(proxy: &str) -> Poll {
    Poll::try_from(SyncRequest { proxy: proxy.into(), ..SyncRequest::default() }).unwrap()
}

const EACH: usize = 10;

fn small() -> Proxies {
    Proxies { memory: Shares::capped(60, 100), ..Proxies::default() }
}

/// Ten bytes for each letter, which is an identity. A proxy's name is its identity and position.
fn taken_by(payers: &str, now: Instant) -> Proxies {
    let mut proxies = small();
    for (i, payer) in payers.chars().enumerate() {
        assert!(comes(&mut proxies, &paid(&format!("{payer}{i}"), &payer.to_string(), "s"), now));
    }
    proxies
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
fn evicts_the_youngest_record_of_the_identity_that_takes_most() {
    let now = Instant::now();
    let gone = |proxy: &str, payer: &str, bytes| {
        let mut proxies = taken_by("aabbbbbcca", now);
        let room = proxies.make_room(&paid(proxy, payer, "s"), bytes, now);
        (room, proxies.gone().into_iter().map(|gone| gone.proxy).collect::<Vec<_>>())
    };
    assert_eq!(gone("c10", "c", 10), (true, vec!["b6".into()]));
    assert_eq!(gone("new", "new", 10), (true, vec!["b6".into()]));
    assert_eq!(gone("b10", "b", 10), (false, vec![]), "it is the largest itself");
    assert_eq!(gone("b4", "b", 20), (true, vec!["b6".into()]), "an older record grows at the cost of a younger one");
    assert_eq!(gone("a10", "a", 20), (false, vec![]), "with that it would take as much as the largest");
    assert!(taken_by("aabbbbbcc", now).make_room(&paid("b9", "b", "s"), 10, now));
}

#[test]
fn no_identity_takes_more_than_its_own_limit() {
    let now = Instant::now();
    let gone = |proxy: &str, payer: &str, bytes| {
        let mut proxies = taken_by("aaaaaa", now);
        let room = proxies.make_room(&paid(proxy, payer, "s"), bytes, now);
        (room, proxies.gone().into_iter().map(|gone| gone.proxy).collect::<Vec<_>>())
    };
    assert_eq!(gone("a6", "a", 10), (false, vec![]), "although 40 are free");
    assert_eq!(gone("a2", "a", 20), (true, vec!["a5".into()]));
    assert_eq!(gone("a2", "a", 10), (true, vec![]), "no more than before");
    assert_eq!((gone("b6", "b", 40), gone("b6", "b", 61)), ((true, vec![]), (false, vec![])));
}

#[test]
fn an_identity_below_its_fair_share_always_gets_room() {
    const WHOLE: usize = 1_000;
    let (mut rng, start) = (fastrand::Rng::with_seed(7), Instant::now());
    for _ in 0..500 {
        let mut proxies = Proxies { memory: Shares::capped(WHOLE, WHOLE), ..Proxies::default() };
        let mut sizes = BTreeMap::new();
        for serial in 0..200 {
            let (payer, bytes) = (rng.u8(0..12).to_string(), rng.usize(1..120));
            let poll = paid(&serial.to_string(), &payer, "s");
            let taken =
                |of: &str| sizes.values().filter(|(payer, _)| payer == of).map(|(_, bytes)| bytes).sum::<usize>();
            let own = taken(&payer) + bytes;
            let others = (0..12).filter(|other| other.to_string() != payer && taken(&other.to_string()) > 0).count();
            if proxies.make_room(&poll, bytes, start) {
                proxies.note(&poll, bytes, start);
                sizes.insert(poll.proxy.clone(), (payer, bytes));
            } else {
                assert!(own * (others + 1) > WHOLE, "{own} with {others} others");
            }
            proxies.gone().iter().for_each(|gone| drop(sizes.remove(&gone.proxy)));
            assert!(proxies.taken() <= WHOLE);
            assert_eq!(proxies.taken(), sizes.values().map(|(_, bytes)| bytes).sum::<usize>());
        }
        proxies.sweep(KEEP, start + KEEP);
        assert!(proxies.taken() == 0 && proxies.ages.is_empty());
    }
}

#[test]
fn forgets_silent_proxies_before_it_evicts_any() {
    let (mut proxies, start) = (small(), Instant::now());
    for i in 0..10 {
        let payer = if i < 6 { "a" } else { "b" };
        assert!(comes(&mut proxies, &paid(&i.to_string(), payer, "s"), start));
    }
    for i in 1..10 {
        proxies.get_mut(&i.to_string()).unwrap().held = Some(i);
    }
    let later = start + KEEP_IF_FULL;
    assert!(comes(&mut proxies, &paid("0", "a", "s"), later), "it needs no room, so none is made");
    assert_eq!(proxies.iter().count(), 10);
    let later = later + KEEP_IF_FULL;
    assert!(comes(&mut proxies, &paid("new", "c", "s"), later));
    assert_eq!(ids(&proxies), ["1", "2", "3", "4", "5", "6", "7", "8", "9", "new"]);
    assert!(comes(&mut proxies, &paid("newer", "c", "s"), later), "then the youngest of the largest identity");
    assert_eq!(ids(&proxies), ["1", "2", "3", "4", "6", "7", "8", "9", "new", "newer"]);
}

#[test]
fn charges_in_full_for_a_silent_proxy_that_returns() {
    let (mut proxies, start) = (small(), Instant::now());
    for i in 0..10 {
        let payer = ["c", "a", "a", "a", "a", "b", "b", "b", "b", "b"][i];
        assert!(comes(&mut proxies, &paid(&i.to_string(), payer, "s"), start));
    }
    let later = start + KEEP_IF_FULL;
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
    proxies.sweep(KEEP, start + KEEP);
    assert!(proxies.taken() == 0 && proxies.ages.is_empty(), "{:?}", proxies.ages);
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
    proxies.sweep(KEEP, start + KEEP);
    assert!(!proxies.is_of_another(&from("other")), "for as long as it is remembered");
}
