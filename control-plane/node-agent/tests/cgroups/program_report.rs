//! The program tells the control plane.

use crate::program::{BUSY, CONFIG, Stand};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A control plane that keeps the messages, and refuses the first one.
struct Replica {
    address: SocketAddr,
    messages: Arc<Mutex<Vec<serde_json::Value>>>,
}

impl Replica {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let messages = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&messages);
        // It ends with the test.
        std::thread::spawn(move || {
            for (index, stream) in listener.incoming().map_while(Result::ok).enumerate() {
                let Some(message) = answer(stream, index == 0) else { continue };
                kept.lock().unwrap().push(message);
            }
        });
        Self { address, messages }
    }

    /// The last value of `cores` of a pod.
    fn cores(&self, pod: &str) -> Option<f64> {
        let messages = self.messages.lock().unwrap();
        let mut pods = messages.iter().filter_map(|message| message["pods"].as_array()).flatten();
        pods.rfind(|entry| entry["namespace"] == "shop" && entry["name"] == pod)?["cores"].as_f64()
    }
}

/// Reads a request, and answers it; one request for each connection.
fn answer(mut stream: TcpStream, refuses: bool) -> Option<serde_json::Value> {
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
    let status = if refuses { "503 Service Unavailable" } else { "204 No Content" };
    write!(stream, "HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n").ok()?;
    (!refuses).then(|| serde_json::from_slice(&text[head..head + length]).unwrap())
}

#[test]
fn a_control_plane_hears_of_each_quota_and_a_refusal_is_made_up_for() {
    let replica = Replica::new();
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
