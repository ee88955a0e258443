//! A server's sidecar and its application.

use super::{Response, STRIPPED_FROM_ANSWERS, STRIPPED_FROM_REQUESTS, strip};
use crate::headers::Headers;
use crate::root::Root;
use crate::stream::Flow;
use crate::vm::{Refused, Vm};

/// A server's sidecar on one thread.
pub struct Server {
    inbound: Root,
}

impl Server {
    /// Puts the filter into a VM.
    ///
    /// # Errors
    /// The configuration was refused.
    pub fn new(vm: &Vm, configuration: &str) -> Result<Self, Refused> {
        Ok(Self { inbound: vm.root("bloc.inbound", configuration)? })
    }

    /// The root context.
    pub fn root(&self) -> &Root {
        &self.inbound
    }

    /// Passes a request without a body to the application, unless the filter answers it.
    ///
    /// # Panics
    /// The filter made a call that Envoy refuses, or held the request (tests of the wait queue use
    /// streams).
    pub fn handle(&self, request: impl Into<Headers>, application: impl FnOnce(&Headers) -> Response) -> Response {
        let request = request.into();
        let mut stream = self.inbound.stream();
        let response = match stream.request_headers(&request, true) {
            Flow::Continue => {
                strip(&request, STRIPPED_FROM_REQUESTS.inbound);
                let response = application(&request);
                strip(&response.headers, STRIPPED_FROM_ANSWERS.inbound);
                let end = response.body.is_empty();
                assert!(stream.response_headers(&response.headers, end).continues());
                if !end {
                    assert!(stream.response_body(&response.body, true).continues());
                }
                response
            }
            Flow::Reply(reply) => Response { headers: reply.headers, body: reply.body, trailers: None },
            other => panic!("bloc.inbound: {other:?}"),
        };
        stream.done();
        response
    }
}
