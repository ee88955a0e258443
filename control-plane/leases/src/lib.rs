//! How nodes share the limit of an application: each holds a part of it, and parts move to where
//! they are needed. Never do the nodes hold more than the limit together, whatever is lost,
//! repeated, late or restarted.
//!
//! A part is a number of millionths of the limit ([`Part`]). A [`Record`] says which node holds
//! which part of one application; it is kept where a write succeeds only if nobody else has written
//! since (compare-and-swap), such as in an object of Kubernetes. Each replica of the control plane
//! may write it. Agents tell every replica what they want ([`Ask`]), twice a second, and hear what
//! they hold ([`Told`]).
//!
//! # Safety
//!
//! 1. A part rises in the record first. The agent uses it once it is told.
//! 2. A part falls at the node first: the agent lowers the quotas, keeps the lower part on its
//!    disk, takes its next number, and only then says so. The record follows.
//! 3. A record never gives more than all of the limit.
//!
//! So a node never uses more than the record says that it holds. What is late does no harm:
//!
//! - An agent counts what it has given (`number`, which goes on when an application is left and
//!   comes back), and starts counting anew with each start (`life`, which only grows). It hears
//!   only what was said to its present life and number: parts of before a fall are not taken up
//!   again.
//! - For one life and number a part only rises. So an agent ignores what says less than it holds:
//!   it is older.
//! - A replica takes a fall only with a number, or a life, that is later than the record's: what
//!   was said before a rise does not lower it. The first number of a life lowers nothing.
//! - A replica that knows an old record cannot write. What it says of it is safe, as parts only
//!   rise.
//!
//! A node that is silent keeps its part. Who knows that a node no longer exists may
//! [free](Record::free) it.
//!
//! An agent that lost its disk, and whose clock went back, begins a life that is over. Replicas
//! answer late asks with the life and number of the record, and the agent begins a later life. This
//! takes that requests of the old agent are no longer under way: a lost disk takes longer than the
//! time limit of a request.
//!
//! A record that is lost is made anew from what the agents say that they hold, and gives nothing
//! else while it is [new](Record::is_new). If an agent is cut off for all of that time, the sum may
//! exceed the limit until it is back. The record has no room for what is too much then
//! ([`Entry::over`]), and the agent is told to lower it.
//!
//! The tests break all of this in a simulation, in virtual time (`simulation`).
//!
//! # What one agent can do to others
//!
//! An agent speaks for its own node only. It can say that its containers keep all of an
//! application's limit at least. If those of the others keep the part `x`, it gets up to
//! `1 / (1 + x)`; the others are to hold that share of what they keep, and an agent lowers nothing
//! below what its containers keep. It can keep what it holds, and make replicas write at each ask.
//! It cannot raise the sum. Lives and numbers end at [`MOST_COUNT`]: with these, its own node stays
//! as it is until it is freed.
//!
//! # The rule
//!
//! [`divide`] says what each should hold, by the needs without their fluctuations of 8%. A node
//! that holds less than 96% of what it needs and should hold *lacks* CPU. It gets what is free. If
//! that is too little, the nodes with most above what they should hold are told to leave it: as few
//! as possible, as each of them writes. The rest is divided evenly, without haste. So nobody writes
//! while needs stand still, and hardly anybody while they fluctuate by 3%.
//!
//! Two replicas that hear different nodes may disagree; a node then takes back from one what it
//! left for another. Each of them gives to whoever asks first, so what lacks CPU gets it after some
//! seconds, unless no replica hears both nodes: then each keeps what it holds.
//!
//! Source: Escra (2022), section IV-D, which has one limit over nodes and one controller that knows
//! all containers. Deviations:
//!
//! 1. Nodes hold parts, and the agents move CPU between containers each 100 ms without anybody.
//! 2. Parts are asked for twice a second, and what is left is divided evenly.
//!
//! Cost: a second of 1,000 asks of 1,000 nodes takes 10 ms of CPU (2026-11-26, release build). If
//! all 1,000 share a limit that is too small and one more comes, nearly each of them writes once.

mod divide;
mod grantor;
mod holder;
mod message;
mod part;
mod record;
mod steady;

pub use divide::{Need, divide};
pub use grantor::{Grantor, HEARS, LIVE, NEW};
pub use holder::{Holder, Lease};
pub use message::{Ask, Asks, LEASE_PATH, Told, Tolds};
pub use part::Part;
pub use record::{Entry, MOST_BYTES, MOST_COUNT, MOST_NODES, Record};

#[cfg(test)]
mod simulation;
