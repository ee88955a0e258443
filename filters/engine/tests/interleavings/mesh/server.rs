//! The server's side of a request.

use super::*;

/// A request that the proxy answered or held; `comes`: whether its body comes.
pub(super) fn held(request: &mut Request, comes: bool) -> Step {
    let (filter, stream, _) = request.inbound.as_mut().expect("a server");
    if comes {
        stream.0.bytes.set(HEADERS + request.body.unwrap_or(0));
    }
    let reply = stream.0.reply.borrow_mut().take();
    let Some(reply) = reply else {
        return if stream.0.resumed.get() { Step::Work } else { Step::Held };
    };
    assert!(!stream.0.resumed.get(), "answered, and let in");
    let status = reply.status.to_string();
    let mut all = vec![(":status", status.as_str())];
    all.extend(reply.headers.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    let response = headers(&all);
    *stream.0.response.borrow_mut() = Some(Rc::clone(&response));
    filter.response_headers(true);
    Step::Return(Some(response))
}

/// The application answers.
pub(super) fn work(request: &mut Request, status: &str) -> Step {
    let (filter, stream, _) = request.inbound.as_mut().expect("a server");
    let all = [(":status", status), ("content-type", "text/plain"), ("date", "today"), ("server", "envoy")];
    let response = headers(&all);
    *stream.0.response.borrow_mut() = Some(Rc::clone(&response));
    filter.response_headers(true);
    Step::Return(Some(response))
}
