//! HTTP calls of the guests' own (`proxy_http_call`), which the test answers.

use crate::headers::HeaderMap;
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
    /// The number of the call: no other one of the process has it.
    pub fn token(&self) -> u32 {
        self.token
    }

    /// The number of the VM that made it.
    pub fn vm(&self) -> usize {
        self.from.vm
    }
}

/// The calls of a process that wait for an answer, the oldest first.
#[derive(Default)]
pub(crate) struct Calls {
    waiting: Vec<HttpCall>,
    last_token: u32,
}

impl Calls {
    /// Adds a call under a token of its own, which this gives.
    pub(crate) fn add(&mut self, mut call: HttpCall) -> u32 {
        self.last_token += 1;
        call.token = self.last_token;
        self.waiting.push(call);
        self.last_token
    }

    /// Removes a call; whether it was still there.
    pub(crate) fn remove(&mut self, token: u32) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|waiting| waiting.token != token);
        before != self.waiting.len()
    }

    pub(crate) fn waiting(&self) -> &[HttpCall] {
        &self.waiting
    }

    /// Which guests' calls are too late when.
    pub(crate) fn dues(&self) -> impl Iterator<Item = (Address, Duration)> {
        self.waiting.iter().filter_map(|call| Some((call.from, call.due?)))
    }

    /// Ends those of these addresses; nobody waits for them any more.
    pub(crate) fn forget(&mut self, gone: impl Fn(&Address) -> bool) {
        self.waiting.retain(|call| !gone(&call.from));
    }
}
