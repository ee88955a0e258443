//! A proxy, as far as the control plane can tell: it polls one of several control planes, takes the
//! states that it gets, and changes to the next one when one does not answer.

use bloc_policy::sync::{SyncRequest, SyncResponse};
use std::time::Duration;
use tokio::time::sleep;

pub struct Proxy {
    name: String,
    host: String,
    urls: Vec<String>,
    at: usize,
    client: reqwest::Client,
    pub state: SyncResponse,
}

impl Proxy {
    /// A proxy that calls `host` and starts with the `at`th control plane.
    pub fn new(name: &str, host: &str, urls: &[String], at: usize) -> Self {
        let client = reqwest::Client::builder().no_proxy().timeout(super::cluster::LIMIT).build().unwrap();
        Self { name: name.into(), host: host.into(), urls: urls.to_vec(), at, client, state: SyncResponse::default() }
    }

    /// Changes to the next control plane.
    pub fn turn(&mut self) {
        self.at = (self.at + 1) % self.urls.len();
    }

    /// Polls once; returns whether it got a state.
    pub async fn poll(&mut self) -> bool {
        let request = SyncRequest {
            proxy: self.name.clone(),
            version: self.state.version.clone(),
            services: vec![self.host.clone()],
            wait: Some("1s".into()),
            ..SyncRequest::default()
        };
        let sent = self.client.post(format!("{}/v1/sync", self.urls[self.at])).json(&request).send().await;
        match sent {
            Ok(response) if response.status() == 200 => {
                self.state = response.json().await.unwrap();
                true
            }
            Ok(response) => {
                assert_eq!(response.status(), 304);
                false
            }
            Err(_) => {
                self.turn();
                sleep(Duration::from_millis(100)).await;
                false
            }
        }
    }

    /// Polls until the endpoints are `expected`.
    pub async fn endpoints(&mut self, expected: &[String]) {
        let begin = tokio::time::Instant::now();
        let expected: Vec<String> = expected.iter().map(|ip| format!("{ip}:8080")).collect();
        while self.known() != Some(expected.clone()) {
            assert!(begin.elapsed() < super::cluster::LIMIT, "{}: {:?} and not {expected:?}", self.name, self.known());
            self.poll().await;
        }
    }

    /// The endpoints that it knows; `None` if the service is not in force.
    pub fn known(&self) -> Option<Vec<String>> {
        Some(self.state.services.get(&self.host)?.endpoints_by_port.get(&80).cloned().unwrap_or_default())
    }
}
