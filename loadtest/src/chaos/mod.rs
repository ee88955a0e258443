//! Faults under load: what breaks in a mesh of real Envoys, one thing after the other, and whether what is promised holds.
//!
//! A small mesh carries half of what it can. After an undisturbed time one fault after the other is put in under this load, in an order and at victims that the seed
//! determines, and mended again. The last case floods the service with five times what it can do. Asked is, each time:
//!
//! 1. *Lost*: requests without the application's answer, except those that were in a process that was killed, and those that nobody could have taken. Promised: none.
//! 2. *Recovery*: how long the 99th percentile (of the last three seconds; a lost request counts as the client's patience) takes until it stays below twice
//!    the undisturbed one. Promised: [`SETTLE`](judge::SETTLE) after the fault began where others can take over, otherwise after it ended.
//! 3. *Retries* beyond those after rejections, in relation to the requests. Promised: at most the retry budget and what it allows at once.
//! 4. *Spread*: the share of requests that a server takes which fails fast. Promised: at most 1.5 times its fair share.
//! 5. *Answers*: requests that a sidecar holds which stands still most of the time. Promised: each is answered, or refused.
//! 6. *Configurations*: listeners with other plugin configurations that come, are rolled back while they
//!    drain, and are gone. Promised: what is in force is what was written last; nobody waits longer, and
//!    no more is lost, than without our filters; the control plane is heard afterwards.
//! 7. *Uploads*: bodies that Envoy cannot repeat, at servers that bounce. Promised: all are served.
//! 8. *Recovery of a server*: the share that it gets once it is well again, with each routing.
//!    Promised: 0.8 of its fair share, over the 20 s that begin 10 s after that.
//! 9. *Goodput* in the flood, as a share of the capacity. Promised: 0.9.

mod fault;
mod impossible;
pub mod judge;
mod liar;
mod recovery;
mod rollback;
mod run;
mod uploads;
mod weather;

pub use fault::{FAULTS, Fault};
pub use run::{Chaos, Outcome};
pub use weather::enter_namespace;
