//! What is believed of the CPU, and how threads share it.

use super::*;
use std::cell::RefCell;
use std::collections::HashMap;

/// Shared data. Another thread writes first, once.
#[derive(Default)]
struct Data(RefCell<HashMap<String, (Vec<u8>, u32)>>, RefCell<Option<ServerCpu>>);

impl Shared for Data {
    fn get(&self, key: &str) -> (Option<Vec<u8>>, Cas) {
        let found = self.0.borrow().get(key).cloned();
        let found = found.map_or((None, Cas::ABSENT), |(value, cas)| (Some(value), Cas::new(cas)));
        if let Some(cpu) = self.1.take() {
            self.overwrite(key, &Said { at: AT, cpu }.bytes());
        }
        found
    }

    fn set(&self, key: &str, value: &[u8], cas: Cas) -> bool {
        let there = self.0.borrow().get(key).map(|(_, there)| *there);
        let is_current = there.is_none_or(|there| there == cas.get());
        if is_current {
            self.overwrite(key, value);
        }
        is_current
    }

    fn overwrite(&self, key: &str, value: &[u8]) {
        let mut values = self.0.borrow_mut();
        let next = values.get(key).map_or(1, |(_, there)| there + 1);
        values.insert(key.to_owned(), (value.to_vec(), next));
    }
}

const AT: Timestamp = Timestamp::from_nanos(1_000_000_000_000);
const NOTHING: ServerCpu = ServerCpu { cores: None, used: None, per_request_us: None };

fn cpu(cores: f64) -> ServerCpu {
    ServerCpu { cores: Some(cores), ..NOTHING }
}

fn read(json: &str) -> ServerCpu {
    ServerCpu::read(json.as_bytes())
}

fn supply(cluster: &str) -> Supply {
    let mut supply = Supply::default();
    supply.follow(cluster);
    supply
}

#[test]
fn only_what_is_possible_is_believed() {
    let all = ServerCpu { cores: Some(0.5), used: Some(0.25), per_request_us: Some(1500.0) };
    assert_eq!(read(r#"{"cores":0.5,"used":0.25,"perRequestUs":1500,"later":[]}"#), all);
    assert_eq!(serde_json::to_string(&all).unwrap(), r#"{"cores":0.5,"used":0.25,"perRequestUs":1500.0}"#);
    assert_eq!(serde_json::to_string(&NOTHING).unwrap(), "{}");
    let most = ServerCpu { cores: Some(1e5), used: Some(1e5), per_request_us: Some(3.6e9) };
    assert_eq!(read(r#"{"cores":100000,"used":100000,"perRequestUs":3600000000}"#), most);
    assert_eq!(read(r#"{"cores":100000.1,"used":100000.1,"perRequestUs":3600000001}"#), NOTHING);
    assert_eq!(read(r#"{"cores":0,"used":0,"perRequestUs":0}"#), ServerCpu { used: Some(0.0), ..NOTHING });
    assert_eq!(read(r#"{"cores":-1,"used":-1,"perRequestUs":-1}"#), NOTHING);
    assert_eq!(read(r#"{"cores":null,"used":0.25}"#), ServerCpu { used: Some(0.25), ..NOTHING });
    assert_eq!(read(r#"{"cores":1,"used":{},"perRequestUs":"1"}"#), cpu(1.0));
    for nonsense in ["{}", "7", "[]", r#""a""#, r#"{"cores":"1"}"#, r#"{"cores":1e999}"#, "[1,1,1]"] {
        assert_eq!(read(nonsense), NOTHING, "{nonsense}");
    }
}

#[test]
fn the_headroom_is_the_share_of_the_cores_that_is_not_used() {
    let headroom = |cores, used| ServerCpu { cores, used, ..NOTHING }.headroom().map(Ratio::get);
    for (used, share) in [(0.0, 1.0), (0.5, 0.75), (1.5, 0.25), (2.0, 0.0), (9.0, 0.0)] {
        assert_eq!(headroom(Some(2.0), Some(used)), Some(share), "{used}");
    }
    assert_eq!([headroom(None, Some(1.0)), headroom(Some(1.0), None)], [None; 2]);
}

#[test]
fn the_cpu_is_enough_for_the_cores_divided_by_the_time_of_a_request() {
    let rate = |cores, per_request_us| ServerCpu { cores, per_request_us, ..NOTHING }.service_rate();
    assert_eq!([rate(Some(0.5), Some(2_000.0)), rate(Some(2.0), Some(500_000.0))], [250.0, 4.0].map(Some));
    assert_eq!([rate(None, Some(1.0)), rate(Some(1.0), None)], [None; 2]);
}

#[test]
fn what_one_thread_hears_is_in_force_in_all() {
    let (data, [mut one, mut two]) = (Data::default(), ["a"; 2].map(supply));
    assert!(!one.look(&data, AT) && one.get() == NOTHING);
    for said in [
        cpu(1.0),
        ServerCpu { cores: Some(1.0), used: Some(0.5), per_request_us: Some(1e3) },
        ServerCpu { used: Some(0.0), ..NOTHING },
        NOTHING,
    ] {
        assert!(one.observe(&data, one.last(), said, AT), "{said:?}");
        assert!(one.look(&data, AT) && two.look(&data, AT));
        assert_eq!([one.get(), one.last(), two.get(), two.last()], [said; 4]);
        assert!(!one.look(&data, AT) && !two.look(&data, AT), "no news");
        assert!(!one.observe(&data, one.last(), said, AT), "nobody is told what is known");
    }
}

#[test]
fn an_answer_does_not_count_if_another_thread_has_heard_something_since_the_question() {
    let (data, [mut one, mut two]) = (Data::default(), ["a"; 2].map(supply));
    let asked = one.last();
    assert!(two.observe(&data, two.last(), cpu(2.0), AT));
    assert!(!one.observe(&data, asked, cpu(1.0), AT));
    assert!(one.look(&data, AT) && one.get() == cpu(2.0));
    data.1.replace(Some(cpu(3.0)));
    assert!(!one.observe(&data, one.last(), cpu(4.0), AT), "written in between");
    assert!(one.look(&data, AT) && two.look(&data, AT));
    assert_eq!([one.get(), two.get()], [cpu(3.0); 2]);
}

#[test]
fn each_thread_forgets_what_was_not_said_again_for_90_s() {
    let (data, [mut one, mut two]) = (Data::default(), ["a"; 2].map(supply));
    let after = |seconds| AT.after(Duration::from_secs(seconds));
    let soon = after(91).after(KEPT - Duration::from_nanos(1));
    assert!(one.observe(&data, NOTHING, cpu(1.0), AT) && one.look(&data, after(89)) && two.look(&data, after(89)));
    assert!(!one.observe(&data, one.last(), cpu(1.0), after(89)), "the same, said again");
    assert!(!one.look(&data, after(91)) && one.get() == cpu(1.0));
    assert!(!one.observe(&data, one.last(), cpu(1.0), after(91)));
    assert!(!one.look(&data, soon) && !two.look(&data, soon));
    assert!(one.look(&data, after(181)) && two.look(&data, after(181)));
    assert_eq!([one.get(), two.get()], [NOTHING; 2]);
    assert!(!one.look(&data, after(182)), "once");

    assert!(!one.observe(&data, NOTHING, cpu(2.0), after(182)), "not what was shared when it was asked");
    assert!(!one.observe(&data, one.last(), NOTHING, after(182)), "nobody is told that nothing is known still");
    assert!(!one.look(&data, after(182)) && one.last() == NOTHING);
    assert!(one.observe(&data, one.last(), cpu(1.0), after(182)) && one.look(&data, after(182)));
    assert!(one.look(&data, after(272)) && one.get() == NOTHING);
    assert!(one.observe(&data, one.last(), cpu(1.0), after(273)), "news, although it is the last that was shared");
    assert!(one.look(&data, after(273)) && one.get() == cpu(1.0));
}

#[test]
fn the_time_of_a_request_stays_as_long_as_the_cores_are_known() {
    let (data, mut one) = (Data::default(), supply("a"));
    let mut known = |said: ServerCpu, seconds| {
        let now = AT.after(Duration::from_secs(seconds));
        one.look(&data, now);
        one.observe(&data, one.last(), said, now);
        one.look(&data, now);
        (one.get().cores, one.get().used, one.get().per_request_us)
    };
    let timed = |cores, micros| ServerCpu { per_request_us: Some(micros), used: Some(0.5), ..cpu(cores) };
    assert_eq!(known(timed(1.0, 1e3), 0), (Some(1.0), Some(0.5), Some(1e3)));
    assert_eq!(known(cpu(2.0), 0), (Some(2.0), None, Some(1e3)), "what is used changes all the time");
    assert_eq!(known(timed(2.0, 2e3), 0), (Some(2.0), Some(0.5), Some(2e3)));
    assert_eq!(known(ServerCpu { used: Some(0.25), ..NOTHING }, 0), (None, Some(0.25), None));
    assert_eq!(known(cpu(1.0), 0), (Some(1.0), None, None));
    known(timed(1.0, 1e3), 0);
    assert_eq!(known(NOTHING, 0), (None, None, None), "at once");
    known(timed(1.0, 1e3), 0);
    assert_eq!(known(cpu(1.0), 90), (Some(1.0), None, None), "too old");
}

#[test]
fn each_control_plane_says_what_it_knows() {
    let (data, mut one) = (Data::default(), supply("a"));
    assert!(one.observe(&data, NOTHING, cpu(1.0), AT) && one.look(&data, AT));
    one.follow("b");
    assert_eq!([one.get(), one.last()], [NOTHING; 2]);
    assert!(!one.look(&data, AT));
    assert!(one.observe(&data, NOTHING, cpu(2.0), AT) && one.look(&data, AT));
    one.forget();
    assert_eq!(one.get(), NOTHING);
    assert!(one.look(&data, AT) && one.get() == cpu(2.0), "as after a restart");
    let keys: std::collections::BTreeSet<String> = data.0.borrow().keys().cloned().collect();
    assert_eq!(keys.into_iter().collect::<Vec<_>>(), ["bloc/cpu/a", "bloc/cpu/b"]);
}

#[test]
fn a_value_of_another_kind_means_that_nothing_is_known() {
    for bytes in [&b""[..], b"x", &[0xff; 31], &[0xff; 32]] {
        assert_eq!(Said::of_bytes(bytes).cpu, NOTHING);
    }
    let said = Said { at: AT, cpu: ServerCpu { used: Some(0.5), per_request_us: Some(7.0), ..cpu(1.0) } };
    assert_eq!((said.bytes().len(), Said::of_bytes(&said.bytes())), (32, said));
}
