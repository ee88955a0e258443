//! What late binding has under way: messages, searches, and the central queue.

use crate::policies::Binding;
use crate::policies::reserve::{Reservation, Search};
use crate::requests::Slab;
use std::collections::VecDeque;

/// Something under way.
#[derive(Clone, Copy, Debug)]
pub(super) enum Mail {
    /// A reservation on its way to a server; a question does not wait there.
    Reserve { server: u32, reservation: Reservation, is_question: bool },
    /// The grant on its way to the caller.
    Grant { server: u32, reservation: Reservation },
    /// The reservation has failed, or the answer to the question is no.
    Fail(Reservation),
    /// A cancellation or refusal on its way to the server.
    Cancel { server: u32, id: u64 },
    /// A server has kept a place for long enough.
    Expire { server: u32, id: u64 },
    /// A caller has waited for long enough; its first reservation names the round.
    Patience(Reservation),
    /// A place has been turned over.
    Turned { server: u32 },
    /// A request reaches the central queue.
    Join { request: u32 },
}

/// What late binding needs beside the servers' queues.
pub(super) struct Late {
    pub(super) binding: Binding,
    pub(super) mail: Slab<Mail>,
    /// The number of the next reservation.
    pub(super) next: u64,
    /// By request.
    searches: Vec<Search>,
    pub(super) central: VecDeque<u32>,
}

impl Late {
    pub(super) fn new(binding: Binding) -> Self {
        Self { binding, mail: Slab::default(), next: 0, searches: Vec::new(), central: VecDeque::new() }
    }

    /// Whether nothing is under way.
    pub(super) fn is_idle(&self) -> bool {
        self.mail.is_empty() && self.central.is_empty()
    }

    /// The search of a request.
    pub(super) fn of(&mut self, request: u32) -> &mut Search {
        let needed = request as usize + 1;
        if self.searches.len() < needed {
            self.searches.resize(needed, Search::default());
        }
        &mut self.searches[request as usize]
    }

    /// The request is over; grants that still come are refused.
    pub(super) fn close(&mut self, request: u32) {
        if let Some(search) = self.searches.get_mut(request as usize) {
            *search = Search::default();
        }
    }
}
