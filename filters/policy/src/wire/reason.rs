//! The value of `x-bloc-reject`.

/// Why a request was rejected before the application saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// The server is at its capacity.
    Capacity,
    /// It would have taken longer than the attempt's bid.
    Bid,
    /// It would have missed its deadline, or was held too long.
    Deadline,
    /// The server's proxy could not hand it to the application.
    Unreachable,
}

impl Reason {
    const ALL: [Self; 4] = [Self::Capacity, Self::Bid, Self::Deadline, Self::Unreachable];

    /// The header's value.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Capacity => "capacity",
            Self::Bid => "bid",
            Self::Deadline => "deadline",
            Self::Unreachable => "unreachable",
        }
    }

    /// Reads the header's value; none if it is unknown.
    pub fn read(value: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|reason| reason.as_str().as_bytes() == value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_back_each_encoded_reason_and_nothing_else() {
        for reason in Reason::ALL {
            assert_eq!(Reason::read(reason.as_str().as_bytes()), Some(reason));
        }
        for nonsense in ["", "Capacity", "bid ", "bid,bid", "slo"] {
            assert_eq!(Reason::read(nonsense.as_bytes()), None, "{nonsense:?}");
        }
    }
}
