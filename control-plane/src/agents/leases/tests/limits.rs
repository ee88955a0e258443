//! One application or one node cannot harm others.

use super::*;
use tokio::time::timeout;

/// How long an agent waits.
const AGENT: Duration = Duration::from_millis(800);

/// A store with records of `apps` applications, in which each of `nodes` holds nothing yet.
fn store(shared: &Arc<Mutex<Shared>>, apps: usize, nodes: &[&str]) -> Arc<Store> {
    let entries: Vec<String> =
        nodes.iter().map(|node| format!(r#""{node}":{{"life":1,"number":1,"part":0}}"#)).collect();
    let record: Record = serde_json::from_str(&format!(r#"{{"nodes":{{{}}}}}"#, entries.join(","))).unwrap();
    let record = Arc::new(record);
    let records = (0..apps).map(|nth| (format!("a/a{nth}").into(), (0, Arc::clone(&record))));
    shared.lock().unwrap().records.extend(records);
    let store = Store::new(shared);
    store.look();
    store
}

/// Asks for a range of applications. Returns how many are answered.
async fn asked(leases: &Leases, node: &str, range: std::ops::Range<usize>, number: u64, wants: u32) -> usize {
    let apps = range.map(|nth| ask(&format!("a/a{nth}"), number, Part::ZERO, wants)).collect();
    leases.ask(Asks { node: node.into(), life: 1, apps }).await.unwrap().apps.len()
}

const NO_ROOM: &str = r#"bloc_lease_asks_total{result="no_room"}"#;

#[tokio::test(start_paused = true)]
async fn remembers_a_thousand_applications_for_a_minute() {
    let shared = Arc::<Mutex<Shared>>::default();
    let nodes = ["n0", "n1", "n2", "n3", "n4", "n5"];
    let (leases, metrics) = leases(store(&shared, 1_001, &[]));
    shared.lock().unwrap().failure = Some("away".into());
    for (nth, node) in nodes[..5].iter().enumerate() {
        asked(&leases, node, 200 * nth..200 * (nth + 1), 1, 1).await;
    }
    asked(&leases, "n5", 1_000..1_001, 1, 1).await;
    assert_eq!(count(&metrics, NO_ROOM), 1);
    // All writes have failed after 50 s. Nobody asks for another minute.
    sleep(Duration::from_secs(120)).await;
    shared.lock().unwrap().failure = None;
    assert_eq!(asked(&leases, "n5", 1_000..1_001, 1, 1).await, 1);
}

#[tokio::test(start_paused = true)]
async fn an_ask_of_nothing_takes_no_room() {
    let shared = Arc::<Mutex<Shared>>::default();
    let (leases, metrics) = leases(Store::new(&shared));
    assert_eq!(asked(&leases, "bad", 0..3_000, 1, 0).await, 3_000);
    assert_eq!(asked(&leases, "n1", 3_000..3_001, 1, 1).await, 1);
    assert_eq!((count(&metrics, NO_ROOM), shared.lock().unwrap().writes), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn one_node_leaves_room_for_the_applications_of_others() {
    let shared = Arc::<Mutex<Shared>>::default();
    let (leases, _) = leases(Store::new(&shared));
    for second in 0..120 {
        if second == 2 {
            // The ask waits for its turn, so it is not answered yet.
            asked(&leases, "good", 5_000..5_001, 1, 1).await;
        }
        for begin in (0..2_000).step_by(100) {
            let leases = leases.clone();
            tokio::spawn(async move { asked(&leases, "bad", begin..begin + 100, 1, 1).await });
        }
        sleep(Duration::from_secs(1)).await;
    }
    assert_eq!(shared.lock().unwrap().records.len(), 201);
    assert_eq!(asked(&leases, "bad", 0..200, 1, 1).await, 200, "it keeps what it has");
    assert_eq!(asked(&leases, "good", 5_000..5_001, 1, 1).await, 1);
    assert_eq!(asked(&leases, "good", 1_000..1_001, 1, 1).await, 1);
}

#[tokio::test(start_paused = true)]
async fn a_node_has_an_entry_in_200_records() {
    let shared = Arc::<Mutex<Shared>>::default();
    let (leases, metrics) = leases(store(&shared, 199, &["n1"]));
    assert_eq!(asked(&leases, "n1", 199..200, 1, 1).await, 1);
    assert_eq!(asked(&leases, "n1", 200..201, 1, 1).await, 0);
    assert_eq!((count(&metrics, NO_ROOM), shared.lock().unwrap().writes), (1, 1));
    assert_eq!(asked(&leases, "n2", 200..201, 1, 1).await, 1);
    assert_eq!(asked(&leases, "n1", 200..201, 1, 1).await, 0, "also if others have one");
}

#[tokio::test(start_paused = true)]
async fn there_are_ten_thousand_records_at_most_and_what_is_held_is_seen_first() {
    let shared = Arc::<Mutex<Shared>>::default();
    let (some, _) = leases(store(&shared, 1_000, &[]));
    assert_eq!(asked(&some, "n2", 1_000..1_001, 1, 1).await, 1);
    assert_eq!((some.view().apps.len(), some.view().apps.contains_key("a/a1000")), (1_000, true));
    let shared = Arc::<Mutex<Shared>>::default();
    let (leases, _) = leases(store(&shared, 10_000, &[]));
    assert_eq!(asked(&leases, "n2", 10_000..10_001, 1, 1).await, 0, "nothing deletes them");
    assert_eq!(asked(&leases, "n2", 9_999..10_000, 1, 1).await, 1);
}

/// A compromised node begins and leaves 100 applications as often as it can.
#[tokio::test(start_paused = true)]
async fn all_writes_together_are_limited() {
    let shared = Arc::<Mutex<Shared>>::default();
    let (leases, _) = leases(Store::new(&shared));
    for number in 1..600 {
        let leases = leases.clone();
        let wants = u32::from(number % 2 == 1);
        tokio::spawn(async move { asked(&leases, "bad", 0..100, number, wants).await });
        sleep(Duration::from_millis(100)).await;
    }
    let writes = shared.lock().unwrap().writes;
    assert!((1_000..=60 * 20 + 40).contains(&writes), "{writes} writes in a minute");
}

#[tokio::test(start_paused = true)]
async fn a_large_record_is_written_once_a_second_at_most() {
    let shared = Arc::<Mutex<Shared>>::default();
    let names: Vec<String> = (0..1_500).map(|nth| format!("n{nth}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let (leases, _) = leases(store(&shared, 1, &names));
    let mut answered = 0;
    for number in 2..202 {
        let leases = leases.clone();
        answered += asked(&leases, "n7", 0..1, number, 1).await;
        sleep(Duration::from_millis(50)).await;
    }
    let (writes, seconds) = (shared.lock().unwrap().writes, leases.now().as_secs() as usize);
    assert!(seconds >= 10 && writes <= seconds + 1, "{writes} writes in {seconds} s");
    assert!(writes + 2 >= seconds && answered >= 5, "{writes} writes in {seconds} s, {answered} answers");
}

#[tokio::test(start_paused = true)]
async fn an_application_whose_write_hangs_does_not_keep_others_waiting() {
    let shared = Arc::<Mutex<Shared>>::default();
    shared.lock().unwrap().hangs = Some("a/a0");
    let (leases, metrics) = leases(Store::new(&shared));
    let answered = timeout(AGENT, asked(&leases, "n1", 0..2, 1, 1)).await;
    assert_eq!((answered, count(&metrics, r#"bloc_lease_asks_total{result="failed"}"#)), (Ok(1), 1));
    let record = Arc::clone(&shared.lock().unwrap().records["a/a1"].1);
    assert!(record.entry("n1").is_some());
}

#[tokio::test(start_paused = true)]
async fn after_a_write_that_panics_another_one_may_begin() {
    let shared = Arc::<Mutex<Shared>>::default();
    let (leases, _) = leases(Store::new(&shared));
    shared.lock().unwrap().panics = true;
    assert_eq!(told(&leases, "n1", Part::ZERO, 1).await, None);
    assert!(!shared.lock().unwrap().panics);
    assert!(told(&leases, "n1", Part::ZERO, 1).await.is_some());
}

#[test]
fn the_pause_grows_with_the_record() {
    let gather = |bytes| replica::gather(bytes).as_millis();
    assert_eq!([0, 10_000, 25_000, 90_000, 100_000, 260_000].map(gather), [100, 100, 250, 900, 1_000, 1_000]);
}
