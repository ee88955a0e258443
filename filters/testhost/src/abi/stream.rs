//! What a filter does with a stream: answers it, resumes it, ends it; and the filter's own calls.

use super::call::{Answer, Call};
use super::memory::Slice;
use crate::calls::HttpCall;
use crate::context::{Action, LocalReply};
use crate::headers::HeaderMap;
use crate::status::{Refusal, Status};
use std::time::Duration;

impl Call<'_, '_> {
    pub(super) fn send_local_response(&mut self, status: u32, texts: [Slice; 3], grpc: i32) -> Answer {
        let [details, body, pairs] = texts;
        let (details, body, pairs) = (self.read(details)?, self.read(body)?, self.read(pairs)?);
        let own = HeaderMap::decode(&pairs).ok_or_else(|| Refusal::bad("header pairs are malformed"))?;
        let guest = self.guest();
        let context = guest.effective();
        let stream = guest.stream()?;
        if stream.answered {
            return Err(Refusal::bad("the stream has been answered already"));
        }
        if !(200..=599).contains(&status) {
            return Err(Refusal::bad(format!("{status} is not a status that an answer can have")));
        }
        stream.answered = true;
        let content_type = stream.logged_request.as_ref().and_then(|headers| headers.text("content-type"));
        let is_grpc = content_type.is_some_and(|kind| kind.starts_with("application/grpc"));
        let (headers, body) = answer(status, &body, own, is_grpc.then_some(grpc));
        let details = String::from_utf8_lossy(&details).into_owned();
        guest
            .actions
            .push_back(Action::Reply { context, reply: LocalReply { headers: headers.into(), body, details } });
        Ok(())
    }

    pub(super) fn continue_stream(&mut self, which: u32) -> Answer {
        let guest = self.guest();
        let context = guest.effective();
        let stream = guest.stream()?;
        let (paused, action) = match which {
            0 => (stream.request_paused, Action::ResumeRequest(context)),
            1 => (stream.response_paused, Action::ResumeResponse(context)),
            _ => return Err(Refusal::bad(format!("a stream of kind {which} cannot go on here"))),
        };
        if !paused {
            return Err(Refusal::bad("the stream is not paused"));
        }
        (stream.request, stream.request_body) = (None, None);
        guest.actions.push_back(action);
        Ok(())
    }

    pub(super) fn close_stream(&mut self, which: u32) -> Answer {
        let guest = self.guest();
        let context = guest.effective();
        guest.stream()?;
        if which > 1 {
            return Err(Refusal::bad(format!("a stream of kind {which} cannot be closed here")));
        }
        guest.actions.push_back(Action::Reset(context));
        Ok(())
    }

    pub(super) fn http_call(&mut self, parts: [Slice; 4], timeout: u32, to: u32) -> Answer {
        let [cluster, headers, body, trailers] = parts;
        let (cluster, headers, body, trailers) =
            (self.read(cluster)?, self.read(headers)?, self.read(body)?, self.read(trailers)?);
        let malformed = || Refusal::bad("header pairs are malformed");
        let headers = HeaderMap::decode(&headers).ok_or_else(malformed)?;
        HeaderMap::decode(&trailers).ok_or_else(malformed)?;
        let cluster = String::from_utf8_lossy(&cluster).into_owned();
        for needed in [":path", ":method", ":authority"] {
            if headers.get(needed).is_none() {
                return Err(Refusal::bad(format!("a call without {needed}")));
            }
        }
        let guest = self.guest();
        let mut from = guest.address;
        from.root = guest.root();
        let timeout = (timeout > 0).then(|| Duration::from_millis(timeout.into()));
        let token = guest.common.with(|common| {
            let due = timeout.map(|timeout| common.now + timeout);
            // It gets its token when it is added.
            let call = HttpCall { token: 0, from, cluster, headers, body, timeout, due };
            common.clusters.contains(&call.cluster).then(|| common.calls.add(call))
        });
        // A guest cannot know whether a cluster exists, so calling a missing one is not a fault.
        self.write(to, &token.ok_or(Refusal::Answer(Status::BadArgument))?.to_le_bytes())
    }
}

/// Headers and body of a local reply, as Envoy makes them.
fn answer(status: u32, text: &[u8], own: HeaderMap, grpc: Option<i32>) -> (HeaderMap, Vec<u8>) {
    let mut headers = HeaderMap::default();
    let Some(grpc) = grpc else {
        headers.add(":status", status.to_string());
        own.iter().for_each(|(name, value)| headers.add(name, value));
        if !text.is_empty() {
            headers.set("content-length", text.len().to_string());
            if headers.get("content-type").is_none() {
                headers.add("content-type", "text/plain");
            }
        }
        return (headers, text.to_vec());
    };
    headers.add(":status", "200");
    headers.add("content-type", "application/grpc");
    // Without a gRPC status Envoy translates the HTTP status; -1 stands for none.
    let grpc = if grpc < 0 { from_http(status) } else { grpc };
    headers.add("grpc-status", grpc.to_string());
    if !text.is_empty() {
        headers.add("grpc-message", text);
    }
    own.iter().for_each(|(name, value)| headers.add(name, value));
    (headers, Vec::new())
}

fn from_http(status: u32) -> i32 {
    match status {
        400 => 13,
        401 => 16,
        403 => 7,
        404 => 12,
        429 | 502 | 503 | 504 => 14,
        _ => 2,
    }
}
