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
    /// The headers of the request have come.
    fn request_headers(&mut self) -> Flow;
    /// The headers of the response, so many, have come.
    fn response_headers(&mut self, headers: usize);
}
