//! The program answers sidecars at sockets of their pods.

use crate::program::{BUSY, CONFIG, Stand, send};
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// Longer than the longest wait.
const PATIENCE: Duration = Duration::from_secs(90);

fn stand(config: &str) -> Stand {
    let mut stand = Stand::with(config);
    fs::create_dir(stand.path("sockets")).unwrap();
    let sockets = stand.path("sockets");
    stand.arguments(&["--sockets", sockets.to_str().unwrap()]);
    stand
}

fn socket(stand: &Stand, nth: u32) -> PathBuf {
    stand.path(&format!("sockets/shop_checkout-{nth}/self.sock"))
}

/// A sidecar with one connection.
struct Sidecar(UnixStream);

impl Sidecar {
    fn connect(stand: &Stand, nth: u32) -> io::Result<Self> {
        let stream = UnixStream::connect(socket(stand, nth))?;
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Ok(Self(stream))
    }

    fn send(&mut self, question: &str) {
        write!(self.0, "GET /v1/self{question} HTTP/1.1\r\nHost: agent\r\n\r\n").unwrap();
    }

    /// The next answer; none: the connection is closed.
    fn answer(&mut self) -> Option<Value> {
        let (mut text, mut part) = (String::new(), [0; 1_024]);
        loop {
            let read = self.0.read(&mut part).unwrap_or_else(|error| match error.kind() {
                io::ErrorKind::ConnectionReset => 0,
                _ => panic!("{error}; {text}"),
            });
            if read == 0 {
                return None;
            }
            text.push_str(std::str::from_utf8(&part[..read]).unwrap());
            if text.starts_with("HTTP/1.1 304 ") && text.ends_with("\r\n\r\n") {
                return Some(Value::Null);
            }
            let body = text.split_once("\r\n\r\n").map_or("", |(_, body)| body);
            if let Ok(answer) = serde_json::from_str(body) {
                assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
                return Some(answer);
            }
        }
    }

    fn ask(&mut self, question: &str) -> Value {
        self.send(question);
        self.answer().expect("an answer")
    }
}

fn ask(stand: &Stand, nth: u32, question: &str) -> Value {
    Sidecar::connect(stand, nth).unwrap().ask(question)
}

#[test]
fn a_held_question_is_answered_when_the_quota_moves_also_by_the_next_agent() {
    let mut stand = stand(CONFIG);
    stand.start();
    stand.until("there is a socket for each pod", |stand| socket(stand, 0).exists() && socket(stand, 1).exists());
    let mut sidecar = Sidecar::connect(&stand, 0).unwrap();
    // It waits for the agent to manage the container.
    let own = sidecar.ask("?wait=60s")["cores"].as_f64().unwrap();
    assert!((0.01..=0.4).contains(&own), "{own}");
    let (began, mut cores) = (Instant::now(), own);
    stand.sandbox.keep_busy(BUSY);
    while cores < 0.3 {
        let answer = sidecar.ask(&format!("?cores={cores}&wait=60s"));
        let next = answer["cores"].as_f64().unwrap();
        assert!((next - cores).abs() >= 0.05 * cores, "{cores} {next}");
        assert!(began.elapsed() < PATIENCE, "{cores}");
        cores = next;
    }
    stand.until("its use is told, and less than the other one has", |stand| {
        let [busy, idle] = [0, 1].map(|nth| ask(stand, nth, ""));
        let cores = |answer: &Value| answer["cores"].as_f64().unwrap();
        busy["used"].as_f64().is_some_and(|used| used > 0.2) && cores(&idle) < 0.2 && cores(&busy) > 0.3
    });
    assert_eq!(stand.metric("bloc_node_sockets"), Some(2.0));
    assert!(stand.metric("bloc_node_socket_answers_total").is_some_and(|answers| answers >= 4.0));
    assert!(stand.metric(r#"bloc_node_errors_total{kind="socket"}"#).is_none(), "{}", stand.log());

    // A crash: the files stay.
    sidecar.send("?wait=60s&cores=0.4");
    stand.kill_both();
    while sidecar.answer().is_some() {}
    assert!(socket(&stand, 0).exists());
    // The kernel may close a connection before the listener.
    stand.until("nobody listens", |stand| Sidecar::connect(stand, 0).is_err());
    let before = fs::metadata(stand.path("sockets/shop_checkout-0")).unwrap();
    stand.start();
    stand.until("the sidecar can ask the next agent", |stand| Sidecar::connect(stand, 0).is_ok());
    let after = fs::metadata(stand.path("sockets/shop_checkout-0")).unwrap();
    assert_eq!(before.ino(), after.ino(), "a sidecar has mounted that directory");
    // It does not say that it manages nothing, before it knows.
    let first = ask(&stand, 0, "?wait=0s&cores=0.01");
    assert!(first.is_null() || first["cores"].is_f64(), "{first}");
    assert!(ask(&stand, 0, "?wait=60s&cores=0.01")["cores"].is_f64());
    // An end: the files go.
    let mut sidecar = Sidecar::connect(&stand, 1).unwrap();
    sidecar.send("?wait=60s&cores=0.02");
    send(stand.guardian(), Signal::SIGTERM);
    assert!(stand.ended().success(), "{}", stand.log());
    while sidecar.answer().is_some() {}
    assert!(!socket(&stand, 0).exists() && !socket(&stand, 1).exists());
    assert!(stand.path("sockets/shop_checkout-1").exists());
}

#[test]
fn an_observer_knows_nothing_and_a_pod_without_an_application_has_no_socket() {
    let mut stand = stand(&CONFIG.replace("enforce", "observe"));
    stand.start();
    stand.until("there is a socket", |stand| socket(stand, 0).exists());
    // Until the container would be managed.
    stand.until("it is seen", |stand| {
        let managed = r#"bloc_node_cpu_managed{app="shop/checkout",pod="checkout-0",container="app"}"#;
        stand.metric(managed) == Some(1.0)
    });
    assert_eq!(ask(&stand, 0, ""), json!({}));
    assert_eq!(ask(&stand, 0, "?wait=1s"), json!({}));
    let mut sidecar = Sidecar::connect(&stand, 0).unwrap();
    sidecar.send("?wait=60s");
    stand.configure(CONFIG);
    assert!(sidecar.answer().unwrap()["cores"].is_f64(), "now it is managed");
    let cores = sidecar.ask("")["cores"].as_f64().unwrap();
    sidecar.send(&format!("?wait=60s&cores={cores}"));
    stand.configure(&CONFIG.replace("enforce", "observe"));
    // Its quota may have moved before.
    let mut answer = sidecar.answer().unwrap();
    while let Some(cores) = answer["cores"].as_f64() {
        answer = sidecar.ask(&format!("?wait=60s&cores={cores}"));
    }
    assert_eq!(answer, json!({}));
    stand.configure(&CONFIG.replace("app: checkout", "app: other"));
    sidecar.send("?wait=60s");
    assert_eq!(sidecar.answer(), None);
    stand.until("the sockets are gone", |stand| !socket(stand, 0).exists() && !socket(stand, 1).exists());
    assert_eq!(stand.metric("bloc_node_sockets"), Some(0.0));
}

#[test]
fn an_agent_that_ends_with_an_error_removes_its_sockets() {
    let mut stand = stand(CONFIG);
    stand.start();
    stand.until("there are sockets", |stand| socket(stand, 0).exists() && socket(stand, 1).exists());
    for group in [BUSY, "burstable/podu1/c1", "burstable/podu0", "burstable/podu1", "burstable", ""] {
        stand.sandbox.remove_idle(group);
    }
    assert_eq!(stand.ended().code(), Some(1));
    assert!(stand.log().contains("the directory is gone"), "{}", stand.log());
    assert!(!socket(&stand, 0).exists() && !socket(&stand, 1).exists());
}

#[test]
fn without_the_directory_it_does_not_start() {
    let stand = stand(CONFIG);
    fs::write(stand.path("file"), "").unwrap();
    for (name, why) in [("nowhere", "No such file"), ("file", "Not a directory")] {
        let path = stand.path(name);
        let mut program = stand.command("run");
        program.arg("--config").arg(stand.path("node-agent.yaml"));
        program.arg("--pods").arg(format!("file:{}", stand.path("pods.yaml").display()));
        let ended = program.args(["--listen", "127.0.0.1:0", "--sockets"]).arg(&path).output().unwrap();
        let error = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(1), "{error}");
        let expected = format!("error: --sockets: {}: no directory that can be opened: ", path.display());
        assert!(error.contains(&expected) && error.contains(why), "{error}");
    }
}
