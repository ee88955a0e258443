//! The decisions of BLOC, free of any host: no I/O, no clock, no entropy. Time and randomness are
//! handed in.
//!
//! | module | decides |
//! |---|---|
//! | [`admission`] | whether a server takes a request, and whether an answer carries a chip |
//! | [`server`] | what one server decides and measures: admission, capacity, service rate, report |
//! | [`limiter`], [`wait_queue`] | which requests the application works on, and which a sidecar holds, in which order |
//! | [`body`] | which bodies are too large to be held or sent again |
//! | [`activity`] | when a stream is idle and does not count |
//! | [`count`] | how many requests are in flight over all threads, and the recount that corrects it after a crash |
//! | [`departures`], [`service_rate`] | how fast a server is (Mu's measured capacity); [`server`] combines them |
//! | [`execution`], [`work`] | how long a request takes on average, and whether that has changed |
//! | [`age`] | how much longer the request takes that is being worked on |
//! | [`places`] | how many requests the application works on at once, where that is not configured |
//! | [`estimate`] | what a sender believes about a server between two reports |
//! | [`capacity`] | how many requests a server admits: a number, an average, or from the SLO |
//! | [`cpu`] | what the application has of CPU, and how the threads share that |
//! | [`endpoints`] | what a sender knows of each server: chips, when it may be probed, pending requests |
//! | [`doubt`] | which servers are too fast to be believed, and which are starved |
//! | [`failures`] | how often a server fails, and which of its failures count against it |
//! | [`routing`] | which servers a request tries, and in which order; a file for each, such as [`Mu`](routing::Mu) |
//! | [`sender`] | what one worker decides about its requests to one cluster |
//! | [`cluster_name`] | which service a cluster belongs to, and which of its endpoints it has |
//! | [`retries`] | how often a request may be sent again, and after what |
//! | [`retry_budget`] | how often a sender may retry for other reasons than a rejection |
//! | [`bid`] | how long a response time an attempt accepts |
//! | [`bid_pause`] | how long there are no bids once Envoy did not retry a bounce |
//! | [`discovery`] | when a sender without an endpoint list looks for unknown servers |
//! | [`wire`] | nothing: the headers that carry bids, loads, rejections and lists of servers |
//! | [`crashes`] | when a worker fails open because the proxy's VMs crashed too often |
//! | [`shared`], [`awake`], [`roster`], [`follower`] | how the threads of one proxy share what they know |
//! | [`polls`] | when a proxy asks the control plane |
//! | [`latency`] | nothing: how long requests take, in buckets that add up |
//! | [`reports`] | what a poll reports of the load, so that each event counts once |
//! | [`features`] | what a neighbour of another version is sent |
//! | [`config`], [`sync`] | the configuration, and the messages that carry it |
//! | [`units`], [`rng`], [`inserted`] | nothing: numbers with units, random numbers, maps without sorting |

#![cfg_attr(not(test), deny(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing))]

pub mod activity;
pub mod admission;
pub mod age;
pub mod awake;
pub mod bid;
pub mod bid_pause;
pub mod body;
pub mod capacity;
pub mod cluster_name;
pub mod config;
pub mod count;
pub mod cpu;
pub mod crashes;
pub mod departures;
pub mod discovery;
pub mod doubt;
pub mod endpoints;
pub mod estimate;
pub mod execution;
pub mod failures;
pub mod features;
pub mod follower;
mod hold;
pub mod inserted;
pub mod latency;
mod ledger;
pub mod limiter;
mod members;
pub mod places;
pub mod polls;
pub mod reports;
pub mod retries;
pub mod retry_budget;
pub mod rng;
pub mod roster;
pub mod routing;
pub mod sender;
pub mod server;
pub mod service_rate;
pub mod shared;
pub mod sync;
pub mod trial;
pub mod units;
pub mod wait_queue;
pub mod wire;
pub mod work;
