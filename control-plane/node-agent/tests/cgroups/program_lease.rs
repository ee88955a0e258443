//! The program holds a part of a cluster-wide limit.

use crate::program::{BUSY, CONFIG, Stand, send};
use bloc_leases::{Asks, Part, Told, Tolds};
use nix::sys::signal::Signal;
use std::fs;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A control plane that leases a part to whoever asks; none: it does not answer.
struct Replica {
    address: SocketAddr,
    part: Arc<Mutex<Option<u32>>>,
    asked: Arc<Mutex<Vec<Asks>>>,
}

impl Replica {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let part: Arc<Mutex<Option<u32>>> = Arc::default();
        let asked: Arc<Mutex<Vec<Asks>>> = Arc::default();
        let (says, kept) = (Arc::clone(&part), Arc::clone(&asked));
        // It ends with the test.
        std::thread::spawn(move || {
            for mut stream in listener.incoming().map_while(Result::ok) {
                let Some(text) = read(&mut stream) else { continue };
                let asks: Option<Asks> =
                    text.split_once("\r\n\r\n").and_then(|(_, body)| serde_json::from_str(body).ok());
                let part = *says.lock().unwrap();
                let Some((asks, part)) = asks.zip(part) else {
                    let _ = stream.write_all(b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n");
                    continue;
                };
                let told = asks.apps.iter().map(|ask| {
                    let part = if ask.wants == Part::ZERO { ask.part } else { Part::millionths(part) };
                    Told { name: ask.name.clone(), life: asks.life, number: ask.number, part, goal: part }
                });
                let body = serde_json::to_string(&Tolds { apps: told.collect() }).unwrap();
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", body.len());
                let _ = write!(stream, "{head}{body}");
                kept.lock().unwrap().push(asks);
            }
        });
        Self { address, part, asked }
    }

    /// What it was asked last of the application: part, and what it wants.
    fn last(&self) -> Option<(Part, Part)> {
        let asked = self.asked.lock().unwrap();
        asked.last().and_then(|asks| asks.apps.first()).map(|ask| (ask.part, ask.wants))
    }
}

/// Reads a request; there is one for each connection.
fn read(stream: &mut TcpStream) -> Option<String> {
    let (mut text, mut part) = (String::new(), [0; 4_096]);
    loop {
        let read = stream.read(&mut part).ok().filter(|read| *read > 0)?;
        text.push_str(&String::from_utf8_lossy(&part[..read]));
        let Some((head, body)) = text.split_once("\r\n\r\n") else { continue };
        let head = head.to_lowercase();
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "))?.parse::<usize>().ok()?;
        if body.len() >= length {
            return Some(text);
        }
    }
}

#[test]
fn a_part_limits_the_quotas_stays_without_a_control_plane_and_is_given_back() {
    let replica = Replica::new();
    let leased = CONFIG.replace("limit: 400m", "limit: 400m, over: cluster");
    let mut stand = Stand::with(&leased);
    stand.sandbox.keep_busy(BUSY);
    stand.arguments(&["--node", "n1", "--control-plane", &format!("http://{}", replica.address)]);
    let own = stand.quotas();
    stand.start();
    stand.until("it asks", |stand| {
        stand.metric(r#"bloc_node_errors_total{kind="lease"}"#).is_some_and(|errors| errors >= 2.0)
    });
    assert_eq!(stand.quotas(), own, "without a part");
    // 0.2 cores, of which the busy one gets most.
    *replica.part.lock().unwrap() = Some(500_000);
    let within = |stand: &Stand| {
        let [busy, idle, ..] = stand.quotas();
        busy + idle <= 20_000 && busy > 15_000
    };
    stand.until("it uses the part", within);
    stand.until("it says so", |_| replica.last().is_some_and(|(part, wants)| part.get() == 500_000 && wants > part));
    let part = r#"bloc_node_lease_part_ratio{app="shop/checkout"}"#;
    stand.until("the metrics show it", |stand| stand.metric(part) == Some(0.5));
    // It starts again without a control plane.
    *replica.part.lock().unwrap() = None;
    send(stand.guardian(), Signal::SIGTERM);
    assert!(stand.ended().success());
    assert!(fs::read_to_string(stand.path("state/leases.json")).unwrap().contains("500000"));
    stand.start();
    stand.until("it still holds it", |stand| within(stand) && stand.metric(part) == Some(0.5));
    *replica.part.lock().unwrap() = Some(500_000);
    stand.configure(&leased.replace("enforce", "observe"));
    stand.until("it gives it back", |_| replica.last() == Some((Part::ZERO, Part::ZERO)));
    assert_eq!(stand.quotas(), own);
    let saved = || fs::read_to_string(stand.path("state/leases.json")).unwrap();
    stand.until("nothing is left to say", |_| !saved().contains("checkout"));
}
