//! The queue of events.
//!
//! An event is 16 bytes: time (ns), creation order, kind and index, packed so that comparing two
//! events compares two integers. Events at the same time happen in the order of their creation. A
//! binary heap suffices: it holds one event for each request in service or in the network, some
//! thousands, which fit into a first-level cache.

use bloc_policy::units::Timestamp;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Indices are below this.
pub const INDEX_LIMIT: u32 = 1 << 28;

/// Something that happens; the number identifies the request, client, probe or incident.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Open load: a request arrives.
    Arrival,
    /// Closed load: this client sends its next request.
    Client(u32),
    /// An attempt of this request reaches its server.
    Reach(u32),
    /// A server has finished this request.
    Finish(u32),
    /// The application's answer to this request reaches the server's sidecar.
    Answer(u32),
    /// The answer to an attempt of this request reaches its sender.
    Return(u32),
    /// A probe reaches its server.
    ProbeReach(u32),
    /// The answer to a probe reaches its sender.
    ProbeReturn(u32),
    /// Something happens to the fleet.
    Incident(u32),
    /// This request reaches its sender, or the back-off before its next attempt ends.
    Enter(u32),
    /// The sidecar of this server hands its next request to the application.
    HandOver(u32),
    /// The sidecar of its server has held this request for long enough.
    GiveUp(u32),
    /// A message of late binding arrives, or a time of it is over.
    Mail(u32),
    /// The idle streams no longer count.
    StreamsIdle,
}

impl Event {
    const fn pack(self) -> u32 {
        let (kind, index) = match self {
            Self::Arrival => (0, 0),
            Self::Client(index) => (1, index),
            Self::Reach(index) => (2, index),
            Self::Finish(index) => (3, index),
            Self::Return(index) => (4, index),
            Self::ProbeReach(index) => (5, index),
            Self::ProbeReturn(index) => (6, index),
            Self::Incident(index) => (7, index),
            Self::Enter(index) => (8, index),
            Self::StreamsIdle => (9, 0),
            Self::Answer(index) => (10, index),
            Self::HandOver(index) => (11, index),
            Self::GiveUp(index) => (12, index),
            Self::Mail(index) => (13, index),
        };
        kind << 28 | index
    }

    const fn unpack(packed: u32) -> Self {
        let index = packed & (INDEX_LIMIT - 1);
        match packed >> 28 {
            0 => Self::Arrival,
            1 => Self::Client(index),
            2 => Self::Reach(index),
            3 => Self::Finish(index),
            4 => Self::Return(index),
            5 => Self::ProbeReach(index),
            6 => Self::ProbeReturn(index),
            7 => Self::Incident(index),
            8 => Self::Enter(index),
            10 => Self::Answer(index),
            11 => Self::HandOver(index),
            12 => Self::GiveUp(index),
            13 => Self::Mail(index),
            _ => Self::StreamsIdle,
        }
    }
}

/// The events that are still to happen.
#[derive(Clone, Debug, Default)]
pub struct Events {
    heap: BinaryHeap<Reverse<u128>>,
    order: u32,
}

impl Events {
    /// Schedules `event` at `time`.
    pub fn push(&mut self, time: Timestamp, event: Event) {
        let packed = u128::from(time.as_nanos()) << 64 | u128::from(self.order) << 32 | u128::from(event.pack());
        self.order = self.order.wrapping_add(1);
        self.heap.push(Reverse(packed));
    }

    /// The next event and its time.
    pub fn pop(&mut self) -> Option<(Timestamp, Event)> {
        let Reverse(packed) = self.heap.pop()?;
        Some((Timestamp::from_nanos((packed >> 64) as u64), Event::unpack(packed as u32)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The oracle is a stable sort by time.
        #[test]
        fn pops_events_by_time_and_then_in_order_of_insertion(times in prop::collection::vec(0u64..20, 1..200)) {
            let mut events = Events::default();
            let mut oracle = Vec::new();
            for (index, time) in times.into_iter().enumerate() {
                let event = if index % 2 == 0 { Event::Reach(index as u32) } else { Event::Client(index as u32) };
                events.push(Timestamp::from_nanos(time), event);
                oracle.push((Timestamp::from_nanos(time), event));
            }
            oracle.sort_by_key(|&(time, _)| time);
            let popped: Vec<_> = std::iter::from_fn(|| events.pop()).collect();
            prop_assert_eq!(popped, oracle);
        }
    }

    #[test]
    fn unpacks_each_event_as_it_was_packed() {
        let index = INDEX_LIMIT - 1;
        for event in [
            Event::Arrival,
            Event::Client(index),
            Event::Reach(index),
            Event::Finish(index),
            Event::Answer(index),
            Event::Return(index),
            Event::ProbeReach(index),
            Event::ProbeReturn(index),
            Event::Incident(index),
            Event::Enter(index),
            Event::GiveUp(index),
            Event::HandOver(index),
            Event::Mail(index),
            Event::StreamsIdle,
        ] {
            assert_eq!(Event::unpack(event.pack()), event);
        }
    }
}
