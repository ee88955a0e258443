//! The messages that the threads' VMs send each other through their queues.

/// The first byte of [`Message::Count`]; no service name begins with it.
const COUNT: u8 = 1;

/// A message. Each is a hint to look at the shared data, so a lost, late or unknown one does no
/// harm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// There is a new state from the control plane, or a new service.
    News,
    /// The queue of this service needs a look.
    Turn(&'a str),
    /// The threads are recounting the requests of this service.
    Count(&'a str),
}

impl<'a> Message<'a> {
    /// The bytes of it.
    pub fn encode(self) -> Vec<u8> {
        match self {
            Self::News => Vec::new(),
            Self::Turn(service) => service.as_bytes().to_vec(),
            Self::Count(service) => [&[COUNT], service.as_bytes()].concat(),
        }
    }

    /// Reads it; none if it is not what [`Self::encode`] writes.
    pub fn decode(bytes: &'a [u8]) -> Option<Self> {
        let text = |bytes| std::str::from_utf8(bytes).ok();
        match bytes {
            [] => Some(Self::News),
            [COUNT, service @ ..] => text(service).map(Self::Count),
            service => text(service).map(Self::Turn),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decodes_what_it_encodes_and_nothing_else() {
        for message in [Message::News, Message::Turn("checkout"), Message::Count("checkout")] {
            assert_eq!(Message::decode(&message.encode()), Some(message));
        }
        for bytes in [&b"\xff"[..], b"\x01\xff"] {
            assert_eq!(Message::decode(bytes), None);
        }
    }
}
