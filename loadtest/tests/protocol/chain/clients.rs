//! Clients that send one request after the other, and what each received.

use super::application::{APPLICATION, NUMBER, STATUS};
use super::combinations::{Payload, Protocol};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::{http1, http2};
use hyper::{Method, Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::net::SocketAddr;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

pub const CLIENTS: usize = 6;
/// How long an answer may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);
const MEGABYTE: usize = 1 << 20;
/// The longest body. The others are parts of it, each from another start.
static BYTES: LazyLock<Bytes> = LazyLock::new(|| {
    let mut random = fastrand::Rng::with_seed(19);
    std::iter::repeat_with(|| random.u8(..)).take(4 * MEGABYTE + 1024).collect::<Vec<_>>().into()
});

/// The results of requests.
#[derive(Debug, Default)]
pub struct Tally {
    /// The numbers of those that the application answered as requested.
    pub served: Vec<u64>,
    /// Those that the filters rejected with 429: their numbers, and whether the body was a long
    /// one.
    pub rejected: Vec<(u64, bool)>,
    /// Those with a long body that Envoy itself gave up: it was about to send one again after a
    /// rejection, but then more of the body arrived than it buffers.
    pub too_long: Vec<u64>,
    /// All other results.
    pub wrong: Vec<String>,
}

impl Tally {
    /// The number of requests.
    pub fn requests(&self) -> u64 {
        (self.served.len() + self.rejected.len() + self.too_long.len() + self.wrong.len()) as u64
    }

    /// Both tallies together.
    pub fn and(mut self, other: Self) -> Self {
        self.served.extend(other.served);
        self.rejected.extend(other.rejected);
        self.too_long.extend(other.too_long);
        self.wrong.extend(other.wrong);
        self
    }
}

/// A request, and the answer to expect.
struct Case {
    number: u64,
    status: &'static str,
    body: Bytes,
}

impl Case {
    fn next(payload: Payload) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(1);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let length = match payload {
            Payload::Nothing => 0,
            Payload::Kilobyte => 1000,
            Payload::HundredKilobytes => 100_000,
            Payload::FourMegabytes if number.is_multiple_of(8) => 4 * MEGABYTE,
            Payload::FourMegabytes => 1000,
        };
        let from = usize::try_from(number % 1024).unwrap();
        // The application's own 429 and 503, too, which must not be sent again.
        let status = match number % 16 {
            1 => "429",
            2 => "503",
            3 => "404",
            _ => "200",
        };
        Self { number, status, body: BYTES.slice(from..from + length) }
    }

    fn request(&self, protocol: Protocol) -> Request<Full<Bytes>> {
        let method = if self.body.is_empty() { Method::GET } else { Method::POST };
        let uri = if protocol == Protocol::Http2 { "http://backend/" } else { "/" };
        let request = Request::builder().method(method).uri(uri).header(NUMBER, self.number);
        let request = if protocol == Protocol::Http2 { request } else { request.header("host", "backend") };
        request.header(STATUS, self.status).body(Full::new(self.body.clone())).unwrap()
    }

    fn judge(&self, tally: &mut Tally, answer: Result<(Response<()>, Bytes), String>) {
        let number = self.number;
        let (head, body) = match answer {
            Ok(answer) => answer,
            Err(why) => return tally.wrong.push(format!("{number} with {} bytes: {why}", self.body.len())),
        };
        let ours: Vec<_> = head.headers().keys().filter(|name| name.as_str().starts_with("x-bloc")).collect();
        let is_applications = head.headers().contains_key(APPLICATION);
        if !ours.is_empty() {
            tally.wrong.push(format!("{number}: headers {ours:?}"));
        } else if is_applications && head.status().as_str() == self.status && body == self.body {
            tally.served.push(number);
        } else if !is_applications && head.status() == 429 && body.is_empty() {
            tally.rejected.push((number, self.body.len() > MEGABYTE));
        } else if !is_applications && head.status() == 507 && self.body.len() > MEGABYTE {
            tally.too_long.push(number);
        } else {
            let body = String::from_utf8_lossy(&body[..body.len().min(100)]).into_owned();
            tally.wrong.push(format!("{number} with {} bytes: {head:?} {body}", self.body.len()));
        }
    }
}

/// A client's connection.
enum Connection {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

impl Connection {
    async fn open(to: SocketAddr, protocol: Protocol) -> Result<Self, String> {
        let stream = TcpStream::connect(to).await.map_err(|error| error.to_string())?;
        stream.set_nodelay(true).unwrap();
        let stream = TokioIo::new(stream);
        if protocol == Protocol::Http2 {
            let (sender, connection) =
                http2::handshake(TokioExecutor::new(), stream).await.map_err(|error| error.to_string())?;
            tokio::spawn(connection);
            Ok(Self::Http2(sender))
        } else {
            let (sender, connection) = http1::handshake(stream).await.map_err(|error| error.to_string())?;
            tokio::spawn(connection);
            Ok(Self::Http1(sender))
        }
    }

    async fn is_open(&mut self) -> bool {
        match self {
            Self::Http1(sender) => sender.ready().await.is_ok(),
            Self::Http2(sender) => sender.ready().await.is_ok(),
        }
    }

    async fn send(&mut self, request: Request<Full<Bytes>>) -> Result<(Response<()>, Bytes), String> {
        let answer: hyper::Result<Response<Incoming>> = match self {
            Self::Http1(sender) => sender.send_request(request).await,
            Self::Http2(sender) => sender.send_request(request).await,
        };
        let (head, body) = answer.map_err(|error| format!("{error:?}"))?.into_parts();
        let body = body.collect().await.map_err(|error| format!("{error:?}"))?.to_bytes();
        Ok((Response::from_parts(head, ()), body))
    }
}

/// Clients that keep their connections.
pub struct Clients {
    to: SocketAddr,
    protocol: Protocol,
    idle: Vec<Connection>,
}

impl Clients {
    pub async fn connect(to: SocketAddr, protocol: Protocol) -> Self {
        let mut idle = Vec::new();
        for _ in 0..CLIENTS {
            idle.push(Connection::open(to, protocol).await.unwrap());
        }
        Self { to, protocol, idle }
    }

    /// Each client sends its share of `requests`, one after the other.
    pub async fn send(&mut self, requests: usize, payload: Payload) -> Tally {
        let mut clients = JoinSet::new();
        for mut connection in self.idle.drain(..) {
            let (to, protocol) = (self.to, self.protocol);
            clients.spawn(async move {
                let mut tally = Tally::default();
                for _ in 0..requests.div_ceil(CLIENTS) {
                    one(&mut connection, to, protocol, payload, &mut tally).await;
                }
                (tally, connection)
            });
        }
        let mut all = Tally::default();
        while let Some(client) = clients.join_next().await {
            let (tally, connection) = client.unwrap();
            all = all.and(tally);
            self.idle.push(connection);
        }
        all
    }

    /// Sends one request on each connection, one after the other, so that each thread hands its
    /// earlier counts to Envoy.
    pub async fn nudge(&mut self) -> Tally {
        let mut tally = Tally::default();
        for connection in &mut self.idle {
            one(connection, self.to, self.protocol, Payload::Nothing, &mut tally).await;
        }
        tally
    }
}

async fn one(connection: &mut Connection, to: SocketAddr, protocol: Protocol, payload: Payload, tally: &mut Tally) {
    // Envoy closes a connection when it answered a request before the request's end.
    if !connection.is_open().await {
        *connection = Connection::open(to, protocol).await.unwrap();
    }
    let case = Case::next(payload);
    let answer = timeout(PATIENCE, connection.send(case.request(protocol))).await;
    case.judge(tally, answer.unwrap_or_else(|_| Err(format!("no answer within {PATIENCE:?}"))));
}
