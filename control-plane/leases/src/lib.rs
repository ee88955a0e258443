//! How nodes share the limit of an application: each holds a part of it, and parts move to where
//! they are needed. Whatever is lost, repeated, late or restarted, nodes together never hold more
//! than the limit.
//!
//! A [`Part`] is a number of millionths of the limit. A [`Record`] has the parts of all nodes for
//! one application. Its store, such as a Kubernetes object, accepts a write only if nobody else has
//! written since (compare-and-swap). Each replica of the control plane may write it. Agents send
//! every replica what they want ([`Ask`]) twice a second, and receive what they hold ([`Told`]).
//!
//! # Safety
//!
//! 1. A part rises in the record first. The agent uses it once it is told.
//! 2. A part falls at the node first: the agent lowers the quotas, saves the lower part, takes its
//!    next number, and only then reports it. The record follows.
//! 3. A record never gives more than the whole limit.
//!
//! So a node never uses more than the record has for it. Late messages do no harm:
//!
//! - An agent counts its falls in `number`, even if an application leaves and returns. Each start
//!   is a later `life` with new numbers. The agent ignores answers to an earlier life or number, so
//!   a part from before a fall does not return.
//! - For one life and number a part only rises. An agent therefore ignores an answer with less than
//!   it holds.
//! - A replica accepts a fall only with a later number or life than the record's, so a message from
//!   before a rise does not lower it. The first number of a life lowers nothing.
//! - A replica with an old record cannot write. What it answers is safe, because parts only rise.
//!
//! A silent node keeps its part until it no longer exists and is [freed](Record::free).
//!
//! An agent that lost its disk and whose clock was set back starts an outdated life. Replicas
//! answer with the life and number of the record, and the agent starts a later life. This assumes
//! that no request of the old agent is in flight: losing a disk takes longer than any request.
//!
//! A lost record is rebuilt from what the agents hold, and grants nothing else while it is
//! [new](Record::is_new). If an agent is cut off all that time, the sum may exceed the limit until
//! it returns. The record keeps the excess as [`Entry::over`], and the agent is told to lower it.
//!
//! The tests inject all of these faults into a simulation in virtual time (`simulation`).
//!
//! # The rule
//!
//! [`divide`] computes what each node should hold, from needs that ignore fluctuations of 8%. A
//! node that holds less than 96% of what it needs and should hold *lacks* CPU, and gets what is
//! free. If that is not enough, the nodes with the largest excess are told to lower their parts: as
//! few as possible, because each of them writes. The rest is divided evenly, with lower priority.
//! Hence there are no writes while needs are constant, and few while they fluctuate by 3%.
//!
//! Two replicas that hear different nodes may disagree: a node may get back what it gave up for
//! another one. Both grant to whichever asks first, so a node that lacks CPU gets it within
//! seconds. If no replica hears both nodes, each keeps what it holds.
//!
//! `../adr/0006-leases.md` covers what one agent can do to others, deviations from the source, and
//! the cost.
#![allow(missing_docs, reason = "nobody publishes this crate, and most names need no comment")]

mod divide;
mod grantor;
mod holder;
mod message;
mod part;
mod record;

pub use divide::{Need, divide};
pub use grantor::{Grantor, HEARS, LIVE, NEW};
pub use holder::{Holder, Lease};
pub use message::{Ask, Asks, LEASE_PATH, Told, Tolds};
pub use part::Part;
pub use record::{Entry, MOST_BYTES, MOST_COUNT, MOST_NODES, Record};

#[cfg(test)]
mod simulation;
