//! The guests' own HTTP calls (`proxy_http_call`), which the test answers.

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
    /// The number of the call, unique in the process.
    pub fn token(&self) -> u32 {
        self.token
    }

    /// The number of the VM that made the call.
    pub fn vm(&self) -> usize {
        self.from.vm
    }
}

/// The calls of a process that wait for answers, the oldest first.
#[derive(Default)]
pub(crate) struct Calls {
    waiting: Vec<HttpCall>,
    last_token: u32,
}

impl Calls {
    /// Adds a call under a new token; returns the token.
    pub(crate) fn add(&mut self, mut call: HttpCall) -> u32 {
        self.last_token += 1;
        call.token = self.last_token;
        self.waiting.push(call);
        self.last_token
    }

    /// Removes a call; returns whether it was still there.
    pub(crate) fn remove(&mut self, token: u32) -> bool {
        let before = self.waiting.len();
        self.waiting.retain(|waiting| waiting.token != token);
        before != self.waiting.len()
    }

    pub(crate) fn waiting(&self) -> &[HttpCall] {
        &self.waiting
    }

    /// When each call times out, and who made it.
    pub(crate) fn dues(&self) -> impl Iterator<Item = (Address, Duration)> {
        self.waiting.iter().filter_map(|call| Some((call.from, call.due?)))
    }

    /// Ends the calls of these addresses; nobody waits for them any longer.
    pub(crate) fn forget(&mut self, gone: impl Fn(&Address) -> bool) {
        self.waiting.retain(|call| !gone(&call.from));
    }
}
