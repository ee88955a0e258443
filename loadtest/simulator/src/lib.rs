//! A discrete-event simulator of senders, servers and the network between them, in virtual time.
//!
//! The decisions are made by `bloc-policy`, the code that runs in the filters; everything else is
//! modelled. The simulator answers in seconds what a real mesh answers in hours, for sizes that no
//! single machine can run, and compares with an omniscient balancer.
//!
//! | module | contents |
//! |---|---|
//! | [`scenario`], [`load`], [`back_off`], [`incident`] | what is simulated, in the notation of the command line; service times are in `bloc-figures` |
//! | [`policies`] | the policies: one file each, behind three small traits |
//! | [`engine`] | the events and what they do |
//! | [`fleet`], [`requests`], [`events`] | servers and their queues; requests under way; the queue of events |
//! | [`outcome`] | the results |
//! | [`figure`] | figure 5.6 of the paper |
//! | [`regimes`] | the map: for which services bids gain, and for which they change nothing |
//! | [`late_binding`] | the table of `reserve`, beside bids and balancers that see everything |
//! | [`estimators`] | the source of a server's capacity: our estimators beside published ones |
//! | [`quota`] | the node agent's CPU quotas beside others |
//! | [`memory`] | its memory limits beside others |
//! | [`qos`] | its CPU shares beside others |
//!
//! The model: a request draws its service time once and keeps it through all retries. A server
//! works on `concurrency` requests at once, each at the server's speed; the others wait in one FIFO
//! queue. A request in service keeps the speed at which it began. The network delays, but neither
//! loses nor reorders. The cost of gateway, connections and proxies is one constant around the
//! sender (`edge`) and one between a server and its application (`application`), which a rejection
//! does not pay. That they compete for a CPU is not modelled, so compare with a real mesh at
//! service times well above a millisecond. `bloc-lab agree` does so, with replayed arrivals and
//! measured constants.
//!
//! Every draw comes from one of six generators (arrivals, service times, senders, servers, streams,
//! losses), all seeded from one number: the same seed gives the same result, and every policy gets
//! the same arrivals with the same service times.

pub mod back_off;
pub mod engine;
pub mod estimators;
pub mod events;
pub mod figure;
pub mod fleet;
pub mod incident;
pub mod late_binding;
pub mod load;
pub mod memory;
pub mod outcome;
pub mod policies;
pub mod qos;
pub mod quota;
pub mod regimes;
pub mod requests;
pub mod scenario;

pub use engine::{run, run_with};
pub use outcome::Outcome;
pub use scenario::Scenario;
