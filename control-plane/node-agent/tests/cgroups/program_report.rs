//! The program tells the control plane.

use crate::program::{BUSY, CONFIG, Stand};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

const QOS: &str = "
mode: enforce
apps:
  shop/checkout:
    pods: {matchLabels: {app: checkout}}
    qos: {target: 200ms}
";
/// Each requests half a core, of which the other pod may have most: the node has more cores.
const PODS: &str = "
- namespace: shop
  name: checkout-0
  uid: u0
  labels: {app: checkout}
  containers: [{name: app, id: c0, requests: 500m}]
- namespace: shop
  name: checkout-1
  uid: u1
  labels: {app: checkout}
  containers: [{name: app, id: c1, requests: 500m}]
";

/// A control plane that keeps the messages, and refuses the first one.
struct Replica {
    address: SocketAddr,
    messages: Arc<Mutex<Vec<serde_json::Value>>>,
}

impl Replica {
    /// Has the answer to each question from `says`, which gets their number so far.
    fn new(says: impl Fn(usize) -> Option<String> + Send + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let messages = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&messages);
        // It ends with the test.
        std::thread::spawn(move || {
            let mut asked = 0;
            for (index, mut stream) in listener.incoming().map_while(Result::ok).enumerate() {
                let Some(message) = read(&mut stream) else { continue };
                let mut said = None;
                if message["asks"].is_array() {
                    (said, asked) = (says(asked), asked + 1);
                }
                let status = match said {
                    _ if index == 0 => "503 Service Unavailable",
                    Some(_) => "200 OK",
                    None => "204 No Content",
                };
                let body = said.unwrap_or_default();
                let head = format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
                // Who gets too much closes.
                let _ = write!(stream, "{head}{body}");
                if index > 0 {
                    kept.lock().unwrap().push(message);
                }
            }
        });
        Self { address, messages }
    }

    /// The questions so far.
    fn asked(&self) -> Vec<serde_json::Value> {
        let messages = self.messages.lock().unwrap();
        messages.iter().map(|message| message["asks"].clone()).filter(serde_json::Value::is_array).collect()
    }

    /// The last value of `cores` of a pod.
    fn cores(&self, pod: &str) -> Option<f64> {
        let messages = self.messages.lock().unwrap();
        let mut pods = messages.iter().filter_map(|message| message["pods"].as_array()).flatten();
        pods.rfind(|entry| entry["namespace"] == "shop" && entry["name"] == pod)?["cores"].as_f64()
    }
}

/// Reads a request; there is one for each connection.
fn read(stream: &mut TcpStream) -> Option<serde_json::Value> {
    let (mut text, mut part) = (Vec::new(), [0; 4_096]);
    let (head, length) = loop {
        let read = stream.read(&mut part).ok().filter(|read| *read > 0)?;
        text.extend_from_slice(&part[..read]);
        if let Some(head) = text.windows(4).position(|window| window == b"\r\n\r\n") {
            let lines = String::from_utf8_lossy(&text[..head]).to_lowercase();
            assert!(lines.starts_with("post /v1/cpu "), "{lines}");
            let length = lines.lines().find_map(|line| line.strip_prefix("content-length: "))?.parse::<usize>().ok()?;
            break (head + 4, length);
        }
    };
    while text.len() < head + length {
        let read = stream.read(&mut part).ok().filter(|read| *read > 0)?;
        text.extend_from_slice(&part[..read]);
    }
    Some(serde_json::from_slice(&text[head..head + length]).unwrap())
}

#[test]
fn a_control_plane_hears_of_each_quota_and_a_refusal_is_made_up_for() {
    let replica = Replica::new(|_| None);
    let mut stand = Stand::with(CONFIG);
    stand.arguments(&["--node", "n1", "--control-plane", &format!("http://{}", replica.address)]);
    stand.start();
    stand.until("it has told the quotas of both", |_| {
        replica.cores("checkout-0").is_some() && replica.cores("checkout-1").is_some()
    });
    stand.until("it counts the refusal", |stand| {
        stand.metric(r#"bloc_node_errors_total{kind="control-plane"}"#).is_some_and(|count| count > 0.0)
    });
    // Both had 0.2 cores at first.
    stand.sandbox.keep_busy(BUSY);
    stand.until("it has told that one grew and the other shrank", |_| {
        replica.cores("checkout-0").is_some_and(|cores| cores > 0.3)
            && replica.cores("checkout-1").is_some_and(|cores| cores < 0.2)
    });
    let messages = replica.messages.lock().unwrap();
    assert!(messages.iter().all(|message| message["node"] == "n1"));
    let app = messages.iter().filter_map(|message| message["apps"].as_array()).flatten().next();
    let app = app.expect("a message about the application");
    assert_eq!((&app["name"], app["containers"].as_array().map(Vec::len)), (&"shop/checkout".into(), Some(2)));
}

/// What a replica says of both pods: answers, and seconds.
fn sums(pods: [(i64, f64); 2]) -> String {
    let of = |(nth, (count, seconds))| serde_json::json!({"namespace": "shop", "name": format!("checkout-{nth}"), "count": count, "seconds": seconds});
    let answers: Vec<_> = pods.into_iter().enumerate().map(of).collect();
    serde_json::json!({"replica": "r", "answers": answers}).to_string()
}

#[test]
fn the_control_plane_is_asked_and_nonsense_moves_no_shares() {
    let good = Arc::new(AtomicBool::new(false));
    let is_good = Arc::clone(&good);
    let replica = Replica::new(move |nth| match if nth == 0 { 0 } else { nth % 7 + 1 } {
        // Each second: the first answers a hundred requests in a second each, the other one in no
        // time.
        _ if is_good.load(Ordering::Relaxed) => {
            let count = 100 * i64::try_from(nth).unwrap();
            Some(sums([(count, count as f64), (count, 0.0)]))
        }
        0 => Some(sums([(1_000, 100.0), (1_000, 100.0)])),
        1 => Some(sums([(-1, 9_999.0), (2_000, 0.0)])),
        2 => Some(sums([(2_000, -9_999.0), (2_000, 1e300)])),
        3 => Some(sums([(10, 99.0), (10, 1.0)])),
        4 => Some("no".to_owned()),
        5 => Some(format!("{}{}", sums([(2_000, 9_999.0), (2_000, 99.0)]), " ".repeat(2 << 20))),
        6 => Some(sums([(2_000, 9_999.0), (2_000, 100.0)]).replace("checkout-", "cart-")),
        _ => None,
    });
    let mut stand = Stand::with(QOS);
    std::fs::write(stand.path("pods.yaml"), PODS).unwrap();
    stand.arguments(&["--node", "n1", "--control-plane", &format!("http://{}", replica.address)]);
    stand.start();
    let metric = |stand: &Stand, name: &str, nth: u32| {
        stand.metric(&format!(r#"{name}{{app="shop/checkout",pod="checkout-{nth}",container="app"}}"#))
    };
    let shares = |stand: &Stand, nth| metric(stand, "bloc_node_cpu_shares", nth);
    stand.until("it has heard all of the nonsense", |_| replica.asked().len() > 8);
    let own = metric(&stand, "bloc_node_cpu_shares_requested", 0).unwrap();
    assert_eq!([shares(&stand, 0), shares(&stand, 1)], [Some(own); 2], "{}", stand.log());
    let errors = stand.metric(r#"bloc_node_errors_total{kind="control-plane"}"#);
    assert!(errors.is_some_and(|errors| errors >= 3.0), "a negative count, no JSON, too long: {errors:?}");
    let pod = |nth: u32| serde_json::json!({"namespace": "shop", "name": format!("checkout-{nth}")});
    assert!(replica.asked().iter().all(|pods| *pods == serde_json::json!([pod(0), pod(1)])), "{:?}", replica.asked());
    good.store(true, Ordering::Relaxed);
    stand.until("shares move to the slow one", |stand| {
        shares(stand, 0).is_some_and(|shares| shares > own) && shares(stand, 1).is_some_and(|shares| shares < own)
    });
}
