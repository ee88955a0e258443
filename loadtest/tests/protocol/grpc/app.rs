//! An application: a tonic server that is controlled by a call's first message.
//!
//! A message `hold` is answered when it is released, or when the stream is given up, and `fail CODE
//! TEXT` with that status and metadata of its own. `at NAME fail CODE TEXT` fails at the
//! application of that name only, at once; the others take 20 ms.
//!
//! | method | answers |
//! |---|---|
//! | `Echo` | the message |
//! | `Count` | to `N`, that many messages; to `N fail CODE TEXT`, the status after them |
//! | `Gather` | all messages in one, separated by commas |
//! | `Talk` | each message with one |

use bytes::{Buf, BufMut};
use futures_util::future::BoxFuture;
use futures_util::stream::{BoxStream, StreamExt, unfold};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinHandle;
use tonic::body::Body;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::metadata::{MetadataMap, MetadataValue};
use tonic::server::{ClientStreamingService, Grpc, ServerStreamingService, StreamingService, UnaryService};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Code, Request, Response, Status, Streaming};

/// Messages are plain text.
#[derive(Clone, Copy, Default)]
pub struct Text;

impl Codec for Text {
    type Encode = String;
    type Decode = String;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Text {
    type Item = String;
    type Error = Status;

    fn encode(&mut self, item: String, into: &mut EncodeBuf<'_>) -> Result<(), Status> {
        into.put_slice(item.as_bytes());
        Ok(())
    }
}

impl Decoder for Text {
    type Item = String;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<String>, Status> {
        let bytes = from.copy_to_bytes(from.remaining());
        String::from_utf8(bytes.into()).map(Some).map_err(|error| Status::internal(error.to_string()))
    }
}

/// The application. It ends when this is dropped.
pub struct App {
    pub address: SocketAddr,
    inner: Arc<Inner>,
    stop: oneshot::Sender<()>,
    serving: JoinHandle<()>,
}

/// A call that it has received.
#[derive(Clone, Debug)]
pub struct Call {
    pub method: String,
    pub metadata: MetadataMap,
}

struct Inner {
    name: String,
    calls: Mutex<Vec<Call>>,
    at_once: AtomicUsize,
    most_at_once: AtomicUsize,
    release: Semaphore,
}

impl App {
    pub async fn start(name: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let inner = Arc::new(Inner {
            name: name.into(),
            calls: Mutex::default(),
            at_once: 0.into(),
            most_at_once: 0.into(),
            release: Semaphore::new(0),
        });
        let methods = Methods(Arc::clone(&inner));
        let serving = tokio::spawn(async move {
            let serving = Server::builder().serve_with_incoming(methods, TcpIncoming::from(listener));
            tokio::select! {
                _ = serving => {}
                _ = stopped => {}
            }
        });
        Self { address, inner, stop, serving }
    }

    /// Stops it. Afterwards its port refuses connections. Before that the kernel could still accept
    /// one, and reset it with its call.
    pub async fn stop(self) {
        drop(self.stop);
        self.serving.await.unwrap();
    }

    /// All calls so far.
    pub fn calls(&self) -> Vec<Call> {
        self.inner.calls.lock().unwrap().clone()
    }

    /// How many calls it works on now.
    pub fn at_once(&self) -> usize {
        self.inner.at_once.load(Ordering::SeqCst)
    }

    /// The most calls that it has worked on at once.
    pub fn most_at_once(&self) -> usize {
        self.inner.most_at_once.load(Ordering::SeqCst)
    }

    /// Releases `count` waiting calls.
    pub fn release(&self, count: usize) {
        self.inner.release.add_permits(count);
    }
}

/// The methods, as tonic's server calls them.
#[derive(Clone)]
struct Methods(Arc<Inner>);

impl tower_service::Service<hyper::Request<Body>> for Methods {
    type Response = hyper::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Self::Response, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: hyper::Request<Body>) -> Self::Future {
        let (inner, method) = (Arc::clone(&self.0), request.uri().path().to_owned());
        Box::pin(async move {
            let mut grpc = Grpc::new(Text);
            Ok(match &*method {
                "/test.Calls/Echo" => grpc.unary(Echo(inner), request).await,
                "/test.Calls/Count" => grpc.server_streaming(Count(inner), request).await,
                "/test.Calls/Gather" => grpc.client_streaming(Gather(inner), request).await,
                "/test.Calls/Talk" => grpc.streaming(Talk(inner), request).await,
                other => Status::unimplemented(other).into_http(),
            })
        })
    }
}

/// A call that the application works on.
struct Working(Arc<Inner>);

impl Working {
    fn begin<T>(inner: &Arc<Inner>, method: &str, request: &Request<T>) -> Self {
        inner.calls.lock().unwrap().push(Call { method: method.into(), metadata: request.metadata().clone() });
        let now = inner.at_once.fetch_add(1, Ordering::SeqCst) + 1;
        inner.most_at_once.fetch_max(now, Ordering::SeqCst);
        Self(Arc::clone(inner))
    }

    /// Executes the command in this message, if there is one.
    async fn obey(&self, message: &str) -> Result<(), Status> {
        if message == "hold" {
            self.0.release.acquire().await.unwrap().forget();
        }
        let message = match message.strip_prefix("at ").and_then(|rest| rest.split_once(' ')) {
            Some((name, rest)) if name == self.0.name => rest,
            Some(_) => {
                tokio::time::sleep(Duration::from_millis(20)).await;
                ""
            }
            None => message,
        };
        match message.strip_prefix("fail ") {
            Some(status) => Err(status_of(status)),
            None => Ok(()),
        }
    }

    fn answer<T>(&self, answer: T) -> Response<T> {
        let mut response = Response::new(answer);
        response.metadata_mut().insert("x-app", self.0.name.parse().unwrap());
        response
    }
}

impl Drop for Working {
    fn drop(&mut self) {
        self.0.at_once.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The status of `CODE TEXT`.
fn status_of(text: &str) -> Status {
    let (code, message) = text.split_once(' ').unwrap();
    let mut metadata = MetadataMap::new();
    metadata.insert("x-own", MetadataValue::from_static("its own"));
    metadata.insert_bin("x-own-bin", MetadataValue::from_bytes(&[0, 255, 10, 13]));
    Status::with_details_and_metadata(Code::from_bytes(code.as_bytes()), message, vec![0, 1, 254].into(), metadata)
}

type Messages = BoxStream<'static, Result<String, Status>>;
type Answer<T> = BoxFuture<'static, Result<Response<T>, Status>>;

struct Echo(Arc<Inner>);

impl UnaryService<String> for Echo {
    type Response = String;
    type Future = Answer<String>;

    fn call(&mut self, request: Request<String>) -> Self::Future {
        let working = Working::begin(&self.0, "Echo", &request);
        Box::pin(async move {
            let message = request.into_inner();
            working.obey(&message).await?;
            Ok(working.answer(message))
        })
    }
}

struct Count(Arc<Inner>);

impl ServerStreamingService<String> for Count {
    type Response = String;
    type ResponseStream = Messages;
    type Future = Answer<Messages>;

    fn call(&mut self, request: Request<String>) -> Self::Future {
        let working = Working::begin(&self.0, "Count", &request);
        Box::pin(async move {
            let message = request.into_inner();
            let (count, then) = message.split_once(' ').unwrap_or((&message, ""));
            let (count, then): (usize, String) = (count.parse().unwrap(), then.into());
            let answer = working.answer(());
            let messages = unfold((0, working), move |(n, working)| {
                let then = then.clone();
                async move {
                    if n < count {
                        return Some((Ok(n.to_string()), (n + 1, working)));
                    }
                    let status = if n == count { working.obey(&then).await.err()? } else { return None };
                    Some((Err(status), (n + 1, working)))
                }
            });
            Ok(answer.map(|()| messages.boxed()))
        })
    }
}

struct Gather(Arc<Inner>);

impl ClientStreamingService<String> for Gather {
    type Response = String;
    type Future = Answer<String>;

    fn call(&mut self, request: Request<Streaming<String>>) -> Self::Future {
        let working = Working::begin(&self.0, "Gather", &request);
        Box::pin(async move {
            let (mut messages, mut all) = (request.into_inner(), Vec::new());
            while let Some(message) = messages.message().await? {
                working.obey(&message).await?;
                all.push(message);
            }
            Ok(working.answer(all.join(",")))
        })
    }
}

struct Talk(Arc<Inner>);

impl StreamingService<String> for Talk {
    type Response = String;
    type ResponseStream = Messages;
    type Future = Answer<Messages>;

    fn call(&mut self, request: Request<Streaming<String>>) -> Self::Future {
        let working = Working::begin(&self.0, "Talk", &request);
        Box::pin(async move {
            let answer = working.answer(());
            let messages = unfold(Some((request.into_inner(), working)), |state| async {
                let (mut messages, working) = state?;
                let message = messages.message().await.transpose()?;
                let answered = match message {
                    Ok(message) => working.obey(&message).await.map(|()| format!("re: {message}")),
                    Err(status) => Err(status),
                };
                let goes_on = answered.is_ok();
                Some((answered, goes_on.then_some((messages, working))))
            });
            Ok(answer.map(|()| messages.boxed()))
        })
    }
}
