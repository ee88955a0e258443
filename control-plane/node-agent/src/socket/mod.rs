//! What sidecars are told that ask the agent itself, at a unix socket of their own pod. So a new
//! quota needs no way over the control plane. `--sockets DIR` turns it on.
//!
//! `DIR/NAMESPACE_NAME/self.sock`, for each pod of an application. A sidecar mounts the directory
//! of its pod, so the path says who asks ([ADR](../../adr/0006-a-socket-for-each-pod.md)).
//! HTTP/1.1:
//!
//! `GET /v1/self?cores=0.8&wait=10s`
//!
//! | parameter | meaning |
//! |---|---|
//! | `cores` | what the asker has from here, above 0, at most 100000; absent: nothing |
//! | `wait` | how long the answer may be held, `0s` to `60s`; absent: not at all |
//!
//! The answer is `{"cores":0.8,"used":0.31}`: the quotas of the pod's containers, and their use in
//! the last second. It is `{}` if the agent manages none of these quotas, such as in `mode:
//! observe`. It comes once the cores differ by 5% from what the asker has, 200 ms after the last
//! such answer of that socket at the earliest, or when the wait is over. An agent that has just
//! started holds questions until it knows what it manages; if their wait is over before, it answers
//! 304. A socket
//! has 16 connections, and 20 requests and 20 new connections a second.
//!
//! 400: a parameter is not allowed. 404: another path. 405: another method.
//!
//! Once it runs, whatever happens here, quotas move: it runs beside the thread of the steps, and
//! only reads what that publishes.
//!
//! | module | what it is for |
//! |---|---|
//! | `pods` | which sockets there are |
//! | `directory` | directories and files |
//! | `server` | connections and requests |
//! | `question` | the parameters |
//! | `poll` | when an answer is due |

mod directory;
mod pods;
#[cfg(test)]
mod pods_tests;
mod poll;
mod question;
mod server;
#[cfg(test)]
mod server_tests;
#[cfg(test)]
mod sidecar;

pub use directory::Directory;
pub use pods::serve;
pub use server::Counts;
