//! The client with control planes that give prepared answers.

use super::client::{Asker, ask};
use super::file::{Contents, LeaseFile};
use super::leases::{Leases, Use};
use crate::replicas::Client;
use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::routing::post;
use bloc_leases::{Asks, Lease, Part, Told, Tolds};
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::time::sleep;

const A: &str = "shop/a";
const HALF: Part = Part::millionths(500_000);
const PATIENCE: Duration = Duration::from_secs(60);

/// A request: the message, the token, and what was on the agent's disk.
#[derive(Clone, Debug)]
struct Asked {
    message: Asks,
    token: Option<String>,
    disk: Option<Contents>,
}

/// How a replica answers.
#[derive(Clone, Copy)]
enum Answer {
    /// The part and the goal of each application.
    Holds(u32, u32),
    Status(u16),
    Text(&'static str),
    Hangs,
    /// Hangs within the body.
    Stalls,
}

/// A control plane.
struct Replica {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    answer: Arc<Mutex<Answer>>,
}

type Plane = (Arc<Mutex<Vec<Asked>>>, Arc<Mutex<Answer>>, PathBuf);

async fn lease(State((asked, answer, disk)): State<Plane>, request: Request) -> Result<Body, StatusCode> {
    let token = request.headers().get("authorization").map(|token| token.to_str().unwrap().to_owned());
    let body = axum::body::to_bytes(request.into_body(), 96 << 10).await.unwrap();
    let message: Asks = serde_json::from_slice(&body).unwrap();
    let disk = fs::read(disk.join("leases.json")).ok().map(|bytes| serde_json::from_slice(&bytes).unwrap());
    asked.lock().unwrap().push(Asked { message: message.clone(), token, disk });
    let answer = *answer.lock().unwrap();
    match answer {
        Answer::Holds(part, goal) => {
            let (part, goal) = (Part::millionths(part), Part::millionths(goal));
            let told = message.apps.into_iter().map(|ask| {
                let nothing = ask.wants == Part::ZERO;
                let (part, goal) = if nothing { (ask.part, ask.part) } else { (part, goal) };
                Told { name: ask.name, life: message.life, number: ask.number, part, goal }
            });
            Ok(serde_json::to_string(&Tolds { apps: told.collect() }).unwrap().into())
        }
        Answer::Status(status) => Err(StatusCode::from_u16(status).unwrap()),
        Answer::Text(text) => Ok(text.into()),
        Answer::Stalls => Ok(Body::from_stream(futures_util::stream::pending::<Result<Vec<u8>, Infallible>>())),
        Answer::Hangs => {
            sleep(PATIENCE).await;
            Err(StatusCode::GONE)
        }
    }
}

impl Replica {
    async fn new(disk: &Path, answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (asked, answer): (Arc<Mutex<Vec<Asked>>>, _) = (Arc::default(), Arc::new(Mutex::new(answer)));
        let plane: Plane = (Arc::clone(&asked), Arc::clone(&answer), disk.to_owned());
        let router = Router::new().route("/v1/lease", post(lease)).with_state(plane);
        tokio::spawn(async move { axum::serve(listener, router).await });
        Self { address, asked, answer }
    }

    fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    /// Waits for a request for which `like` is true.
    async fn until(&self, what: &str, like: impl Fn(&Asked) -> bool) -> Asked {
        let found = async {
            loop {
                let found = self.asked().into_iter().find(|asked| like(asked));
                match found {
                    Some(found) => return found,
                    None => sleep(Duration::from_millis(10)).await,
                }
            }
        };
        let found = tokio::time::timeout(PATIENCE, found).await;
        found.unwrap_or_else(|_| panic!("{what}: {:?}", self.asked()))
    }
}

/// An agent's disk, and what has failed.
struct Node {
    disk: TempDir,
    failures: Arc<Mutex<Vec<(&'static str, String)>>>,
}

impl Node {
    fn new() -> Self {
        Self { disk: tempfile::tempdir().unwrap(), failures: Arc::default() }
    }

    /// Starts the client. It ends with the test.
    fn start(&self, replica: &Replica, token: Option<PathBuf>) -> Leases {
        let (asker, leases) = self.asker(replica, token);
        let failures = Arc::clone(&self.failures);
        let failed = move |kind, error| failures.lock().unwrap().push((kind, error));
        tokio::spawn(ask(asker, leases.clone(), failed));
        leases
    }

    fn asker(&self, replica: &Replica, token: Option<PathBuf>) -> (Asker, Leases) {
        let (file, saved) = LeaseFile::open(self.disk.path(), "n1").unwrap();
        let leases = Leases::new(&saved);
        let target = format!("http://{}", replica.address).parse().unwrap();
        (Asker { target, node: "n1".to_owned(), token, file, saved }, leases)
    }

    async fn fails(&self, with: &str) -> &'static str {
        let found = async {
            loop {
                let found = self.failures.lock().unwrap().iter().find(|(_, error)| error.contains(with)).cloned();
                match found {
                    Some((kind, _)) => return kind,
                    None => sleep(Duration::from_millis(10)).await,
                }
            }
        };
        let found = tokio::time::timeout(PATIENCE, found).await;
        found.unwrap_or_else(|_| panic!("{with}: {:?}", self.failures.lock().unwrap()))
    }
}

/// A step after which `held` is in force.
fn step(leases: &Leases, held: impl Fn(Lease) -> Part) {
    let under = leases.lease(A);
    let of = Use { wants: HALF, least: Part::millionths(50_000), own: None, held: held(under), under };
    leases.settle(BTreeMap::from([(A.to_owned(), of)]), || false);
}

async fn holds(leases: &Leases, lease: (u32, u32)) {
    let (part, goal) = (Part::millionths(lease.0), Part::millionths(lease.1));
    let held = async {
        while leases.lease(A) != (Lease { part, goal }) {
            sleep(Duration::from_millis(10)).await;
        }
    };
    let held = tokio::time::timeout(PATIENCE, held).await;
    assert!(held.is_ok(), "{:?}", leases.lease(A));
}

#[tokio::test]
async fn a_fall_is_on_the_disk_before_it_is_said() {
    let node = Node::new();
    let replica = Replica::new(node.disk.path(), Answer::Holds(500_000, 500_000)).await;
    let leases = node.start(&replica, None);
    step(&leases, |lease| lease.part);
    let first = replica.until("it asks", |_| true).await;
    assert_eq!((first.message.node.as_str(), first.token), ("n1", None));
    assert_eq!(first.disk.unwrap().life, first.message.life, "a life is there before it is said");
    holds(&leases, (500_000, 500_000)).await;
    step(&leases, |lease| lease.part);
    let second = replica.until("it says what it holds", |asked| asked.message.apps[0].part == HALF).await;
    assert_eq!(second.disk.unwrap().part(A), HALF, "what rises is there soon");
    *replica.answer.lock().unwrap() = Answer::Holds(500_000, 200_000);
    holds(&leases, (500_000, 200_000)).await;
    step(&leases, |_| Part::millionths(200_000));
    let fallen = replica.until("it says that it falls", |asked| asked.message.apps[0].number == 1).await;
    assert_eq!(fallen.message.apps[0].part.get(), 200_000);
    assert_eq!(fallen.disk.unwrap().part(A).get(), 200_000);
    assert_eq!(node.failures.lock().unwrap().clone(), []);
}

#[tokio::test]
async fn what_cannot_be_written_is_not_said() {
    let node = Node::new();
    let replica = Replica::new(node.disk.path(), Answer::Holds(500_000, 200_000)).await;
    let leases = node.start(&replica, None);
    step(&leases, |lease| lease.part);
    holds(&leases, (500_000, 200_000)).await;
    step(&leases, |lease| lease.part);
    replica.until("it says what it holds", |asked| asked.message.apps[0].part == HALF).await;
    let broken = node.disk.path().join("leases.json.new");
    fs::create_dir(&broken).unwrap();
    step(&leases, |_| Part::millionths(200_000));
    assert_eq!(node.fails("leases.json: ").await, "state");
    // It asks for others meanwhile.
    let under = Lease::default();
    let other = Use { wants: HALF, least: Part::ZERO, own: None, held: Part::ZERO, under };
    let a = Use { held: leases.lease(A).part, under: leases.lease(A), ..other };
    leases.settle(BTreeMap::from([(A.to_owned(), a), ("shop/b".to_owned(), other)]), || false);
    replica.until("it asks for another", |asked| asked.message.apps[0].name == "shop/b").await;
    assert!(replica.asked().iter().all(|asked| asked.message.apps.iter().all(|ask| ask.number == 0)));
    fs::remove_dir(&broken).unwrap();
    replica.until("it says it at last", |asked| asked.message.apps[0].number == 1).await;
}

#[tokio::test]
async fn without_a_disk_nothing_is_asked_at_all() {
    let node = Node::new();
    fs::create_dir(node.disk.path().join("leases.json.new")).unwrap();
    let replica = Replica::new(node.disk.path(), Answer::Holds(500_000, 500_000)).await;
    let leases = node.start(&replica, None);
    step(&leases, |lease| lease.part);
    assert_eq!(node.fails("leases.json: ").await, "state");
    assert_eq!((replica.asked().len(), leases.lease(A)), (0, Lease::default()));
}

#[tokio::test]
async fn what_is_held_stays_without_an_answer_and_after_a_restart() {
    let node = Node::new();
    let replica = Replica::new(node.disk.path(), Answer::Holds(500_000, 500_000)).await;
    let leases = node.start(&replica, None);
    step(&leases, |lease| lease.part);
    holds(&leases, (500_000, 500_000)).await;
    let first = replica.until("it is on the disk", |asked| asked.disk.as_ref().unwrap().part(A) == HALF).await;
    for (answer, error) in [
        (Answer::Status(404), "404 Not Found"),
        (Answer::Status(503), "503 Service Unavailable"),
        (Answer::Text("no"), "expected ident"),
        (Answer::Holds(1_000_001, 0), "shop/a.part: 1000001 is not allowed; allowed: 0 to 1000000"),
        (Answer::Hangs, "no answer in time"),
    ] {
        *replica.answer.lock().unwrap() = answer;
        assert_eq!(node.fails(error).await, "lease");
        assert_eq!(leases.lease(A), Lease { part: HALF, goal: HALF }, "{error}");
    }
    assert!(leases.age(A) >= Duration::from_secs(1), "{:?}", leases.age(A));
    *replica.answer.lock().unwrap() = Answer::Status(404);
    let again = node.start(&replica, None);
    assert_eq!(again.lease(A), Lease { part: HALF, goal: HALF });
    step(&again, |lease| lease.part);
    let later = replica.until("a later life", |asked| asked.message.life > first.message.life).await;
    assert_eq!((later.message.apps[0].number, later.message.apps[0].part), (0, HALF));
    assert_eq!(later.disk.unwrap().life, later.message.life);
}

#[tokio::test]
async fn the_token_is_read_for_each_question() {
    let node = Node::new();
    let replica = Replica::new(node.disk.path(), Answer::Holds(500_000, 500_000)).await;
    let token = node.disk.path().join("token");
    let leases = node.start(&replica, Some(token.clone()));
    step(&leases, |lease| lease.part);
    assert_eq!(node.fails("token: No such file").await, "lease");
    fs::write(&token, "a b\n").unwrap();
    assert_eq!(node.fails("token: is not a token").await, "lease");
    assert_eq!(replica.asked().len(), 0, "nothing without it");
    for text in ["one.two.three", "four"] {
        fs::write(&token, format!("{text}\n")).unwrap();
        let bearer = Some(format!("Bearer {text}"));
        replica.until(text, |asked| asked.token == bearer).await;
    }
}

#[tokio::test]
async fn one_that_hangs_or_is_away_is_left_alone_for_a_while() {
    let node = Node::new();
    let replica = Replica::new(node.disk.path(), Answer::Holds(500_000, 500_000)).await;
    let (mut asker, leases) = node.asker(&replica, None);
    let failed = |kind, error| node.failures.lock().unwrap().push((kind, error));
    step(&leases, |lease| lease.part);
    let asks = asker.due(&leases, &failed).await;
    // After most failures, a replica is not asked again at once.
    for (answer, rests) in [
        (Answer::Hangs, true),
        (Answer::Stalls, true),
        (Answer::Status(503), true),
        (Answer::Status(500), true),
        (Answer::Text("no"), false),
    ] {
        let client = Client::new(asker.target.clone()).unwrap();
        let before = replica.asked().len();
        *replica.answer.lock().unwrap() = answer;
        for _ in 0..2 {
            assert_eq!(asker.ask_all(&client, &[replica.address], &asks, &failed).await, [None]);
        }
        assert_eq!(replica.asked().len() - before, if rests { 1 } else { 2 });
    }
    let client = Client::new(asker.target.clone()).unwrap();
    node.failures.lock().unwrap().clear();
    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    for _ in 0..2 {
        assert_eq!(asker.ask_all(&client, &[nobody], &asks, &failed).await, [None]);
    }
    assert_eq!(node.failures.lock().unwrap().len(), 1, "a connection that is refused");
}

#[tokio::test]
async fn each_replica_is_asked_and_one_that_hangs_is_left_alone() {
    let node = Node::new();
    let good = Replica::new(node.disk.path(), Answer::Holds(500_000, 500_000)).await;
    let bad = Replica::new(node.disk.path(), Answer::Hangs).await;
    let (mut asker, leases) = node.asker(&good, None);
    let failed = |kind, error| node.failures.lock().unwrap().push((kind, error));
    step(&leases, |lease| lease.part);
    let client = Client::new(asker.target.clone()).unwrap();
    let mut round = async || {
        let asks = asker.due(&leases, &failed).await;
        let heard = asker.ask_all(&client, &[good.address, bad.address], &asks, &failed).await;
        leases.receive(&heard);
        heard.iter().map(Option::is_some).collect::<Vec<_>>()
    };
    assert_eq!(round().await, [true, false]);
    assert_eq!(leases.lease(A).part, HALF);
    assert_eq!(round().await, [true, false]);
    assert_eq!((good.asked().len(), bad.asked().len()), (2, 1));
    assert_eq!(good.asked()[0].message, bad.asked()[0].message);
    // Not all know what is given back.
    leases.settle(BTreeMap::new(), || false);
    round().await;
    assert_eq!(leases.due().asks.len(), 1);
}

#[tokio::test]
async fn many_are_asked_for_in_parts_and_nobody_without_applications() {
    let node = Node::new();
    let replica = Replica::new(node.disk.path(), Answer::Holds(1_000, 1_000)).await;
    let leases = node.start(&replica, None);
    sleep(Duration::from_millis(1_500)).await;
    assert_eq!((replica.asked().len(), node.disk.path().join("leases.json").exists()), (0, false));
    let of = Use { wants: HALF, least: Part::ZERO, own: None, held: Part::ZERO, under: Lease::default() };
    leases.settle((0..101).map(|nth| (format!("shop/a{nth:03}"), of)).collect(), || false);
    replica.until("the last one", |asked| asked.message.apps[0].name == "shop/a100").await;
    let lengths: Vec<usize> = replica.asked().iter().take(2).map(|asked| asked.message.apps.len()).collect();
    assert_eq!(lengths, [100, 1]);
    let heard = async {
        while leases.lease("shop/a100").part.get() != 1_000 {
            sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(tokio::time::timeout(PATIENCE, heard).await.is_ok());
}
