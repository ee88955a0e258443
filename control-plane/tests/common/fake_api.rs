//! The parts of a Kubernetes API that the control plane uses: lists in pages, watches from a
//! revision, and Events.
//!
//! On demand it does what a real one does at times: end all watches, forget old revisions (410),
//! refuse everything.

use axum::body::{Body, Bytes};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use futures_util::stream;
use serde_json::{Value, json};
use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

#[derive(Clone)]
pub struct FakeApi {
    pub url: String,
    state: Arc<Mutex<Fake>>,
    /// Notified whenever something happens.
    bell: Arc<watch::Sender<u64>>,
    serving: Arc<JoinHandle<()>>,
}

#[derive(Default)]
struct Fake {
    revision: u64,
    /// By kind, namespace and name.
    objects: BTreeMap<(String, String, String), Value>,
    /// Revision, kind, type and object.
    log: Vec<(u64, String, &'static str, Value)>,
    forgotten: u64,
    refusing: Option<u16>,
    /// The status for reads of VirtualServices; `None`: they are served.
    routes: Option<u16>,
    /// The status for watches of VirtualServices; `None`: they are served.
    route_watches: Option<u16>,
    /// Watches from an earlier epoch end.
    epoch: u64,
    lists: usize,
    /// The most objects in a page, whatever the client asks for.
    page: usize,
    events: Vec<Value>,
}

impl FakeApi {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let (state, bell) = (
            Arc::new(Mutex::new(Fake { revision: 100, page: 2, routes: Some(404), ..Fake::default() })),
            Arc::new(watch::Sender::new(0)),
        );
        let shared = (Arc::clone(&state), Arc::clone(&bell));
        let router = Router::new()
            .route("/api/v1/{kind}", get(collection))
            .route("/apis/discovery.k8s.io/v1/{kind}", get(collection))
            .route("/apis/networking.istio.io/v1/{kind}", get(collection))
            .route("/apis/events.k8s.io/v1/namespaces/{namespace}/events", post(event))
            .with_state(shared);
        let serving = Arc::new(tokio::spawn(async move { axum::serve(listener, router).await.unwrap() }));
        Self { url, state, bell, serving }
    }

    fn change<T>(&self, change: impl FnOnce(&mut Fake) -> T) -> T {
        let result = change(&mut self.state.lock().unwrap());
        self.bell.send_modify(|times| *times += 1);
        result
    }

    /// Creates or replaces an object.
    pub fn put(&self, kind: &str, namespace: &str, name: &str, mut object: Value) {
        self.change(|fake| {
            fake.revision += 1;
            let metadata = json!({
                "namespace": namespace, "name": name, "uid": format!("{kind}-{namespace}-{name}"),
                "resourceVersion": fake.revision.to_string(), "creationTimestamp": "2026-11-20T08:00:00Z",
                "labels": object["metadata"]["labels"],
            });
            object["metadata"] = metadata;
            let key = (kind.to_owned(), namespace.to_owned(), name.to_owned());
            let event = if fake.objects.insert(key, object.clone()).is_none() { "ADDED" } else { "MODIFIED" };
            fake.log.push((fake.revision, kind.to_owned(), event, object));
        });
    }

    pub fn delete(&self, kind: &str, namespace: &str, name: &str) {
        self.change(|fake| {
            fake.revision += 1;
            let mut object = fake.objects.remove(&(kind.to_owned(), namespace.to_owned(), name.to_owned())).unwrap();
            object["metadata"]["resourceVersion"] = fake.revision.to_string().into();
            fake.log.push((fake.revision, kind.to_owned(), "DELETED", object));
        });
    }

    /// Other changes in the cluster advance the revision.
    pub fn pass(&self, revisions: u64) {
        self.change(|fake| fake.revision += revisions);
    }

    /// The watches get a bookmark.
    pub fn bookmark(&self) {
        self.change(|fake| {
            fake.revision += 1;
            let metadata = json!({"resourceVersion": fake.revision.to_string(), "creationTimestamp": null});
            let bookmark = json!({"kind": "Any", "apiVersion": "v1", "metadata": metadata});
            for kind in ["endpointslices", "services", "configmaps", "virtualservices"] {
                fake.log.push((fake.revision, kind.to_owned(), "BOOKMARK", bookmark.clone()));
            }
        });
    }

    /// Ends all watches.
    pub fn cut(&self) {
        self.change(|fake| fake.epoch += 1);
    }

    /// Forgets the history: older watches get 410.
    pub fn forget(&self) {
        self.change(|fake| {
            fake.forgotten = fake.revision;
            fake.log.clear();
        });
    }

    /// Goes back to a backup: the same objects at old revisions.
    pub fn restore(&self, revision: u64) {
        self.change(|fake| {
            fake.revision = revision;
            for object in fake.objects.values_mut() {
                object["metadata"]["resourceVersion"] = revision.to_string().into();
            }
            fake.log.clear();
            (fake.forgotten, fake.epoch) = (0, fake.epoch + 1);
        });
    }

    /// Refuses everything with this status from now on; `None`: nothing.
    pub fn refuse(&self, status: Option<u16>) {
        self.change(|fake| {
            fake.refusing = status;
            fake.epoch += 1;
        });
    }

    /// Answers reads of VirtualServices with this status from now on; `None`: serves them.
    pub fn refuse_routes(&self, status: Option<u16>) {
        self.change(|fake| {
            fake.routes = status;
            fake.epoch += 1;
        });
    }

    /// The same for watches only; lists are served.
    pub fn refuse_route_watches(&self, status: Option<u16>) {
        self.change(|fake| {
            fake.route_watches = status;
            fake.epoch += 1;
        });
    }

    /// The number of objects in a page of a list; by default two, so that there are several pages.
    pub fn pages_of(&self, objects: usize) {
        self.change(|fake| fake.page = objects);
    }

    /// The number of lists so far.
    pub fn lists(&self) -> usize {
        self.state.lock().unwrap().lists
    }

    /// The Events that were reported.
    pub fn events(&self) -> Vec<Value> {
        self.state.lock().unwrap().events.clone()
    }

    pub fn service(&self, namespace: &str, name: &str) {
        let spec = json!({"ports": [{"name": "web", "port": 80}], "ipFamilies": ["IPv4"]});
        self.put("services", namespace, name, json!({"spec": spec}));
    }

    /// A slice of `service` with endpoints that are ready or not.
    pub fn slice(&self, namespace: &str, service: &str, endpoints: &[(&str, bool)]) {
        let endpoints: Vec<Value> =
            endpoints.iter().map(|(ip, ready)| json!({"addresses": [ip], "conditions": {"ready": ready}})).collect();
        let slice = json!({
            "metadata": {"labels": {"kubernetes.io/service-name": service}}, "addressType": "IPv4",
            "ports": [{"name": "web", "port": 8080}], "endpoints": endpoints,
        });
        self.put("endpointslices", namespace, &format!("{service}-1"), slice);
    }

    /// A VirtualService for `host`.
    pub fn route(&self, namespace: &str, name: &str, host: &str, attempts: u32) {
        let rule = json!({"route": [{"destination": {"host": host}}], "retries": {"attempts": attempts}});
        self.put("virtualservices", namespace, name, json!({"spec": {"hosts": [host], "http": [rule]}}));
    }

    pub fn policy(&self, namespace: &str, services: &str) {
        let map = json!({"metadata": {"labels": {"bloc.dev/policy": "true"}}, "data": {"services.yaml": services}});
        self.put("configmaps", namespace, "bloc", map);
    }
}

impl Drop for FakeApi {
    fn drop(&mut self) {
        if Arc::strong_count(&self.serving) == 1 {
            self.serving.abort();
        }
    }
}

type Shared = (Arc<Mutex<Fake>>, Arc<watch::Sender<u64>>);

fn status(code: u16, reason: &str) -> Value {
    json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason, "message": reason})
}

fn refused(fake: &Fake, kind: &str) -> Option<Response> {
    let code = fake.refusing.or_else(|| fake.routes.filter(|_| kind == "virtualservices"))?;
    Some((StatusCode::from_u16(code).unwrap(), Json(status(code, "Refused"))).into_response())
}

async fn collection(
    State((state, bell)): State<Shared>,
    Path(kind): Path<String>,
    Query(query): Query<HashMap<String, String>>,
) -> Response {
    let mut fake = state.lock().unwrap();
    if let Some(response) = refused(&fake, &kind) {
        return response;
    }
    if query.get("watch").is_some_and(|watch| watch == "true") {
        let from: u64 = query["resourceVersion"].parse().unwrap();
        if let Some(code) = fake.route_watches.filter(|_| kind == "virtualservices") {
            return (StatusCode::from_u16(code).unwrap(), Json(status(code, "Refused"))).into_response();
        }
        let epoch = fake.epoch;
        drop(fake);
        return follow(state, bell.subscribe(), kind, from, epoch);
    }
    // A look at the revision is no list.
    fake.lists += usize::from(query.get("limit").is_none_or(|limit| limit != "1"));
    let start: usize = query.get("continue").map_or(0, |token| token.parse().unwrap());
    let mine: Vec<Value> = fake.objects.iter().filter(|((own, ..), _)| *own == kind).map(|(_, o)| o.clone()).collect();
    let items: Vec<Value> = mine.iter().skip(start).take(fake.page).cloned().collect();
    let next = if start + fake.page < mine.len() { (start + fake.page).to_string() } else { String::new() };
    let metadata = json!({"resourceVersion": fake.revision.to_string(), "continue": next});
    Json(json!({"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": items})).into_response()
}

fn follow(state: Arc<Mutex<Fake>>, bell: watch::Receiver<u64>, kind: String, from: u64, epoch: u64) -> Response {
    let lines =
        stream::unfold((state, bell, kind, from, false), move |(state, mut bell, kind, from, ended)| async move {
            loop {
                if ended {
                    return None;
                }
                bell.borrow_and_update();
                let next = {
                    let fake = state.lock().unwrap();
                    if fake.epoch != epoch {
                        return None;
                    }
                    if from < fake.forgotten {
                        Some((from, true, json!({"type": "ERROR", "object": status(410, "Expired")})))
                    } else {
                        let event = fake.log.iter().find(|(revision, own, ..)| *revision > from && *own == kind);
                        event.map(|(revision, _, event, object)| {
                            (*revision, false, json!({"type": event, "object": object}))
                        })
                    }
                };
                if let Some((from, ended, line)) = next {
                    return Some((
                        Ok::<_, std::io::Error>(Bytes::from(format!("{line}\n"))),
                        (state, bell, kind, from, ended),
                    ));
                }
                bell.changed().await.ok()?;
            }
        });
    Body::from_stream(lines).into_response()
}

async fn event(State((state, _)): State<Shared>, Json(event): Json<Value>) -> Response {
    let mut fake = state.lock().unwrap();
    if fake.events.iter().any(|known| known["metadata"]["name"] == event["metadata"]["name"]) {
        return (StatusCode::CONFLICT, Json(status(409, "AlreadyExists"))).into_response();
    }
    fake.events.push(event.clone());
    (StatusCode::CREATED, Json(event)).into_response()
}
