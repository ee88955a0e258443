//! A filter of one stream, as a binding calls it.

/// What happens to the request next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Flow {
    /// It goes on.
    Continue,
    /// It waits: it is held, or was answered.
    Pause,
}

/// A filter of one stream. It is dropped when the stream has ended, for any reason.
///
/// It is not called for bodies: Envoy would enter the VM for each piece of each body in all three
/// filters. A filter that must know how much has come asks ([`Number`](crate::host::Number)).
pub trait Filter {
    /// The headers of the request have come. `ends`: no body follows.
    fn request_headers(&mut self, ends: bool) -> Flow;
    /// The headers of the response have come. `ends`: no body follows.
    fn response_headers(&mut self, ends: bool);
    /// The trailers of the response have come.
    fn response_trailers(&mut self) {}
}
