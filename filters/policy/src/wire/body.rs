//! What a request's headers say about its body (`filters/adr/0011-bodies.md`).
//!
//! A request whose body may exceed the limit, Envoy's buffer, makes no bid and is not held. The
//! router cannot retry it, and over HTTP/2 the rest of a held body would fill the connection's
//! window. A body without a length may exceed the limit, except that gRPC calls are assumed small
//! until more than the limit has arrived.

/// What is known about a body from the headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// No body.
    None,
    /// It has this many bytes.
    Sized(u64),
    /// A gRPC call without a length.
    Call,
    /// Nothing is known.
    Unknown,
}

impl Body {
    /// Reads the headers of a request with a body: `content-length`, or else `content-type`.
    pub fn of<L: AsRef<[u8]>, T: AsRef<[u8]>>(length: Option<L>, kind: impl FnOnce() -> Option<T>) -> Self {
        match length {
            Some(length) => parse(length.as_ref()).map_or(Self::Unknown, Self::Sized),
            None if kind().is_some_and(|kind| is_grpc(kind.as_ref())) => Self::Call,
            None => Self::Unknown,
        }
    }

    /// Whether it may have more than `limit` bytes.
    pub fn exceeds(self, limit: u64) -> bool {
        match self {
            Self::None | Self::Call => false,
            Self::Sized(size) => size > limit,
            Self::Unknown => true,
        }
    }
}

fn parse(length: &[u8]) -> Option<u64> {
    std::str::from_utf8(length).ok()?.parse().ok()
}

/// Excludes gRPC-Web, which has a length.
fn is_grpc(kind: &[u8]) -> bool {
    let rest = kind.strip_prefix(b"application/grpc");
    rest.is_some_and(|rest| rest.first().is_none_or(|next| b"+; ".contains(next)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(length: Option<&str>, kind: Option<&str>) -> Body {
        Body::of(length, || kind)
    }

    #[test]
    fn a_content_length_decides_and_an_invalid_one_means_unknown() {
        assert_eq!(of(Some("1048576"), None), Body::Sized(1 << 20));
        assert_eq!(of(Some("5"), Some("application/grpc")), Body::Sized(5));
        for nonsense in ["", "-1", "1e3", "5, 5", "99999999999999999999"] {
            assert_eq!(of(Some(nonsense), Some("application/grpc")), Body::Unknown, "{nonsense:?}");
        }
    }

    #[test]
    fn without_a_content_length_only_grpc_counts_as_small() {
        for kind in ["application/grpc", "application/grpc+proto", "application/grpc;x=y", "application/grpc ; x"] {
            assert_eq!(of(None, Some(kind)), Body::Call, "{kind}");
        }
        for kind in ["application/grpc-web", "application/grpc-web+proto", "application/grpcx", "text/plain", ""] {
            assert_eq!(of(None, Some(kind)), Body::Unknown, "{kind}");
        }
        assert_eq!(of(None, None), Body::Unknown);
    }

    #[test]
    fn only_larger_or_unknown_bodies_exceed_the_limit() {
        let limit = 1 << 20;
        let large = [Body::None, Body::Sized(limit), Body::Sized(limit + 1), Body::Call, Body::Unknown];
        assert_eq!(large.map(|body| body.exceeds(limit)), [false, false, true, false, true]);
    }
}
