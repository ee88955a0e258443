//! A discrete-event simulator of senders, servers and the network between them, in virtual time.
//!
//! The decisions are those of `bloc-policy`, the very code that runs in the filters; everything
//! around them is modelled. It answers in seconds what a real mesh answers in hours, for sizes that
//! no single machine can start, and with an omniscient balancer beside it as the mark to reach.
//!
//! | module | what it holds |
//! |---|---|
//! | [`scenario`], [`load`], [`service_time`], [`back_off`], [`incident`] | what is simulated, as the command line writes it |
//! | [`policies`] | who decides: one file for each policy, behind three small traits |
//! | [`engine`] | the events and what they do |
//! | [`fleet`], [`requests`], [`events`] | servers and their queues; requests under way; the queue of events |
//! | [`outcome`] | what came out |
//! | [`figure`], [`chart`] | figure 5.6 of the paper |
//! | [`estimators`] | where a server's capacity comes from: ours beside published ones |
//!
//! What is modelled, and what is not: a request costs a service time that is drawn once and stays
//! its own through all retries; a server works on `concurrency` requests at once, each at the
//! server's speed, and the others wait in one FIFO line; a request in service keeps the speed at
//! which it began. The network delays, it neither loses nor reorders. What gateway, connections and
//! proxies cost is one constant before and behind the sender (`edge`) and one between a server and
//! its application, which a rejection does not pay (`application`); that they take turns on a CPU
//! is not modelled, so compare with a real mesh at service times well above a millisecond.
//! `bloc-lab agree` does so, with replayed arrivals and measured constants.
//!
//! Every draw comes from one of four generators (arrivals, service times, senders, servers), all
//! seeded from one number: the same seed gives the same result, and every policy meets the same
//! arrivals with the same service times.

pub mod back_off;
pub mod chart;
pub mod engine;
pub mod estimators;
pub mod events;
pub mod figure;
pub mod fleet;
pub mod incident;
pub mod load;
pub mod outcome;
pub mod policies;
pub mod requests;
pub mod scenario;
pub mod service_time;

pub use engine::{run, run_with};
pub use outcome::Outcome;
pub use scenario::Scenario;
