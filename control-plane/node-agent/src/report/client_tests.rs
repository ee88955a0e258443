//! The client with control planes that give prepared answers.

use super::client::{To, tell_all};
use super::{Cpu, Heard, PodName, report};
use crate::qos::Answers;
use crate::replicas::Target;
use bloc_daemon::cpu::PodCpu;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::sleep;

/// Stands for no response.
const HANGS: &str = "hangs";

/// A control plane: what it has been asked, and how it answers.
struct Replica {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Value>>>,
}

impl Replica {
    /// Answers each question with the next of these, as a whole response, and repeats the last one.
    /// Answers other messages with 204.
    async fn new(answers: Vec<String>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let asked: Arc<Mutex<Vec<Value>>> = Arc::default();
        let kept = Arc::clone(&asked);
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let Some(message) = read(&mut stream).await else { continue };
                let answer = message["asks"].is_array().then(|| {
                    let mut asked = kept.lock().unwrap();
                    asked.push(message.clone());
                    answers[(asked.len() - 1).min(answers.len() - 1)].clone()
                });
                let answer = answer.unwrap_or_else(|| with("204 No Content", ""));
                if answer == HANGS {
                    // Until the client gives up.
                    let _ = stream.read_u8().await;
                }
                let _ = stream.write_all(answer.as_bytes()).await;
            }
        });
        Self { address, asked }
    }

    fn target(&self) -> Target {
        format!("http://{}", self.address).parse().unwrap()
    }

    /// Waits until it has been asked more than this many times.
    async fn asked(&self, times: usize) {
        while self.asked.lock().unwrap().len() <= times {
            sleep(Duration::from_millis(20)).await;
        }
    }
}

/// The message of a request.
async fn read(stream: &mut TcpStream) -> Option<Value> {
    let mut text = Vec::new();
    loop {
        let head = text.windows(4).position(|window| window == b"\r\n\r\n");
        let body = head.and_then(|head| serde_json::from_slice(&text[head + 4..]).ok());
        if body.is_some() {
            return body;
        }
        stream.read_buf(&mut text).await.ok().filter(|read| *read > 0)?;
    }
}

fn with(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}", body.len())
}

fn sums(count: u64, seconds: f64) -> String {
    let answer = json!({"namespace": "shop", "name": "a", "count": count, "seconds": seconds});
    with("200 OK", &json!({"replica": "r", "answers": [answer]}).to_string())
}

fn pod(name: &str) -> PodName {
    PodName { namespace: "shop".to_owned(), name: name.to_owned() }
}

/// Asks this replica about the pods often enough that all answers were heard. Returns what was
/// heard, and the failures.
async fn ask(replica: &Replica, pods: &[&str], times: usize) -> (Vec<(PodName, Answers)>, Vec<String>) {
    let asks: BTreeSet<PodName> = pods.iter().map(|name| pod(name)).collect();
    let (told, heard) = (watch::Sender::new(Arc::new(Cpu { asks: asks.into(), ..Cpu::default() })), Heard::default());
    let failures: Arc<Mutex<Vec<String>>> = Arc::default();
    let failed = Arc::clone(&failures);
    let failed = move |error| failed.lock().unwrap().push(error);
    let task = tokio::spawn(report(replica.target(), "n1".to_owned(), told.subscribe(), Arc::clone(&heard), failed));
    replica.asked(times).await;
    drop(told);
    task.await.unwrap();
    let heard = std::mem::take(&mut *heard.lock().unwrap()).into_iter().collect();
    let failures = failures.lock().unwrap().clone();
    (heard, failures)
}

#[tokio::test]
async fn what_a_replica_says_is_heard() {
    let answers = vec![sums(10, 1.0), sums(30, 2.5), with("204 No Content", ""), sums(31, 3.0)];
    let replica = Replica::new(answers).await;
    let (heard, failures) = ask(&replica, &["a", "b"], 4).await;
    assert_eq!(heard, [(pod("a"), Answers { count: 21, time: Duration::from_secs(2) })]);
    assert_eq!(failures, [] as [String; 0]);
    let pods = [json!({"namespace": "shop", "name": "a"}), json!({"namespace": "shop", "name": "b"})];
    let asked = replica.asked.lock().unwrap();
    assert!(asked.iter().all(|message| *message == json!({"node": "n1", "asks": pods})), "{asked:?}");
}

#[tokio::test]
async fn nonsense_is_counted_and_harmless() {
    let long = |bytes: usize| {
        let answer = r#"{"replica":"r","answers":[]}"#;
        with("200 OK", &format!("{answer}{}", " ".repeat(bytes - answer.len())))
    };
    let cut = sums(20, 2.0).replace("content-length: ", "content-length: 9");
    let answers = vec![
        sums(10, 1.0),
        with("200 OK", "no"),
        long(1 << 20),
        long((1 << 20) + 1),
        cut,
        sums(20, -1.0),
        sums(11, 1.5),
    ];
    let replica = Replica::new(answers).await;
    let (heard, failures) = ask(&replica, &["a"], 7).await;
    assert_eq!(heard, [(pod("a"), Answers { count: 1, time: Duration::from_millis(500) })]);
    let address = replica.address;
    let [text, long, cut] = &failures[..] else { panic!("{failures:?}") };
    assert_eq!(*text, format!("{address}: .: expected ident at line 1 column 2"));
    assert_eq!(*long, format!("{address}: an answer of more than 1048576 bytes"));
    assert!(cut.starts_with(&format!("{address}: ")), "{cut}");
}

#[tokio::test]
async fn a_refusal_and_silence_are_failures() {
    let replica = Replica::new(vec![with("503 Service Unavailable", "{}"), String::new()]).await;
    let (heard, failures) = ask(&replica, &["a"], 2).await;
    assert_eq!(heard, []);
    assert!(failures[0].contains("503 Service Unavailable"), "{failures:?}");
    assert!(failures[1].starts_with(&replica.address.to_string()), "{failures:?}");
}

#[tokio::test]
async fn nobody_is_asked_for_without_pods_and_many_are_asked_for_in_parts() {
    let none = Replica::new(vec![sums(1, 1.0)]).await;
    let names: Vec<String> = (0..201).map(|nth| format!("p{nth}")).collect();
    let many = Replica::new(vec![sums(1, 1.0)]).await;
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let asked = ask(&many, &names, 2);
    let idle = tokio::time::timeout(Duration::from_secs(3), ask(&none, &[], 0));
    let ((_, failures), idle) = tokio::join!(asked, idle);
    assert_eq!((failures, idle.is_err()), (vec![], true));
    let asked = many.asked.lock().unwrap();
    let lengths: Vec<usize> = asked.iter().take(2).map(|message| message["asks"].as_array().unwrap().len()).collect();
    assert_eq!(lengths, [200, 1]);
}

#[tokio::test]
async fn who_hangs_is_asked_again() {
    let replica = Replica::new(vec![sums(1, 1.0), HANGS.to_owned(), sums(3, 2.0)]).await;
    let (heard, failures) = ask(&replica, &["a"], 3).await;
    assert_eq!(heard, [(pod("a"), Answers { count: 2, time: Duration::from_secs(1) })]);
    assert_eq!(failures, [format!("{}: no answer in time", replica.address)]);
}

/// Changes quotas all the time, until an abort drops `told`.
async fn keep_changing(told: watch::Sender<Arc<Cpu>>) {
    for cores in 1.. {
        let PodName { namespace, name } = pod("a");
        let pod = PodCpu { namespace, name, cores: Some(f64::from(cores)), used_seconds: 0.0 };
        told.send_replace(Arc::new(Cpu { pods: vec![pod], ..Cpu::default() }));
        sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test]
async fn a_replica_that_hangs_does_not_delay_what_another_hears() {
    // The kernel accepts its connections, and nobody answers.
    let hangs = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let hears = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let replicas = [&hangs, &hears].map(|listener| listener.local_addr().unwrap());
    let heard: Arc<Mutex<u32>> = Arc::default();
    let kept = Arc::clone(&heard);
    let hearing = tokio::spawn(async move {
        while let Ok((mut stream, _)) = hears.accept().await {
            if read(&mut stream).await.is_some() {
                *kept.lock().unwrap() += 1;
                let _ = stream.write_all(with("204 No Content", "").as_bytes()).await;
            }
        }
    });
    let told = watch::Sender::new(Arc::<Cpu>::default());
    let (receiver, changing) = (told.subscribe(), tokio::spawn(keep_changing(told)));
    let addresses = watch::Sender::new(replicas.to_vec());
    let to = To::new(&"http://127.0.0.1:1".parse().unwrap(), "n1").unwrap();
    let at_failure = Mutex::new(None);
    let failed = |error: String| {
        assert!(error.starts_with(&replicas[0].to_string()), "{error}");
        at_failure.lock().unwrap().get_or_insert(*heard.lock().unwrap());
    };
    let failure = async {
        while at_failure.lock().unwrap().is_none() {
            sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::select! {
        () = tell_all(&to, receiver, addresses.subscribe(), &failed) => panic!("it has ended"),
        () = failure => {}
    }
    changing.abort();
    hearing.abort();
    let before = at_failure.lock().unwrap().unwrap();
    assert!(before >= 2, "the other one has heard {before} messages before the first one has failed");
}
