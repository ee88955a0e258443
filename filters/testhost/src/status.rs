//! The results of host calls.

/// A status of the ABI.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Status {
    /// Success.
    Ok = 0,
    /// It does not exist.
    NotFound = 1,
    /// An argument is invalid, or not allowed here.
    BadArgument = 2,
    /// A pointer outside the guest's memory.
    InvalidMemoryAccess = 6,
    /// A queue without messages.
    Empty = 7,
    /// Another VM has written in the meantime.
    CasMismatch = 8,
    /// An internal failure.
    InternalFailure = 10,
    /// This host does not have it.
    Unimplemented = 12,
}

/// Why a host call does not return [`Status::Ok`].
#[derive(Debug)]
pub(crate) enum Refusal {
    /// A normal answer: no such header, an empty queue.
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
    /// The callback in which the guest made it.
    pub callback: &'static str,
    /// The host call.
    pub call: &'static str,
    /// The status returned.
    pub status: Status,
    /// What was wrong.
    pub why: String,
}
