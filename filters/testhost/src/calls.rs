//! HTTP calls of the guests' own (`proxy_http_call`), which the test answers.

use crate::headers::{HeaderMap, Headers};
use crate::process::Process;
use crate::shared::Address;
use std::time::Duration;

/// A call that waits for its answer.
#[derive(Clone, Debug)]
pub struct HttpCall {
    pub(crate) token: u32,
    pub(crate) from: Address,
    /// The cluster.
    pub cluster: String,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Vec<u8>,
    /// How long the guest waits.
    pub timeout: Option<Duration>,
    pub(crate) due: Option<Duration>,
}

impl HttpCall {
    /// The number of the VM that made it.
    pub fn vm(&self) -> usize {
        self.from.vm
    }
}

impl Process {
    /// The calls that wait for an answer, the oldest first.
    pub fn http_calls(&self) -> Vec<HttpCall> {
        self.with(|process| process.calls.clone())
    }

    /// Answers a call.
    ///
    /// # Panics
    /// It has been answered already, or the callback made a call that Envoy refuses.
    pub fn answer(&self, call: &HttpCall, status: u32, headers: &[(&str, &str)], body: &[u8]) {
        let mut map = HeaderMap::default();
        map.add(":status", status.to_string());
        headers.iter().for_each(|(name, value)| map.add(name, value));
        self.conclude(call, Some((map.into(), body.to_vec())));
    }

    /// Ends a call without an answer: the connection was refused or reset.
    ///
    /// # Panics
    /// As [`Self::answer`].
    pub fn fail(&self, call: &HttpCall) {
        self.conclude(call, None);
    }

    fn conclude(&self, call: &HttpCall, answer: Option<(Headers, Vec<u8>)>) {
        let known = self.with(|process| {
            let before = process.calls.len();
            process.calls.retain(|waiting| waiting.token != call.token);
            before != process.calls.len()
        });
        assert!(known, "call {} to {} has been answered already", call.token, call.cluster);
        if let Some(vm) = self.vm_at(call.from) {
            vm.on_http_call_response(call.from.root, call.token, answer);
        }
    }
}
