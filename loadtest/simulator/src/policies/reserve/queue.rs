//! A server's queue of reservations, and its places.
//!
//! A place is free, taken by a request, kept for a grant, or being turned over from one request to
//! the next. A grant needs a free place, so `taken + kept + turning` never exceeds the places; only
//! a request without a limit enters beyond that, and then nothing is granted until there is room.

use std::collections::VecDeque;

/// A reservation: its number, which is never used again, and the request that it is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reservation {
    /// Its number.
    pub id: u64,
    /// The request.
    pub request: u32,
}

/// What a cancellation or refusal found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cancelled {
    /// A reservation that waited.
    Waiting,
    /// A place that was kept; it is free again.
    Kept,
    /// Nothing: it had arrived, timed out, or been cancelled before.
    Nothing,
}

/// The queue of one server.
#[derive(Debug)]
pub struct Queue {
    /// Requests that the application takes at once; none: unknown, and there is always a place.
    places: Option<u32>,
    taken: u32,
    turning: u32,
    kept: Vec<Reservation>,
    waiting: VecDeque<Reservation>,
}

impl Queue {
    /// An idle server with so many places; none: it does not know how many.
    pub fn new(places: Option<u32>) -> Self {
        Self { places, taken: 0, turning: 0, kept: Vec::new(), waiting: VecDeque::new() }
    }

    /// Whether a place is free.
    pub fn is_free(&self) -> bool {
        self.places.is_none_or(|places| self.taken + self.turning + (self.kept.len() as u32) < places)
    }

    /// A request enters without a grant. With a limit it needs a free place: whether it has
    /// entered. A freed place goes to the first reservation at once, so none is free while one
    /// waits.
    pub fn enter(&mut self, limited: bool) -> bool {
        let enters = !limited || self.is_free();
        self.taken += u32::from(enters);
        enters
    }

    /// A request has come for the place that is kept for reservation `id`: whether it still is.
    /// Then let it [`enter`](Self::enter) without a limit.
    pub fn claim(&mut self, id: u64) -> bool {
        self.release(id)
    }

    /// The place for reservation `id` has been kept for long enough: whether nobody had come.
    pub fn expire(&mut self, id: u64) -> bool {
        self.release(id)
    }

    fn release(&mut self, id: u64) -> bool {
        let place = self.kept.iter().position(|kept| kept.id == id);
        place.map(|place| self.kept.swap_remove(place)).is_some()
    }

    /// A request leaves.
    pub fn leave(&mut self) {
        self.taken -= 1;
    }

    /// A reservation waits. Call [`grant`](Self::grant) afterwards.
    pub fn reserve(&mut self, reservation: Reservation) {
        self.waiting.push_back(reservation);
    }

    /// If a place is free, it is kept for the reservation that has waited longest. Call it until
    /// none is left.
    pub fn grant(&mut self) -> Option<Reservation> {
        if !self.is_free() {
            return None;
        }
        let first = self.waiting.pop_front()?;
        self.kept.push(first);
        Some(first)
    }

    /// A caller needs reservation `id` no more.
    pub fn cancel(&mut self, id: u64) -> Cancelled {
        if self.release(id) {
            return Cancelled::Kept;
        }
        match self.waiting.iter().position(|waiting| waiting.id == id) {
            Some(place) => {
                self.waiting.remove(place);
                Cancelled::Waiting
            }
            None => Cancelled::Nothing,
        }
    }

    /// Whether a reservation waits.
    pub fn waits(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// A free place takes some time until it can be granted.
    pub fn turn(&mut self) {
        self.turning += 1;
    }

    /// That time is over.
    pub fn turned(&mut self) {
        self.turning -= 1;
    }

    /// The server dies: the reservations whose callers learn of it from their broken calls. A
    /// caller with a grant learns of it when it sends the request.
    pub fn die(&mut self) -> impl Iterator<Item = Reservation> + use<> {
        (self.taken, self.turning) = (0, 0);
        self.kept.clear();
        std::mem::take(&mut self.waiting).into_iter()
    }

    /// Whether nothing is inside, kept or waiting.
    pub fn is_idle(&self) -> bool {
        self.taken == 0 && self.turning == 0 && self.kept.is_empty() && self.waiting.is_empty()
    }
}
