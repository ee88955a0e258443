//! Event streams and a WebSocket, through real Envoys: idle ones do not count as work.

use crate::support::{PATIENCE, Place, eventually, inbound, metric, request, send};
use bloc_mesh::envoy::{Envoy, SERVICE};
use serde_json::json;
use std::net::SocketAddr;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::time::timeout;

const STREAMS: usize = 50;
const EVENT: &str = "event\r\n";

/// An application: `/events/N` begins its answer at once, and sends an event whenever N is
/// announced; `/socket` does the same after an upgrade; anything else is answered at once.
async fn application() -> (SocketAddr, watch::Sender<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (announce, announced) = watch::channel(usize::MAX);
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(serve(stream, announced.clone()));
        }
    });
    (address, announce)
}

async fn serve(stream: TcpStream, mut announced: watch::Receiver<usize>) -> Option<()> {
    let (reader, mut writer) = stream.into_split();
    let mut lines = BufReader::new(reader).lines();
    loop {
        let first = lines.next_line().await.ok()??;
        while !lines.next_line().await.ok()??.is_empty() {}
        let path = first.split(' ').nth(1)?.to_owned();
        let number = match path.strip_prefix("/events/") {
            _ if path == "/socket" => {
                let head = "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n";
                writer.write_all(head.as_bytes()).await.ok()?;
                STREAMS
            }
            Some(number) => {
                let head = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n";
                writer.write_all(head.as_bytes()).await.ok()?;
                number.parse().ok()?
            }
            None => {
                writer.write_all(b"HTTP/1.1 200 OK\r\nx-app: pod\r\ncontent-length: 0\r\n\r\n").await.ok()?;
                continue;
            }
        };
        loop {
            announced.changed().await.ok()?;
            if *announced.borrow_and_update() == number {
                let event = if number == STREAMS { EVENT.to_owned() } else { format!("7\r\n{EVENT}\r\n") };
                writer.write_all(event.as_bytes()).await.ok()?;
            }
        }
    }
}

/// An open stream, whose answer has begun.
async fn open(to: SocketAddr, path: &str, extra: &str) -> BufReader<TcpStream> {
    let mut stream = BufReader::new(TcpStream::connect(to).await.unwrap());
    let head = format!("GET {path} HTTP/1.1\r\nhost: backend\r\n{extra}\r\n");
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        timeout(PATIENCE, stream.read_line(&mut line)).await.expect("an answer").unwrap();
        assert!(!line.is_empty(), "the connection was closed");
    }
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn event_streams_and_websockets_count_only_while_they_carry_data() {
    let place = Place::new();
    let (app, announce) = application().await;
    let spec = json!({"concurrency": STREAMS + 1, "hold": true, "streamIdle": "200ms"});
    let configuration = json!({"service": SERVICE, "services": {SERVICE: spec}});
    let mut bootstrap = inbound(&place, app, &configuration, None);
    let manager = &mut bootstrap["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"];
    manager["upgrade_configs"] = json!([{"upgrade_type": "websocket"}]);
    manager["route_config"]["virtual_hosts"][0]["routes"][0]["route"]["timeout"] = json!("0s");
    let sidecar = Envoy::start(&place.envoy, place.path(), "pod", &bootstrap, 2).await.unwrap();
    let to = sidecar.listener("inbound").unwrap();
    let in_flight = async || metric(&sidecar, "inbound", "in_flight").await;
    let mut streams = Vec::new();
    for number in 0..STREAMS {
        streams.push(open(to, &format!("/events/{number}"), "").await);
    }
    streams.push(open(to, "/socket", "upgrade: websocket\r\nconnection: upgrade\r\n").await);
    // Each had a slot until it was idle, so this request gets one.
    let answer = send(to, request("/x"), "").await.expect("an answer");
    assert_eq!(answer.app(), Some("pod"));
    eventually("a server that counts none", async || (in_flight().await == 0).then_some(())).await;

    for number in [0, STREAMS] {
        let counted = eventually("a stream that counts again", async || {
            announce.send_replace(number);
            Some(in_flight().await).filter(|count| *count > 0)
        });
        assert_eq!(counted.await, 1, "stream {number}");
        let mut line = String::new();
        while line != EVENT {
            line.clear();
            timeout(PATIENCE, streams[number].read_line(&mut line)).await.expect("an event").unwrap();
        }
        eventually("a server that counts none", async || (in_flight().await == 0).then_some(())).await;
    }

    // Half of them end while they are idle, and one while it counts.
    streams.truncate(STREAMS / 2);
    eventually("a stream that counts again", async || {
        announce.send_replace(1);
        (in_flight().await == 1).then_some(())
    })
    .await;
    drop(streams);
    for _ in 0..10 {
        assert_eq!(send(to, request("/x"), "").await.expect("an answer").app(), Some("pod"));
    }
    eventually("an empty server", async || (in_flight().await == 0).then_some(())).await;
    let held = metric(&sidecar, "inbound", "in_flight_recount").await;
    assert_eq!(held, 0, "no recount was needed");
}
