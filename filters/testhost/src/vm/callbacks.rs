//! What the host does for a guest after a callback, and the callbacks of a root.

use super::Vm;
use crate::context::{Action, CallResponse, StreamState};
use crate::headers::Headers;

impl Vm {
    pub(super) fn act(&self, action: Action) {
        match action {
            Action::ResumeRequest(context) => self.stream_of(context, |stream| {
                (stream.request_paused, stream.request_resumed) = (false, true);
            }),
            Action::ResumeResponse(context) => self.stream_of(context, |stream| {
                (stream.response_paused, stream.response_resumed) = (false, true);
            }),
            Action::DeleteRoot(context) => self.delete_root(context),
            Action::Reset(context) => self.stream_of(context, |stream| stream.reset = true),
            Action::Reply { context, reply } => {
                // Envoy passes a filter's own response through the filter's response callback, too.
                let size = reply.headers.borrow().len() as u32;
                let end = u32::from(reply.body.is_empty());
                let headers = reply.headers.clone();
                self.stream_of(context, |stream| {
                    (stream.response, stream.logged_response) = (Some(headers.clone()), Some(headers));
                    stream.request_paused = false;
                });
                self.enter("proxy_on_response_headers", context, |exports, store| {
                    exports.response_headers(store, context, size, end)
                });
                self.stream_of(context, |stream| {
                    (stream.response, stream.request) = (None, None);
                    stream.reply = Some(reply);
                });
            }
        }
    }

    fn stream_of(&self, context: u32, work: impl FnOnce(&mut StreamState)) {
        self.guest(|guest| guest.stream_of(context).map(work));
    }

    pub(crate) fn on_tick(&self, root: u32) {
        self.call("proxy_on_tick", root, |exports, store| exports.tick(store, root));
    }

    pub(crate) fn on_queue_ready(&self, root: u32, queue: u32) {
        self.call("proxy_on_queue_ready", root, |exports, store| exports.queue_ready(store, root, queue));
    }

    pub(crate) fn on_http_call_response(&self, root: u32, token: u32, answer: Option<(Headers, Vec<u8>)>) {
        let (headers, body) = answer.as_ref().map_or((0, 0), |(map, body)| (map.borrow().len(), body.len()));
        let response = answer.map(|(headers, body)| CallResponse { root, headers, body });
        self.guest(|guest| guest.call_response = response);
        self.call("proxy_on_http_call_response", root, |exports, store| {
            exports.http_call_response(store, root, token, headers as u32, body as u32)
        });
        self.guest(|guest| guest.call_response = None);
    }
}
