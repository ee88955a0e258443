//! What a host call answers.

/// A status of the ABI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Status {
    /// Done.
    Ok = 0,
    /// There is no such thing.
    NotFound = 1,
    /// An argument makes no sense, or not here.
    BadArgument = 2,
    /// A pointer outside the guest's memory.
    InvalidMemoryAccess = 6,
    /// A queue without messages.
    Empty = 7,
    /// Somebody else has written meanwhile.
    CasMismatch = 8,
    /// Something failed.
    InternalFailure = 10,
    /// This host does not carry it.
    Unimplemented = 12,
}

/// Why a host call does not answer [`Status::Ok`].
#[derive(Debug)]
pub(crate) enum Refusal {
    /// An everyday answer: no such header, an empty queue.
    Answer(Status),
    /// Envoy refuses this, or does something undefined: the guest has a bug.
    Fault(Status, String),
    /// The guest trapped while the host asked it for memory.
    Trap(wasmtime::Error),
}

impl Refusal {
    pub(crate) fn bad(why: impl Into<String>) -> Self {
        Self::Fault(Status::BadArgument, why.into())
    }
}

/// A host call that Envoy would have refused, or that a guest must not make.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{call} in {callback}: {why} ({status:?})")]
pub struct Fault {
    /// The callback that the guest was in.
    pub callback: &'static str,
    /// The host call.
    pub call: &'static str,
    /// What it answered.
    pub status: Status,
    /// What was wrong.
    pub why: String,
}
