//! The program moves CPU shares of the kernel's own groups, by what a control plane says.

use crate::program::{Stand, send};
use crate::shares::{self, CONFIG};
use bloc_node_agent::cgroup::{Version, Weight};
use nix::sys::signal::Signal;
use std::fs;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

/// What containers and pods have in the file at first.
const OWN: u64 = 1_000;

const PODS: &str = "
- {namespace: shop, name: checkout-0, uid: u0, labels: {app: checkout}, containers: [{name: app, id: c0, requests: 100m}]}
- {namespace: shop, name: checkout-1, uid: u1, labels: {app: checkout}, containers: [{name: app, id: c1, requests: 100m}]}
";

/// Two pods, of which a control plane says that the first one is late.
fn stand() -> Stand {
    let mut stand = Stand::with(CONFIG);
    fs::write(stand.path("pods.yaml"), PODS).unwrap();
    for group in stand.pods.iter().chain([&stand.busy, &stand.idle]) {
        let own = match stand.sandbox.version() {
            Version::V1 => Weight::Shares(OWN),
            Version::V2 => Weight::Weight(OWN),
        };
        group.set_weight(own).unwrap();
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    // It ends with the test.
    std::thread::spawn(move || {
        let mut asked = 0;
        for stream in listener.incoming().map_while(Result::ok) {
            answer(stream, &mut asked);
        }
    });
    stand.arguments(&["--node", "n1", "--control-plane", &format!("http://{address}")]);
    stand
}

/// Reads a request, and answers it; one request for each connection. `asked` counts those that ask.
fn answer(mut stream: TcpStream, asked: &mut u64) -> Option<()> {
    let (mut text, mut part) = (Vec::new(), [0; 4_096]);
    let body = loop {
        let read = stream.read(&mut part).ok().filter(|read| *read > 0)?;
        text.extend_from_slice(&part[..read]);
        let whole = String::from_utf8_lossy(&text);
        if let Some((head, body)) = whole.split_once("\r\n\r\n") {
            let head = head.to_lowercase();
            let length: usize = head.lines().find_map(|line| line.strip_prefix("content-length: "))?.parse().ok()?;
            if body.len() >= length {
                break body.to_owned();
            }
        }
    };
    let message: serde_json::Value = serde_json::from_str(&body).ok()?;
    if message["asks"].as_array().is_none_or(Vec::is_empty) {
        return write!(stream, "HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n").ok();
    }
    *asked += 1;
    let pod = |name: &str, seconds: u64| {
        let (count, seconds) = (*asked * 100, *asked * seconds);
        serde_json::json!({"namespace": "shop", "name": name, "count": count, "seconds": seconds})
    };
    let answers = [pod("checkout-0", 60), pod("checkout-1", 1)];
    let answer = serde_json::json!({"replica": "r1", "answers": answers}).to_string();
    let head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close";
    write!(stream, "{head}\r\ncontent-length: {}\r\n\r\n{answer}", answer.len()).ok()
}

/// What is in the files of the containers and their pods.
fn numbers(stand: &Stand) -> [u64; 4] {
    [&stand.busy, &stand.idle, &stand.pods[0], &stand.pods[1]].map(|group| group.weight().unwrap().get())
}

/// Starts the program, and waits until shares have moved.
fn start(stand: &mut Stand) {
    stand.start();
    stand.until("the first one has more, and its pod", |stand| {
        let [first, second, pod, other] = numbers(stand);
        first > OWN && second < OWN && pod > OWN && other < OWN
    });
}

#[test]
fn whoever_dies_and_however_the_program_ends_all_have_their_own_shares() {
    let mut stand = stand();
    start(&mut stand);
    let labels = r#"{app="shop/checkout",pod="checkout-0",container="app"}"#;
    stand.until("the metrics show it", |stand| {
        stand.metric(&format!("bloc_node_qos_response_seconds{labels}")) == Some(0.6)
            && stand.metric(&format!("bloc_node_cpu_shares{labels}"))
                > stand.metric(&format!("bloc_node_cpu_shares_requested{labels}"))
    });
    send(stand.guardian(), Signal::SIGTERM);
    assert!(stand.ended().success(), "{}", stand.log());
    assert_eq!(numbers(&stand), [OWN; 4]);
    start(&mut stand);
    send(stand.agent(), Signal::SIGKILL);
    assert_eq!(stand.ended().code(), Some(1));
    assert_eq!(numbers(&stand), [OWN; 4], "the guardian");
    start(&mut stand);
    stand.kill_both();
    let [first, second, ..] = numbers(&stand);
    assert!(first > OWN && second < OWN, "nobody is left");
    assert!(stand.command("restore").status().unwrap().success());
    assert_eq!(numbers(&stand), [OWN; 4], "by hand");
}

#[test]
fn what_a_crash_has_left_is_put_back_at_the_start() {
    let mut stand = stand();
    let crash = |stand: &Stand| {
        let mut agent = shares::agent(&stand.sandbox, &stand.path("state"));
        shares::seconds(&mut agent, &mut Duration::default(), 11);
        let [first, second, ..] = numbers(stand);
        assert!(first > OWN && second < OWN);
    };
    crash(&stand);
    assert!(stand.command("restore").status().unwrap().success());
    assert_eq!(numbers(&stand), [OWN; 4]);
    crash(&stand);
    // Whatever it is told.
    stand.configure("mode: nonsense");
    stand.start();
    stand.until("all have their own", |stand| numbers(stand) == [OWN; 4]);
}

#[test]
fn without_a_control_plane_it_is_refused() {
    let mut stand = stand();
    stand.arguments(&[]);
    stand.start();
    stand.until("it is refused", |stand| stand.metric("bloc_node_config_ok") == Some(0.0));
    let refusal = "apps.shop/checkout.qos: qos is not allowed; allowed: only with --control-plane";
    assert!(stand.log().contains(refusal), "{}", stand.log());
    assert_eq!(numbers(&stand), [OWN; 4]);
}
