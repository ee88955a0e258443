//! Contexts of a guest: plugins and streams, and what their callbacks leave to be done.

use crate::headers::Headers;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Properties of a stream by path; the parts of a path are separated by `\0`.
pub(crate) type Properties = BTreeMap<Vec<u8>, Vec<u8>>;

/// The answer to a call of the guest's own, which is there during `proxy_on_http_call_response`
/// only.
pub(crate) struct CallResponse {
    pub(crate) root: u32,
    pub(crate) headers: Headers,
    pub(crate) body: Vec<u8>,
}

/// What makes a plugin: listeners that agree in all of it share a root context in each VM.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) root_id: Rc<str>,
    /// The plugin's name, which stands for all that Envoy adds: name, direction, listener metadata.
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
    /// The configuration can be read while it is being configured only.
    pub(crate) configuring: bool,
    /// It is to go, and asked for time (`proxy_on_done` said no).
    pub(crate) ending: bool,
}

/// An HTTP stream, or one attempt of one.
#[derive(Default)]
pub(crate) struct StreamState {
    pub(crate) root: u32,
    pub(crate) properties: Properties,
    /// The maps that the guest may touch at this moment.
    pub(crate) request: Option<Headers>,
    pub(crate) response: Option<Headers>,
    pub(crate) request_body: Option<Vec<u8>>,
    pub(crate) response_body: Option<Vec<u8>>,
    pub(crate) response_trailers: Option<Headers>,
    /// The maps as the access log sees them.
    pub(crate) logged_request: Option<Headers>,
    pub(crate) logged_response: Option<Headers>,
    pub(crate) logging: bool,
    /// Bytes of the request's body that have come.
    pub(crate) received: u64,
    /// Bytes of the response's body that have gone.
    pub(crate) sent: u64,
    pub(crate) request_paused: bool,
    pub(crate) response_paused: bool,
    pub(crate) request_resumed: bool,
    pub(crate) response_resumed: bool,
    pub(crate) reset: bool,
    pub(crate) answered: bool,
    pub(crate) reply: Option<LocalReply>,
}

/// An answer that the filter gave in place of the upstream.
#[derive(Clone, Debug)]
pub struct LocalReply {
    /// Its headers, after the response callback has seen them.
    pub headers: Headers,
    /// Its body.
    pub body: Vec<u8>,
    /// What Envoy shows as `%RESPONSE_CODE_DETAILS%`.
    pub details: String,
}

impl LocalReply {
    /// The HTTP status.
    pub fn status(&self) -> u32 {
        self.headers.text(":status").and_then(|status| status.parse().ok()).unwrap_or(0)
    }
}

/// What is done when a callback has returned.
pub(crate) enum Action {
    Reply {
        context: u32,
        reply: LocalReply,
    },
    ResumeRequest(u32),
    ResumeResponse(u32),
    Reset(u32),
    /// A root context that was to go is done.
    DeleteRoot(u32),
}
