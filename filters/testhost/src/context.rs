//! Contexts of a guest: plugins and streams, and the actions that follow a callback.

use crate::headers::Headers;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Properties of a stream by path; the parts of a path are separated by `\0`.
pub(crate) type Properties = BTreeMap<Vec<u8>, Vec<u8>>;

/// The answer to a guest's own call; it exists only during `proxy_on_http_call_response`.
pub(crate) struct CallResponse {
    pub(crate) root: u32,
    pub(crate) headers: Headers,
    pub(crate) body: Vec<u8>,
}

/// What identifies a plugin: listeners that agree in all of it share a root context in each VM.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) root_id: Rc<str>,
    /// The plugin's name; stands for all that Envoy adds: name, direction, listener metadata.
    pub(crate) name: Rc<str>,
    pub(crate) configuration: Rc<[u8]>,
}

/// A context.
pub(crate) enum Context {
    Root(RootState),
    Stream(Box<StreamState>),
}

/// A root context: a plugin.
pub(crate) struct RootState {
    pub(crate) key: Key,
    /// The configuration can be read only during this callback.
    pub(crate) configuring: bool,
    /// It is being removed, and asked for time (`proxy_on_done` returned false).
    pub(crate) ending: bool,
}

/// An HTTP stream, or an attempt.
#[derive(Default)]
pub(crate) struct StreamState {
    pub(crate) root: u32,
    pub(crate) properties: Properties,
    /// The header maps that the guest may access now.
    pub(crate) request: Option<Headers>,
    pub(crate) response: Option<Headers>,
    pub(crate) request_body: Option<Vec<u8>>,
    pub(crate) response_body: Option<Vec<u8>>,
    pub(crate) response_trailers: Option<Headers>,
    /// The maps as the access log sees them.
    pub(crate) logged_request: Option<Headers>,
    pub(crate) logged_response: Option<Headers>,
    pub(crate) logging: bool,
    /// Bytes of the request's body received so far.
    pub(crate) received: u64,
    /// Bytes of the response's body sent so far.
    pub(crate) sent: u64,
    pub(crate) request_paused: bool,
    pub(crate) response_paused: bool,
    pub(crate) request_resumed: bool,
    pub(crate) response_resumed: bool,
    pub(crate) reset: bool,
    pub(crate) answered: bool,
    pub(crate) reply: Option<LocalReply>,
}

/// A response that the filter sent in place of the upstream's.
#[derive(Clone, Debug)]
pub struct LocalReply {
    /// Its headers, after the response callback has seen them.
    pub headers: Headers,
    /// Its body.
    pub body: Vec<u8>,
    /// `%RESPONSE_CODE_DETAILS%` in Envoy.
    pub details: String,
}

impl LocalReply {
    /// The HTTP status.
    pub fn status(&self) -> u32 {
        self.headers.text(":status").and_then(|status| status.parse().ok()).unwrap_or(0)
    }
}

/// An action that follows a callback.
pub(crate) enum Action {
    Reply {
        context: u32,
        reply: LocalReply,
    },
    ResumeRequest(u32),
    ResumeResponse(u32),
    Reset(u32),
    /// A root context that was being removed is done.
    DeleteRoot(u32),
}
