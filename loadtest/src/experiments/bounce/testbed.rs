//! The sender, the servers, and the requests that keep three of them busy.

use super::figures::{Bounces, Samples};
use super::plan::{BUSY, HELD, Kind, Plan};
use crate::case::cpu_time;
use bloc_figures::service_time::ServiceTime;
use bloc_mesh::backend::Backend;
use bloc_mesh::envoy::{
    Balancing, Certificates, Envoy, EnvoyError, Outbound, Plugin, SERVICE, sidecar_inbound, sidecar_outbound,
    speak_http2,
};
use bloc_mesh::policy::Policy;
use bloc_mesh::{Tools, ToolsMissing};
use bloc_policy::config::{PluginSpec, RoutingKind, ServiceSpec};
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Method, Request, StatusCode, header};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};

const LIMIT: Duration = Duration::from_secs(20);
/// Requests before each block that do not count. In them the sender's mean learns that servers are
/// busy, or idle again.
const SETTLING: usize = 50;
/// The listener that keeps a server busy.
const PLAIN: &str = "busy";
/// The header in which Envoy reports the number of attempts.
const ATTEMPTS_HEADER: &str = "x-envoy-attempt-count";

/// Why nothing was measured.
#[derive(Debug, thiserror::Error)]
pub enum BounceError {
    /// A program is missing.
    #[error(transparent)]
    Tools(#[from] ToolsMissing),
    /// An Envoy failed.
    #[error(transparent)]
    Envoy(#[from] EnvoyError),
    /// A socket or a directory failed.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// No certificate could be made.
    #[error("certificates: {0}")]
    Certificates(#[from] rcgen::Error),
    /// A request failed.
    #[error("a request broke off: {0}")]
    Http(#[from] hyper::Error),
    /// A request got another status.
    #[error("a request was answered {0}, or without {ATTEMPTS_HEADER}")]
    Answer(StatusCode),
    /// A request was not answered.
    #[error("no answer within {LIMIT:?}")]
    Late,
    /// The requests that should keep a server busy do not arrive.
    #[error("the servers have {0:?} requests inside instead of {HELD} each after {LIMIT:?}")]
    NotBusy(Vec<u64>),
}

/// The running sender and servers.
#[derive(Debug)]
pub struct Stand {
    sender: Envoy,
    servers: Vec<Envoy>,
    client: SendRequest<Full<Bytes>>,
    body: Option<Bytes>,
    held: Vec<TcpStream>,
    /// Applications and the client's connection; dropping this ends them.
    _tasks: JoinSet<()>,
}

impl Stand {
    /// Starts everything; files and logs go to `directory`. Before a retry the sender waits as
    /// [`BACK_OFF`](bloc_mesh::envoy::BACK_OFF) says, but at most as long as `kind` allows.
    ///
    /// # Errors
    /// Something is missing or does not start.
    pub async fn start(tools: &Tools, directory: &Path, kind: Kind) -> Result<Self, BounceError> {
        tools.need(Policy::Bid, false)?;
        std::fs::create_dir_all(directory)?;
        let certificates = if kind.tls { Some(Certificates::new()?) } else { None };
        let mut tasks = JoinSet::new();
        let mut servers = Vec::new();
        for n in 0..=BUSY {
            let listener = TcpListener::bind("127.0.0.1:0").await?;
            let address = listener.local_addr()?;
            let time = ServiceTime::Fixed(Duration::from_millis(1));
            tasks.spawn(Backend::new(&format!("backend-{n}"), time, 1, 1.0, 1).serve(listener));
            let mut bootstrap = sidecar_inbound(address, Some(&plugin(tools, None)));
            let listeners = &mut bootstrap["static_resources"]["listeners"];
            // The listener that keeps the server busy.
            let mut plain = listeners[0].clone();
            plain["name"] = json!(PLAIN);
            if let Some(certificates) = &certificates {
                certificates.require(&mut listeners[0]);
            }
            if let Some(listeners) = listeners.as_array_mut() {
                listeners.push(plain);
            }
            servers.push(Envoy::start(&tools.envoy, directory, &format!("server-{n}"), &bootstrap, 1).await?);
        }
        let endpoints = listeners(&servers, "inbound")?;
        let plugin = plugin(tools, Some(&endpoints));
        let balancing = Balancing::ChosenByFilter;
        let mut bootstrap =
            sidecar_outbound(&Outbound { cluster: SERVICE, endpoints: &endpoints, balancing, plugin: Some(&plugin) });
        let cluster = &mut bootstrap["static_resources"]["clusters"][0];
        if kind.http2 {
            speak_http2(cluster);
        }
        if let Some(certificates) = &certificates {
            certificates.present(cluster);
        }
        let manager =
            &mut bootstrap["static_resources"]["listeners"][0]["filter_chains"][0]["filters"][0]["typed_config"];
        manager["route_config"]["virtual_hosts"][0]["include_attempt_count_in_response"] = json!(true);
        let back_off = &mut manager["route_config"]["virtual_hosts"][0]["routes"][0]["route"]["retry_policy"];
        back_off["retry_back_off"]["max_interval"] = json!(format!("{:.3}s", kind.max_back_off.as_secs_f64()));
        let sender = Envoy::start(&tools.envoy, directory, "sender", &bootstrap, 1).await?;
        let stream = TcpStream::connect(sender.listener("outbound")?).await?;
        stream.set_nodelay(true)?;
        let (client, connection) = handshake(TokioIo::new(stream)).await?;
        tasks.spawn(async move {
            let _ = connection.await;
        });
        let body = kind.body.map(|size| Bytes::from(vec![b'x'; size]));
        Ok(Self { sender, servers, client, body, held: Vec::new(), _tasks: tasks })
    }

    /// Sends requests, in blocks with and without busy servers in turn. `progress` gets the number
    /// of each round.
    ///
    /// # Errors
    /// A request fails, or the servers do not get busy.
    pub async fn measure(&mut self, plan: Plan, mut progress: impl FnMut(usize)) -> Result<Bounces, BounceError> {
        let mut bounces = Bounces::default();
        // Servers report how long they take once they have served something.
        for _ in 0..SETTLING {
            self.request().await?;
        }
        for round in 0..plan.rounds {
            // Each kind of block goes first equally often.
            for busy in [round % 2 == 0, round % 2 != 0] {
                self.keep_busy(busy).await?;
                for _ in 0..SETTLING {
                    self.request().await?;
                }
                let samples = self.block(plan).await?;
                if busy { bounces.busy.add(samples) } else { bounces.idle.add(samples) }
            }
            progress(round + 1);
        }
        self.held.clear();
        Ok(bounces)
    }

    /// Ends it.
    pub async fn end(self) {
        drop(self.held);
        self.sender.end().await;
        for server in self.servers {
            server.end().await;
        }
    }

    async fn block(&mut self, plan: Plan) -> Result<Samples, BounceError> {
        let (sender, servers) = (ids([&mut self.sender]), ids(&mut self.servers));
        let before = (cpu_time(&sender), cpu_time(&servers), self.connections().await?);
        let mut times: BTreeMap<u32, Vec<Duration>> = BTreeMap::new();
        for _ in 0..plan.block {
            let began = Instant::now();
            let attempts = self.request().await?;
            times.entry(attempts.saturating_sub(1)).or_default().push(began.elapsed());
            if !plan.pause.is_zero() {
                sleep(plan.pause).await;
            }
        }
        let sender_cpu = cpu_time(&sender).saturating_sub(before.0);
        let server_cpu = cpu_time(&servers).saturating_sub(before.1);
        let connections = self.connections().await?.saturating_sub(before.2);
        Ok(Samples { times, sender_cpu, server_cpu, connections })
    }

    /// How many connections the sender has opened to servers so far.
    async fn connections(&self) -> Result<u64, EnvoyError> {
        let name = format!("cluster.{SERVICE}.upstream_cx_total");
        Ok(self.sender.stats(&name).await?.get(&name).copied().unwrap_or_default())
    }

    /// Sends one request. Returns the number of its attempts.
    async fn request(&mut self) -> Result<u32, BounceError> {
        let mut request = Request::new(Full::new(self.body.clone().unwrap_or_default()));
        if self.body.is_some() {
            *request.method_mut() = Method::POST;
        }
        *request.uri_mut() = hyper::Uri::from_static("/cost/0");
        request.headers_mut().insert(header::HOST, header::HeaderValue::from_static("backend.mesh"));
        let exchange = async {
            self.client.ready().await?;
            let (head, body) = self.client.send_request(request).await?.into_parts();
            body.collect().await?;
            Ok::<_, hyper::Error>(head)
        };
        let head = timeout(LIMIT, exchange).await.map_err(|_| BounceError::Late)??;
        let attempts = head.headers.get(ATTEMPTS_HEADER).and_then(|value| value.to_str().ok()?.parse().ok());
        attempts.filter(|_| head.status == StatusCode::OK).ok_or(BounceError::Answer(head.status))
    }

    /// Fills all servers but one with requests that do not end, or removes these.
    async fn keep_busy(&mut self, busy: bool) -> Result<(), BounceError> {
        if !busy {
            self.held.clear();
        } else if self.held.is_empty() {
            for address in &listeners(&self.servers, PLAIN)?[..BUSY] {
                for _ in 0..HELD {
                    let mut stream = TcpStream::connect(address).await?;
                    // The application waits for the body, which never arrives.
                    stream.write_all(b"POST / HTTP/1.1\r\nhost: backend.mesh\r\ncontent-length: 1\r\n\r\n").await?;
                    self.held.push(stream);
                }
            }
        }
        let expected = if busy { HELD as u64 } else { 0 };
        let deadline = Instant::now() + LIMIT;
        loop {
            let mut inside = Vec::new();
            let name = format!("wasmcustom.bloc.inbound.{SERVICE}.in_flight");
            for server in &self.servers[..BUSY] {
                inside.push(server.stats(&name).await?.get(&name).copied().unwrap_or_default());
            }
            if inside.iter().all(|&requests| requests == expected) {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(BounceError::NotBusy(inside));
            }
            sleep(Duration::from_millis(20)).await;
        }
    }
}

fn plugin(tools: &Tools, endpoints: Option<&[SocketAddr]>) -> Plugin {
    let spec = ServiceSpec {
        routing: Some(RoutingKind::Bid),
        concurrency: Some(1),
        hold: Some(false),
        endpoints: endpoints.map(|addresses| addresses.iter().map(ToString::to_string).collect()),
        ..ServiceSpec::default()
    };
    let configuration = PluginSpec {
        service: endpoints.is_none().then(|| SERVICE.to_owned()),
        services: BTreeMap::from([(SERVICE.to_owned(), spec)]),
        control_plane: None,
        ..PluginSpec::default()
    };
    let configuration: Value = json!(configuration);
    Plugin { module: tools.module.clone(), configuration: configuration.to_string(), control_plane: None }
}

fn listeners(servers: &[Envoy], name: &str) -> Result<Vec<SocketAddr>, EnvoyError> {
    servers.iter().map(|server| server.listener(name)).collect()
}

fn ids<'a>(envoys: impl IntoIterator<Item = &'a mut Envoy>) -> Vec<u32> {
    envoys.into_iter().filter_map(|envoy| envoy.process().id()).collect()
}
