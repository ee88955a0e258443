//! What a request's headers say about its body.
//!
//! A large body rules out two things. Envoy's router can retry a request only while its buffer
//! holds all of it, so a rejected request with a larger body fails. A proxy that holds a request
//! takes in no more of its body than its buffer has room for. Over HTTP/2 the rest fills the window
//! that all requests of the connection share, including those that are not held.
//!
//! So a request whose body may exceed the limit, Envoy's buffer, makes no bid and is not held. A
//! body without a length may exceed it. gRPC calls usually have no length, and are mostly small:
//! they bid and are held until more than the limit has come.
//!
//! Not in the papers.

/// What is known of a request's body when its headers have come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Body {
    /// There is none.
    None,
    /// It has this many bytes.
    Sized(u64),
    /// A gRPC call without a length.
    Call,
    /// Nothing is known.
    Unknown,
}

impl Body {
    /// Reads the headers of a request with a body: `content-length`, or `content-type` if there is
    /// none.
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

/// Not gRPC-Web, which has a length.
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
