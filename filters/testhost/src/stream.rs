//! An HTTP stream, or an attempt, as a filter sees it.

use crate::context::{Context, LocalReply, Properties, StreamState};
use crate::headers::Headers;
use crate::options::FailurePolicy;
use crate::vm::{Handle, Vm};
use std::rc::Rc;

/// What the filter wants to happen next.
#[derive(Clone, Debug)]
pub enum Flow {
    /// The stream goes on.
    Continue,
    /// The stream waits until the filter resumes or answers it.
    Pause,
    /// The filter has answered.
    Reply(LocalReply),
    /// The filter has ended the stream without an answer.
    Reset,
}

impl Flow {
    /// Whether the stream goes on.
    pub fn continues(&self) -> bool {
        matches!(self, Self::Continue)
    }

    /// The filter's answer.
    pub fn reply(self) -> Option<LocalReply> {
        if let Self::Reply(reply) = self { Some(reply) } else { None }
    }
}

/// A stream. Dropping it ends it, as when the client disconnects.
pub struct Stream {
    vm: Vm,
    root: u32,
    generation: u32,
    upstream: bool,
    properties: Properties,
    /// Bytes of the request's body that come before the filter sees the headers.
    ahead: u64,
    context: Option<u32>,
    ended: bool,
    /// As in Envoy, a stream keeps its plugin until it has ended.
    _plugin: Option<Rc<Handle>>,
}

impl Stream {
    pub(crate) fn new(vm: Vm, root: u32, upstream: bool, plugin: Option<Rc<Handle>>) -> Self {
        let (generation, properties) = (vm.generation(), Properties::default());
        Self { vm, root, generation, upstream, properties, ahead: 0, context: None, ended: false, _plugin: plugin }
    }

    /// Sets a property, such as `xds\0cluster_name`; the parts of its path are separated by `\0`.
    pub fn set_property(&mut self, path: &str, value: impl AsRef<[u8]>) {
        let (path, value) = (path.as_bytes().to_vec(), value.as_ref().to_vec());
        if let Some(context) = self.context {
            self.state(context, |stream| stream.properties.insert(path, value));
        } else {
            self.properties.insert(path, value);
        }
    }

    /// Likewise, for chaining.
    #[must_use]
    pub fn with_property(mut self, path: &str, value: impl AsRef<[u8]>) -> Self {
        self.set_property(path, value);
        self
    }

    /// Lets so many bytes of the request's body come before the filter sees the headers, because
    /// another filter has delayed these.
    #[must_use]
    pub fn with_body_ahead(mut self, bytes: u64) -> Self {
        self.ahead = bytes;
        self
    }

    /// The request's headers come; `end`: there is no body.
    ///
    /// # Panics
    /// The filter made a call that Envoy refuses, or the headers have come already.
    pub fn request_headers(&mut self, headers: impl Into<Headers>, end: bool) -> Flow {
        assert!(self.context.is_none(), "request headers come once");
        if self.vm.is_dead() {
            return self.failed();
        }
        let (headers, root) = (headers.into(), self.root);
        let size = headers.borrow().len() as u32;
        let (properties, received) = (std::mem::take(&mut self.properties), self.ahead);
        let context = self.vm.guest(|guest| {
            let context = guest.next_context();
            let (request, logged_request) = (Some(headers.clone()), Some(headers));
            let state = StreamState { root, properties, received, request, logged_request, ..StreamState::default() };
            guest.contexts.insert(context, Context::Stream(Box::new(state)));
            context
        });
        self.context = Some(context);
        self.vm.call("proxy_on_context_create", context, |exports, store| exports.create(store, context, root));
        let action = self.vm.call("proxy_on_request_headers", context, |exports, store| {
            exports.request_headers(store, context, size, end.into())
        });
        self.request_flow(context, action)
    }

    /// The request's body, or a part of it, comes. While the request is paused the filter does not
    /// see it (without `allow_on_headers_stop_iteration`), but can ask how much has come.
    ///
    /// # Panics
    /// The filter made a call that Envoy refuses, or there were no headers.
    pub fn request_body(&mut self, body: &[u8], end: bool) -> Flow {
        let Some(context) = self.here() else { return self.failed() };
        self.state(context, |stream| stream.received += body.len() as u64);
        if self.is_paused() {
            return Flow::Pause;
        }
        self.state(context, |stream| stream.request_body = Some(body.to_vec()));
        let size = body.len() as u32;
        let action = self.vm.call("proxy_on_request_body", context, |exports, store| {
            exports.request_body(store, context, size, end.into())
        });
        self.request_flow(context, action)
    }

    /// The response's headers come; `end`: there is no body.
    ///
    /// # Panics
    /// The filter made a call that Envoy refuses.
    pub fn response_headers(&mut self, headers: impl Into<Headers>, end: bool) -> Flow {
        let Some(context) = self.here() else { return Flow::Continue };
        let headers = headers.into();
        let size = headers.borrow().len() as u32;
        self.state(context, |stream| {
            (stream.response, stream.logged_response) = (Some(headers.clone()), Some(headers));
            stream.answered = true;
        });
        let action = self.vm.call("proxy_on_response_headers", context, |exports, store| {
            exports.response_headers(store, context, size, end.into())
        });
        self.response_flow(context, action)
    }

    /// The response's body, or a part of it, comes.
    ///
    /// # Panics
    /// The filter made a call that Envoy refuses.
    pub fn response_body(&mut self, body: &[u8], end: bool) -> Flow {
        let Some(context) = self.here() else { return Flow::Continue };
        self.state(context, |stream| {
            stream.sent += body.len() as u64;
            stream.response_body = Some(body.to_vec());
        });
        let size = body.len() as u32;
        let action = self.vm.call("proxy_on_response_body", context, |exports, store| {
            exports.response_body(store, context, size, end.into())
        });
        self.response_flow(context, action)
    }

    /// The response's trailers come.
    ///
    /// # Panics
    /// The filter made a call that Envoy refuses.
    pub fn response_trailers(&mut self, trailers: impl Into<Headers>) -> Flow {
        let Some(context) = self.here() else { return Flow::Continue };
        let trailers = trailers.into();
        let size = trailers.borrow().len() as u32;
        self.state(context, |stream| stream.response_trailers = Some(trailers));
        let action = self.vm.call("proxy_on_response_trailers", context, |exports, store| {
            exports.response_trailers(store, context, size)
        });
        let flow = self.response_flow(context, action);
        self.state(context, |stream| stream.response_trailers = None);
        flow
    }

    /// Whether the filter has resumed the paused request.
    pub fn is_resumed(&self) -> bool {
        self.peek(|stream| stream.request_resumed)
    }

    /// Whether the request waits.
    pub fn is_paused(&self) -> bool {
        self.peek(|stream| stream.request_paused)
    }

    /// The filter's response, which may have come while the request was paused.
    pub fn reply(&self) -> Option<LocalReply> {
        self.here().and_then(|context| self.state(context, |stream| stream.reply.clone())).flatten()
    }

    /// The stream ends: all is sent, or a side has disconnected.
    ///
    /// # Panics
    /// The filter made a call that Envoy refuses.
    pub fn done(mut self) {
        self.end();
    }

    fn end(&mut self) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        let Some(context) = self.here() else { return };
        self.state(context, |stream| {
            (stream.request, stream.response) = (None, None);
            stream.logging = true;
        });
        if !self.upstream {
            self.vm.call("proxy_on_log", context, |exports, store| exports.log(store, context));
        }
        self.state(context, |stream| stream.logging = false);
        self.vm.call("proxy_on_done", context, |exports, store| exports.done(store, context));
        self.vm.call("proxy_on_delete", context, |exports, store| exports.delete(store, context));
        self.vm.guest(|guest| guest.contexts.remove(&context));
    }

    /// The context, if it is still in the same instance of the VM.
    fn here(&self) -> Option<u32> {
        self.context.filter(|_| self.vm.generation() == self.generation)
    }

    fn failed(&self) -> Flow {
        if self.vm.failure_policy() == FailurePolicy::Open {
            return Flow::Continue;
        }
        let headers = Headers::new(&[(":status", "503")]);
        Flow::Reply(LocalReply { headers, body: Vec::new(), details: "wasm_fail_stream".to_owned() })
    }

    fn request_flow(&self, context: u32, action: Option<u32>) -> Flow {
        let Some(action) = action else { return self.failed() };
        let flow = self.state(context, |stream| {
            if stream.reset {
                return Flow::Reset;
            }
            if let Some(reply) = stream.reply.clone() {
                return Flow::Reply(reply);
            }
            if action == 0 || stream.request_resumed {
                (stream.request, stream.request_body) = (None, None);
                return Flow::Continue;
            }
            stream.request_paused = true;
            Flow::Pause
        });
        flow.unwrap_or(Flow::Continue)
    }

    fn response_flow(&self, context: u32, action: Option<u32>) -> Flow {
        let Some(action) = action else { return self.failed() };
        let flow = self.state(context, |stream| {
            if stream.reset {
                return Flow::Reset;
            }
            if action == 0 || stream.response_resumed {
                (stream.response, stream.response_body) = (None, None);
                return Flow::Continue;
            }
            stream.response_paused = true;
            Flow::Pause
        });
        flow.unwrap_or(Flow::Continue)
    }

    fn state<T>(&self, context: u32, work: impl FnOnce(&mut StreamState) -> T) -> Option<T> {
        self.vm.guest(|guest| guest.stream_of(context).map(work))
    }

    fn peek(&self, look: impl FnOnce(&StreamState) -> bool) -> bool {
        self.here().and_then(|context| self.state(context, |stream| look(stream))).unwrap_or(false)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.end();
        }
    }
}
