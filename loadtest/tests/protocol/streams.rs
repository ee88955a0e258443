//! Long streams through real Envoys: an idle one does not count as work, and every message on it
//! still arrives.

use crate::support::{Place, balance, eventually, inbound, metric, outbound, request, send};
use bloc_mesh::envoy::{Envoy, SERVICE};
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::{sleep, timeout};

const STREAMS: usize = 50;
const PATIENCE: Duration = Duration::from_secs(20);

/// An application: a request to `/stream` gets an answer that begins at once and says `echo` to
/// every message; all others get `ok`.
struct Echo {
    address: SocketAddr,
    served: Arc<AtomicU64>,
    end: Arc<Notify>,
}

impl Echo {
    async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let (address, served) = (listener.local_addr().unwrap(), Arc::new(AtomicU64::new(0)));
        let end = Arc::new(Notify::new());
        let (counter, ends) = (Arc::clone(&served), Arc::clone(&end));
        tokio::spawn(async move {
            while let Ok((connection, _)) = listener.accept().await {
                tokio::spawn(Self::serve(connection, Arc::clone(&counter), Arc::clone(&ends)));
            }
        });
        Self { address, served, end }
    }

    async fn serve(mut connection: TcpStream, served: Arc<AtomicU64>, end: Arc<Notify>) -> Option<()> {
        loop {
            let head = read_until(&mut connection, "\r\n\r\n").await?;
            if !head.starts_with("POST /stream") {
                served.fetch_add(1, Ordering::SeqCst);
                connection.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok").await.ok()?;
                continue;
            }
            connection.write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n").await.ok()?;
            let mut buffer = [0; 1024];
            loop {
                tokio::select! {
                    () = end.notified() => return connection.write_all(b"0\r\n\r\n").await.ok(),
                    count = connection.read(&mut buffer) => { count.ok().filter(|count| *count > 0)?; }
                }
                connection.write_all(b"4\r\necho\r\n").await.ok()?;
            }
        }
    }

    /// Ends the open streams.
    fn end_streams(&self) {
        self.end.notify_waiters();
    }

    fn served(&self) -> u64 {
        self.served.load(Ordering::SeqCst)
    }
}

/// Reads up to and including `end`; none if the connection ends before.
async fn read_until(connection: &mut TcpStream, end: &str) -> Option<String> {
    let (mut all, mut buffer) = (String::new(), [0; 1024]);
    while !all.contains(end) {
        let count = connection.read(&mut buffer).await.ok().filter(|count| *count > 0)?;
        all.push_str(&String::from_utf8_lossy(&buffer[..count]));
    }
    Some(all)
}

/// A stream over HTTP/1.1, in both directions.
struct Stream(TcpStream);

impl Stream {
    async fn open(to: SocketAddr) -> Self {
        let mut connection = TcpStream::connect(to).await.unwrap();
        let head = b"POST /stream HTTP/1.1\r\nhost: backend\r\ntransfer-encoding: chunked\r\n\r\n";
        connection.write_all(head).await.unwrap();
        let head = timeout(PATIENCE, read_until(&mut connection, "\r\n\r\n")).await.expect("an answer");
        assert!(head.as_ref().is_some_and(|head| head.starts_with("HTTP/1.1 200")), "{head:?}");
        Self(connection)
    }

    /// Sends a message and waits for its echo; false: the stream has ended.
    async fn message(&mut self) -> bool {
        if self.0.write_all(b"5\r\nhello\r\n").await.is_err() {
            return false;
        }
        timeout(PATIENCE, read_until(&mut self.0, "echo")).await.expect("an echo or the end").is_some()
    }
}

async fn open(to: SocketAddr) -> Vec<Stream> {
    let mut streams = Vec::new();
    for _ in 0..STREAMS {
        streams.push(Stream::open(to).await);
    }
    streams
}

/// The sidecar of a server.
async fn server(place: &Place, name: &str, app: &Echo, spec: &Value) -> (Envoy, SocketAddr) {
    let configuration = json!({"service": SERVICE, "services": {SERVICE: spec}});
    let mut bootstrap = inbound(place, app.address, &configuration, None);
    balance(&mut bootstrap);
    let sidecar = Envoy::start(&place.envoy, place.path(), name, &bootstrap, 2).await.unwrap();
    let address = sidecar.listener("inbound").unwrap();
    (sidecar, address)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_counts_a_stream_only_while_it_carries_messages() {
    let place = Place::new();
    let app = Echo::start().await;
    let (sidecar, to) = server(&place, "pod", &app, &json!({"concurrency": STREAMS, "hold": true})).await;
    let gauge = async |name: &str| metric(&sidecar, "inbound", name).await;
    let mut streams = open(to).await;
    assert_eq!(send(to, request("/x"), "").await.unwrap().body, "ok", "it waits for a slot, and gets one");
    eventually("streams that do not count", async || (gauge("in_flight").await == 0).then_some(())).await;
    let held = gauge("held").await;
    for _ in 0..10 {
        assert_eq!(send(to, request("/x"), "").await.unwrap().body, "ok");
    }
    assert_eq!(gauge("held").await, held, "slots are free");

    eventually("three that count", async || {
        for stream in &mut streams[..3] {
            assert!(stream.message().await);
        }
        (gauge("in_flight").await == 3).then_some(())
    })
    .await;
    // One ends while it counts, all others while they do not.
    drop(streams.remove(0));
    eventually("streams that are idle again", async || (gauge("in_flight").await == 0).then_some(())).await;
    for stream in &mut streams {
        assert!(stream.message().await);
    }
    eventually("idle streams", async || (gauge("in_flight").await == 0).then_some(())).await;
    drop(streams);
    sleep(Duration::from_secs(1)).await;
    assert_eq!(gauge("in_flight").await, 0, "nothing is subtracted twice");
    let stream = Stream::open(to).await;
    assert_eq!(gauge("in_flight").await, 1);
    drop(stream);
    eventually("the end", async || (gauge("in_flight").await == 0).then_some(())).await;
}

/// All streams of a sender are at one of two servers. `bloc.attempt` sees their bytes, too.
#[tokio::test(flavor = "multi_thread")]
async fn a_sender_does_not_count_idle_streams_as_pending() {
    let place = Place::new();
    let [with, without] = [Echo::start().await, Echo::start().await];
    let (_with, first) = server(&place, "with", &with, &json!({})).await;
    let (other, second) = server(&place, "without", &without, &json!({})).await;
    let spec = json!({"routing": "least_request", "endpoints": [first.to_string(), second.to_string()]});
    let bootstrap = outbound(&place, &[first, second], &json!({"services": {SERVICE: spec}}), None);
    // One worker, so that it has all streams.
    let sender = Envoy::start(&place.envoy, place.path(), "sender", &bootstrap, 1).await.unwrap();
    let to = sender.listener("outbound").unwrap();
    let mut streams = open(to).await;
    without.end_streams();
    eventually("no stream at the other", async || (metric(&other, "inbound", "in_flight").await == 0).then_some(()))
        .await;
    // How many of twenty requests go to the server with the streams.
    let share = async || {
        let before = with.served();
        for _ in 0..20 {
            assert_eq!(send(to, request("/x"), "").await.unwrap().body, "ok");
        }
        with.served() - before
    };
    eventually("streams that are not pending", async || (share().await >= 5).then_some(())).await;
    eventually("streams that are pending again", async || {
        let mut any = false;
        for stream in &mut streams {
            any |= stream.message().await;
        }
        assert!(any, "all streams have ended");
        (share().await == 0).then_some(())
    })
    .await;
    eventually("streams that are not pending again", async || (share().await >= 5).then_some(())).await;
    drop(streams);
}
