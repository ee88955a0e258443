//! A filter of one stream, as a binding calls it.

/// What becomes of the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Flow {
    /// It goes on.
    Continue,
    /// It waits: it is held, or was answered.
    Pause,
}

/// A filter of one stream. Dropped when the stream has ended, whatever ended it.
pub trait Filter {
    /// The headers of the request have come; with them it `ends`, or a body follows.
    fn request_headers(&mut self, ends: bool) -> Flow;
    /// A part of the request's body has come. With what waits already it has this size; with it the
    /// request `ends`, or more follows. A paused request goes on if the filter does not pause it here
    /// as well. Whether the body of a paused request comes at all depends on the proxy.
    fn request_body(&mut self, _size: usize, _ends: bool) -> Flow {
        Flow::Continue
    }
    /// The trailers of the request have come, which end it; likewise.
    fn request_trailers(&mut self) -> Flow {
        Flow::Continue
    }
    /// The headers of the response, so many, have come; with them it `ends`, or a body follows.
    fn response_headers(&mut self, headers: usize, ends: bool);
    /// A part of the response's body has come.
    fn response_body(&mut self) {}
}
