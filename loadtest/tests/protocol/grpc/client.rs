//! A caller: a tonic client with two connections, one for each worker of the sidecar that it calls.

use super::app::Text;
use crate::support::PATIENCE;
use futures_util::Stream;
use futures_util::stream::{iter, poll_fn};
use hyper::header::HeaderMap;
use hyper::http::uri::PathAndQuery;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status, Streaming};

/// The kinds of calls, by the method that is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Echo,
    Count,
    Gather,
    Talk,
}

impl Kind {
    pub const ALL: [Self; 4] = [Self::Echo, Self::Count, Self::Gather, Self::Talk];

    fn path(self) -> PathAndQuery {
        format!("/test.Calls/{self:?}").parse().unwrap()
    }
}

/// The result of a call.
pub type Outcome = Result<Answered, Status>;

/// A call that was answered.
#[derive(Debug)]
pub struct Answered {
    pub messages: Vec<String>,
    /// The headers and trailers.
    pub metadata: HeaderMap,
}

impl Answered {
    /// The name of the application that answered.
    pub fn app(&self) -> &str {
        self.metadata.get("x-app").expect("an application's answer").to_str().unwrap()
    }
}

/// A caller. It uses its connections in turn.
#[derive(Clone)]
pub struct Client {
    channels: [Channel; 2],
    calls: Arc<AtomicUsize>,
}

impl Client {
    pub async fn connect(to: SocketAddr) -> Self {
        let endpoint = Endpoint::from_shared(format!("http://{to}")).unwrap();
        // One after the other, so that each worker of an exactly balanced listener gets one.
        let channels = [endpoint.connect().await.unwrap(), endpoint.connect().await.unwrap()];
        Self { channels, calls: Arc::default() }
    }

    /// Calls the method of this kind with these messages (at most one, unless it streams them), and
    /// waits for the whole answer.
    pub async fn call(&self, kind: Kind, messages: &[&str]) -> Outcome {
        self.call_with(kind, Request::new(messages.iter().map(ToString::to_string).collect())).await
    }

    /// The same with metadata.
    pub async fn call_with(&self, kind: Kind, request: Request<Vec<String>>) -> Outcome {
        let call = async {
            let mut grpc = self.ready().await;
            let alone = |mut messages: Vec<String>| messages.pop().unwrap();
            match kind {
                Kind::Echo => one(grpc.unary(request.map(alone), kind.path(), Text).await?),
                Kind::Gather => one(grpc.client_streaming(request.map(iter), kind.path(), Text).await?),
                Kind::Count => all(grpc.server_streaming(request.map(alone), kind.path(), Text).await?).await,
                Kind::Talk => all(grpc.streaming(request.map(iter), kind.path(), Text).await?).await,
            }
        };
        timeout(PATIENCE, call).await.unwrap_or_else(|_| panic!("no answer to {kind:?} within {PATIENCE:?}"))
    }

    /// A call that is held in the application until it is released.
    pub fn hold(&self) -> JoinHandle<Outcome> {
        self.begin(Kind::Echo, &["hold"])
    }

    /// The same as [`Self::call`] in a task. Aborting the task gives the call up.
    pub fn begin(&self, kind: Kind, messages: &[&str]) -> JoinHandle<Outcome> {
        let (client, messages) = (self.clone(), messages.iter().map(ToString::to_string).collect());
        tokio::spawn(async move { client.call_with(kind, Request::new(messages)).await })
    }

    /// Begins a `Talk`: the sender of further messages, and the answer once it has begun.
    pub fn talk(
        &self,
        first: &[&str],
    ) -> (UnboundedSender<String>, impl Future<Output = Result<Response<Streaming<String>>, Status>> + use<>) {
        let (messages, all) = unbounded_channel();
        first.iter().for_each(|message| messages.send((*message).to_owned()).unwrap());
        (messages, self.clone().stream(Kind::Talk, received(all)))
    }

    async fn stream(
        self,
        kind: Kind,
        messages: impl Stream<Item = String> + Send + 'static,
    ) -> Result<Response<Streaming<String>>, Status> {
        self.ready().await.streaming(Request::new(messages), kind.path(), Text).await
    }

    async fn ready(&self) -> Grpc<Channel> {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        let mut grpc = Grpc::new(self.channels[call % self.channels.len()].clone());
        grpc.ready().await.unwrap();
        grpc
    }
}

/// The next message of a stream that continues.
pub async fn next(messages: &mut Streaming<String>) -> Option<String> {
    timeout(PATIENCE, messages.message()).await.expect("a message in time").expect("no error")
}

/// The keys that belong to BLOC.
pub fn ours(metadata: &HeaderMap) -> Vec<String> {
    metadata.keys().map(ToString::to_string).filter(|key| key.starts_with("x-bloc")).collect()
}

fn received(mut all: UnboundedReceiver<String>) -> impl Stream<Item = String> {
    poll_fn(move |context| all.poll_recv(context))
}

fn one(response: Response<String>) -> Outcome {
    let (metadata, message, _) = response.into_parts();
    Ok(Answered { messages: vec![message], metadata: metadata.into_headers() })
}

async fn all(response: Response<Streaming<String>>) -> Outcome {
    let (metadata, mut stream, _) = response.into_parts();
    let (mut metadata, mut messages) = (metadata.into_headers(), Vec::new());
    while let Some(message) = stream.message().await? {
        messages.push(message);
    }
    if let Some(trailers) = stream.trailers().await? {
        metadata.extend(trailers.into_headers());
    }
    Ok(Answered { messages, metadata })
}
