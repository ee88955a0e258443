//! A caller's search for a place for one request.
//!
//! It asks in rounds. A round begins with reservations at several servers, and ends with the first
//! grant, when all have failed, or when its time is over. A reservation is in at most one of:
//! open, granted and taken, given up. So a request takes one grant of a round, and every other one
//! is refused.

/// A reservation at a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// The reservation's number.
    pub id: u64,
    /// The server.
    pub server: u32,
}

/// The search of one request; at first, and after its end, nothing is open.
#[derive(Clone, Debug, Default)]
pub struct Search {
    rounds: u8,
    /// The first reservation of the round, which names it.
    round: u64,
    open: Vec<Asked>,
}

impl Search {
    /// Whether another round is left, of at most `most`. A round that is begun counts.
    pub fn another_round(&mut self, most: u8) -> bool {
        let left = self.rounds < most;
        self.rounds += u8::from(left);
        left
    }

    /// A round begins: the caller has asked for these reservations, and none is open.
    pub fn begin(&mut self, asked: Vec<Asked>) {
        self.round = asked.first().map_or(0, |asked| asked.id);
        self.open = asked;
    }

    /// A grant has come. The first one of a round is taken: the other reservations, to be
    /// cancelled. None: it comes too late, and is to be refused.
    pub fn granted(&mut self, id: u64) -> Option<Vec<Asked>> {
        self.remove(id).then(|| self.give_up())
    }

    /// A reservation has failed: whether it was the last one that was open, so that the caller has
    /// to look further.
    pub fn failed(&mut self, id: u64) -> bool {
        self.remove(id) && self.open.is_empty()
    }

    /// The time of the round whose first reservation was `round` is over: the reservations to be
    /// cancelled before the caller looks further; none: that round has ended before.
    pub fn out_of_patience(&mut self, round: u64) -> Option<Vec<Asked>> {
        (self.round == round && !self.open.is_empty()).then(|| self.give_up())
    }

    /// Ends the round: the reservations that were open.
    pub fn give_up(&mut self) -> Vec<Asked> {
        std::mem::take(&mut self.open)
    }

    fn remove(&mut self, id: u64) -> bool {
        let place = self.open.iter().position(|asked| asked.id == id);
        place.map(|place| self.open.swap_remove(place)).is_some()
    }
}
