//! The HTTP server (HTTP/1.1, and HTTP/2 without TLS).
//!
//! Every request waits for its place and for its service time, or uses CPU for that time (and gets
//! status 503 if too many wait already). Then it gets a small body that names the backend, and the
//! header `x-app`, which tells an application's answer from a proxy's. These requests differ:
//!
//! | request | effect |
//! |---|---|
//! | header `x-cost: 2.5` or path `/cost/2.5` | service time times 2.5; 0 to 100, otherwise 400 |
//! | path `/status/429` | answers with that status (200 to 599, otherwise 400) |
//! | path `/echo` | answers with the body of the request |
//! | `POST /admin/speed/0.5` | from now on service times are divided by this; 0.01 to 100, otherwise 400; answered at once |
//! | `POST /admin/behaviour/failing` | from now on it answers with status 500, at once; `cutting`: it cuts answers off in the middle; `normal`: neither; otherwise 400 |
//! | `POST /admin/seed/7` | from now on service times are drawn from this seed; 0 to 2^64 - 1, otherwise 400 |
//! | path `/headers` | answers with the request's headers, one `name: value` a line |

use super::{Burner, Places};
use crate::quantity::number;
use bloc_figures::service_time::ServiceTime;
use futures_util::future::ready;
use futures_util::{StreamExt, stream};
use http_body_util::{BodyExt, Full, StreamBody, combinators::BoxBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode, header};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::time::sleep;

/// The response header that names the application.
pub const APP_HEADER: &str = "x-app";
/// The request header that multiplies the service time.
pub const COST_HEADER: &str = "x-cost";

/// One application instance.
#[derive(Debug)]
pub struct Backend {
    name: String,
    service_time: ServiceTime,
    speed: Mutex<f64>,
    behaviour: Mutex<Behaviour>,
    work: Work,
    rng: Mutex<StdRng>,
}

/// How the service time of a request passes.
#[derive(Debug)]
enum Work {
    Wait(Arc<Places>),
    Burn(Burner),
}

/// How an application treats its requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Behaviour {
    /// Answers them.
    Normal,
    /// Answers with status 500 at once, like an application whose database is gone.
    Failing,
    /// Cuts each answer off in the middle.
    Cutting,
}

impl Behaviour {
    /// Its name in a path.
    pub fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Failing => "failing",
            Self::Cutting => "cutting",
        }
    }

    fn named(name: &str) -> Option<Self> {
        [Self::Normal, Self::Failing, Self::Cutting].into_iter().find(|behaviour| behaviour.name() == name)
    }
}

/// The time between the first half of an answer and the cut.
const HALF: Duration = Duration::from_millis(5);

type Body = BoxBody<Bytes, io::Error>;

/// The body of an ordinary answer of the backend `name`.
pub fn answer(name: &str) -> String {
    format!("served by {name}\n")
}

impl Backend {
    /// A backend that serves `concurrency` requests at once, each in a `service_time` divided by
    /// `speed`.
    pub fn new(name: &str, service_time: ServiceTime, concurrency: usize, speed: f64, seed: u64) -> Arc<Self> {
        Self::working(name, service_time, Work::Wait(Places::new(concurrency)), speed, seed)
    }

    /// A backend whose requests burn a CPU time on one of so many threads. So many more wait for
    /// one; it answers 503 to all others.
    pub fn burning(name: &str, cpu_time: ServiceTime, [threads, queue]: [usize; 2], seed: u64) -> Arc<Self> {
        Self::working(name, cpu_time, Work::Burn(Burner::new(threads, queue)), 1.0, seed)
    }

    fn working(name: &str, service_time: ServiceTime, work: Work, speed: f64, seed: u64) -> Arc<Self> {
        let rng = Mutex::new(StdRng::seed_from_u64(seed));
        let (speed, behaviour) = (Mutex::new(speed), Mutex::new(Behaviour::Normal));
        Arc::new(Self { name: name.to_owned(), service_time, speed, behaviour, work, rng })
    }

    /// Serves until the task is dropped.
    pub async fn serve(self: Arc<Self>, listener: TcpListener) {
        loop {
            // Only one connection fails here (or file descriptors run short for a moment), not the
            // server.
            let Ok((stream, _)) = listener.accept().await else {
                tokio::task::yield_now().await;
                continue;
            };
            let _ = stream.set_nodelay(true);
            let backend = Arc::clone(&self);
            tokio::spawn(async move {
                let service = service_fn(move |request| {
                    let backend = Arc::clone(&backend);
                    async move { Ok::<_, Infallible>(backend.respond(request).await) }
                });
                let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
            });
        }
    }

    async fn respond(&self, request: Request<Incoming>) -> Response<Body> {
        let (parts, body) = request.into_parts();
        let path = parts.uri.path();
        if let (&Method::POST, Some(speed)) = (&parts.method, path.strip_prefix("/admin/speed/")) {
            return self.change_speed(speed);
        }
        if let (&Method::POST, Some(behaviour)) = (&parts.method, path.strip_prefix("/admin/behaviour/")) {
            return self.change_behaviour(behaviour);
        }
        if let (&Method::POST, Some(seed)) = (&parts.method, path.strip_prefix("/admin/seed/")) {
            return self.change_seed(seed);
        }
        let cost = match parts.headers.get(COST_HEADER) {
            Some(value) => value.to_str().ok(),
            None => Some(path.strip_prefix("/cost/").unwrap_or("1")),
        };
        let Some(cost) = cost.and_then(|text| text.parse().ok()).filter(|cost| (0.0..=100.0).contains(cost)) else {
            return self.reply(StatusCode::BAD_REQUEST, "the cost must be a number from 0 to 100\n".into());
        };
        let status = match path.strip_prefix("/status/") {
            Some(code) => code
                .parse()
                .ok()
                .filter(|code| (200..600).contains(code))
                .and_then(|code| StatusCode::from_u16(code).ok()),
            None => Some(StatusCode::OK),
        };
        let Some(status) = status else {
            return self.reply(StatusCode::BAD_REQUEST, "the status must be a number from 200 to 599\n".into());
        };
        let Ok(body) = body.collect().await else {
            return self.reply(StatusCode::BAD_REQUEST, "the body broke off\n".into());
        };
        if self.behaviour() == Behaviour::Failing {
            return self.reply(StatusCode::INTERNAL_SERVER_ERROR, "failing\n".into());
        }
        match &self.work {
            Work::Wait(places) => places.serve(|| self.service_time(cost)).await,
            Work::Burn(burner) => {
                if !burner.burn(self.service_time(cost)).await {
                    return self.reply(StatusCode::SERVICE_UNAVAILABLE, "too many requests wait\n".into());
                }
            }
        }
        let answer = match path {
            "/echo" => body.to_bytes(),
            "/headers" => {
                parts.headers.iter().flat_map(|(name, value)| header_line(name.as_str(), value.as_bytes())).collect()
            }
            _ => answer(&self.name).into(),
        };
        match self.behaviour() {
            Behaviour::Cutting => self.half(&answer),
            _ => self.reply(status, answer),
        }
    }

    fn behaviour(&self) -> Behaviour {
        *self.behaviour.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change_behaviour(&self, name: &str) -> Response<Body> {
        let Some(behaviour) = Behaviour::named(name) else {
            return self.reply(StatusCode::BAD_REQUEST, "the behaviour must be normal, failing or cutting\n".into());
        };
        *self.behaviour.lock().unwrap_or_else(PoisonError::into_inner) = behaviour;
        self.reply(StatusCode::OK, Bytes::new())
    }

    /// The first half of an answer that announces its whole length. Then the connection ends.
    fn half(&self, answer: &Bytes) -> Response<Body> {
        let half = Frame::data(answer.slice(..answer.len() / 2));
        let cut = async {
            // First let the half leave.
            sleep(HALF).await;
            Err(io::Error::other("cut"))
        };
        let frames = stream::once(ready(Ok(half))).chain(stream::once(cut));
        let mut response = self.reply(StatusCode::OK, Bytes::new());
        response.headers_mut().insert(header::CONTENT_LENGTH, answer.len().into());
        *response.body_mut() = BodyExt::boxed(StreamBody::new(frames));
        response
    }

    fn change_speed(&self, text: &str) -> Response<Body> {
        let Ok(speed) = number(text, 0.01, 100.0) else {
            return self.reply(StatusCode::BAD_REQUEST, "the speed must be a number from 0.01 to 100\n".into());
        };
        *self.speed.lock().unwrap_or_else(PoisonError::into_inner) = speed;
        self.reply(StatusCode::OK, Bytes::new())
    }

    fn change_seed(&self, text: &str) -> Response<Body> {
        let Ok(seed) = text.parse() else {
            return self.reply(StatusCode::BAD_REQUEST, "the seed must be a whole number from 0 to 2^64 - 1\n".into());
        };
        *self.rng.lock().unwrap_or_else(PoisonError::into_inner) = StdRng::seed_from_u64(seed);
        self.reply(StatusCode::OK, Bytes::new())
    }

    fn service_time(&self, cost: f64) -> Duration {
        let speed = *self.speed.lock().unwrap_or_else(PoisonError::into_inner);
        let mut rng = self.rng.lock().unwrap_or_else(PoisonError::into_inner);
        self.service_time.draw(|| rng.random()).mul_f64(cost / speed)
    }

    fn reply(&self, status: StatusCode, body: Bytes) -> Response<Body> {
        let mut response = Response::new(Full::new(body).map_err(|never| match never {}).boxed());
        *response.status_mut() = status;
        if let Ok(name) = self.name.parse() {
            response.headers_mut().insert(APP_HEADER, name);
        }
        response
    }
}

fn header_line(name: &str, value: &[u8]) -> Vec<u8> {
    [name.as_bytes(), b": ", value, b"\n"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::{get, post};
    use tokio::time::Instant;

    async fn asked(path: &str) -> (StatusCode, String, Duration) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(Backend::new("b1", "fixed:20ms".parse().unwrap(), 1, 2.0, 1).serve(listener));
        let start = Instant::now();
        let (status, body) = get(address, path, Duration::from_secs(5)).await.unwrap();
        server.abort();
        (status, String::from_utf8(body.to_vec()).unwrap(), start.elapsed())
    }

    #[tokio::test]
    async fn answers_after_the_service_time() {
        let (status, body, time) = asked("/").await;
        assert_eq!((status, body.as_str()), (StatusCode::OK, "served by b1\n"));
        assert!(time >= Duration::from_millis(10), "{time:?}");
    }

    #[test]
    fn speed_divides_the_service_time_and_cost_multiplies_it() {
        let backend = Backend::new("b1", "fixed:20ms".parse().unwrap(), 1, 2.0, 1);
        assert_eq!(backend.service_time(1.0), Duration::from_millis(10));
        assert_eq!(backend.service_time(2.5), Duration::from_millis(25));
    }

    #[tokio::test]
    async fn multiplies_the_service_time_by_the_cost_and_checks_its_range() {
        let (status, _, time) = asked("/cost/2.5").await;
        assert_eq!(status, StatusCode::OK);
        assert!(time >= Duration::from_millis(25), "{time:?}");
        for path in ["/cost/101", "/cost/-1", "/cost/NaN", "/cost/x"] {
            let (status, body, _) = asked(path).await;
            assert_eq!(status, StatusCode::BAD_REQUEST, "{path}");
            assert_eq!(body, "the cost must be a number from 0 to 100\n");
        }
    }

    #[tokio::test]
    async fn a_burning_server_refuses_what_exceeds_its_queue() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(Backend::burning("b1", "fixed:300ms".parse().unwrap(), [1, 1], 1).serve(listener));
        let all = (0..6).map(|_| get(address, "/", Duration::from_secs(60)));
        let answers = futures_util::future::join_all(all).await.into_iter().map(Result::unwrap);
        let (good, refused): (Vec<_>, Vec<_>) = answers.partition(|(status, _)| *status == StatusCode::OK);
        server.abort();
        assert!(!good.is_empty() && good.iter().all(|(_, body)| body == "served by b1\n"), "{good:?}");
        assert!(refused.iter().all(|(status, _)| *status == StatusCode::SERVICE_UNAVAILABLE), "{refused:?}");
        assert!(!refused.is_empty(), "one burns and one waits");
    }

    #[tokio::test]
    async fn serves_the_status_and_headers_paths() {
        assert_eq!(asked("/status/429").await.0.as_u16(), 429);
        assert_eq!(asked("/status/700").await.0.as_u16(), 400);
        assert!(asked("/headers").await.1.contains("connection: close\n"));
    }

    #[tokio::test]
    async fn follows_the_behaviour_that_is_set_and_refuses_unknown_ones() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(Backend::new("b1", "fixed:1ms".parse().unwrap(), 1, 1.0, 1).serve(listener));
        let limit = Duration::from_secs(5);
        let behaviour = async |name: &str| post(address, &format!("/admin/behaviour/{name}"), limit).await.unwrap().0;
        assert_eq!(behaviour("failing").await, StatusCode::OK);
        assert_eq!(get(address, "/", limit).await.unwrap().0, StatusCode::INTERNAL_SERVER_ERROR);
        assert_eq!(behaviour("cutting").await, StatusCode::OK);
        let error = get(address, "/", limit).await.unwrap_err();
        assert!(matches!(error, crate::http::HttpError::Exchange { .. }), "{error}");
        assert_eq!(behaviour("cheerful").await, StatusCode::BAD_REQUEST);
        assert_eq!(behaviour("normal").await, StatusCode::OK);
        assert_eq!(get(address, "/", limit).await.unwrap().1, "served by b1\n");
        server.abort();
    }

    #[tokio::test]
    async fn a_new_seed_restarts_the_service_times_of_that_seed() {
        let backend = |seed| Backend::new("b1", "exponential:20ms".parse().unwrap(), 1, 1.0, seed);
        let draws = |backend: &Backend| (0..5).map(|_| backend.service_time(1.0)).collect::<Vec<_>>();
        let (reseeded, fresh) = (backend(1), backend(u64::MAX));
        assert_ne!(draws(&reseeded), draws(&backend(u64::MAX)));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(Arc::clone(&reseeded).serve(listener));
        let limit = Duration::from_secs(5);
        let seed = async |text: &str| post(address, &format!("/admin/seed/{text}"), limit).await.unwrap().0;
        assert_eq!(seed("18446744073709551615").await, StatusCode::OK);
        for text in ["18446744073709551616", "-1", "x", ""] {
            assert_eq!(seed(text).await, StatusCode::BAD_REQUEST, "{text}");
        }
        assert_eq!(draws(&reseeded), draws(&fresh), "a refused seed changes nothing");
        server.abort();
    }

    #[tokio::test]
    async fn a_new_speed_applies_from_the_next_request() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(Backend::new("b1", "fixed:20ms".parse().unwrap(), 1, 1.0, 1).serve(listener));
        let limit = Duration::from_secs(5);
        assert_eq!(post(address, "/admin/speed/0.2", limit).await.unwrap().0, StatusCode::OK);
        for path in ["/admin/speed/0", "/admin/speed/x"] {
            assert_eq!(post(address, path, limit).await.unwrap().0, StatusCode::BAD_REQUEST, "{path}");
        }
        let start = Instant::now();
        get(address, "/", limit).await.unwrap();
        assert!(start.elapsed() >= Duration::from_millis(100), "{:?}", start.elapsed());
        server.abort();
    }
}
